"""Means of the passage nodes, after the graph or before it."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ...graphs.batch import GraphBatch
from ..outputs import DocumentOutput
from .readout import Readout, ReadoutOutput, mean_weights, sum_by_group


class WeightedReadout(Readout):
    """A weighted mean of the passage nodes; subclasses say with which weights."""

    def weights(self, passages: Tensor, batch: GraphBatch) -> Tensor:
        """The weight of every passage, ``(passages,)``, summing to 1 over a document; equal ones here."""
        return mean_weights(passages, batch.rows.document_of, batch.rows.counts)

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attention: bool = False
    ) -> ReadoutOutput:
        """Take the weighted mean (see :meth:`Readout.forward`)."""
        weights = self.weights(passages, batch)
        return ReadoutOutput(sum_by_group(passages, batch.rows.document_of, batch.rows.counts, weights), weights)

    def terms(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        """Sum the parts of the passages under the weights, held still (see :meth:`Readout.terms`)."""
        assert output.readout_weights is not None
        return torch.einsum("p,oph->oh", output.readout_weights, states.index_select(1, batch.rows.passages))

    def initial_terms(self, passages: Tensor, output: DocumentOutput) -> Tensor:
        """The passages times their weights (see :meth:`Readout.initial_terms`)."""
        assert output.readout_weights is not None
        return passages * output.readout_weights.unsqueeze(-1)


class MeanReadout(WeightedReadout):
    """Gives every passage node the same weight."""

    description: ClassVar[str] = "the mean of the passages after the graph"

    def start_at_mean(self) -> None:
        """Change nothing: it is the mean."""


class InitialMeanReadout(MeanReadout):
    """Gives every passage the same weight, as it is before the graph, whose attention is then shown beside it."""

    description: ClassVar[str] = "the mean of the passages before the graph"
    reads_initial_nodes: ClassVar[bool] = True
