"""The document node as document vector."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ...graphs.batch import GraphBatch
from ..outputs import DocumentOutput
from .readout import Readout, ReadoutOutput


class DocumentNodeReadout(Readout):
    """Takes the document node after the last graph layer (Graph-RoBERTa, section 2.1)."""

    description: ClassVar[str] = "the document node, which starts as the mean of the passages"

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attention: bool = False
    ) -> ReadoutOutput:
        """Take the document nodes (see :meth:`Readout.forward`)."""
        return ReadoutOutput(nodes.index_select(0, batch.rows.documents))

    def terms(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        """The parts of the document node (see :meth:`Readout.terms`)."""
        return states.index_select(1, batch.rows.documents).squeeze(1)

    def start_at_mean(self) -> None:
        """Change nothing: the document node begins as the mean of the passages."""
