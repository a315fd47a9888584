"""Readouts: how the nodes of a document become its vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from transformers.utils.generic import ModelOutput

from ..errors import ModelError, SettingsError
from ..graphs.batch import GraphBatch
from ..settings.base import Settings
from .graph_attention import softmax_by_group

if TYPE_CHECKING:
    from .configuration import DocumentConfig


@dataclass
class DocumentOutput(ModelOutput):
    """Vectors of a batch of documents.

    Args:
        documents: ``(documents, hidden)``, document vectors.
        passages: ``(passages, node size)``, passage nodes after the last graph layer, document after document.
        nodes: ``(nodes, node size)``, all nodes after the last graph layer.
        readout_weights: ``(passages,)``, weight of every passage in its document's readout, not negative and summing
            to 1 over a document. None for readouts that make section vectors, and for those whose vector without graph
            layers is the plain mean of the passages.
        attention: for every graph layer ``(edges, heads)`` attention weights in the order of the batch's edges,
            summing to 1 over the edges of one target; None unless asked for.
        layer_inputs: ``(nodes, node size)`` for every graph layer, what went in; None unless attention is asked for.
        sections: ``(sections, hidden)``, section vectors, document after document; None for readouts that make none.
        chunk_pairs: ``(2, pairs)``, passages that chunkwise attention looks at, above those that look; None unless
            attention is asked for and the readout has it, like what follows.
        chunk_attention: ``(pairs, heads)``, its weights, summing to 1 over the pairs of one passage that looks.
        chunk_queries: ``(passages, heads, width)``, what passages look for in chunkwise attention.
        chunk_keys: ``(passages, heads, width)``, what passages are found by.
        logits: ``(documents, classes)`` in fp32; None for a model without head, or whose head reads words not given.
        subtopics: ``(passages, columns)`` in fp32, logits of subtopics of every sentence, where the model has
            learned them and documents are pairs, with their graphs; else None.
    """

    documents: Tensor | None = None
    passages: Tensor | None = None
    nodes: Tensor | None = None
    readout_weights: Tensor | None = None
    attention: tuple[Tensor, ...] | None = None
    layer_inputs: tuple[Tensor, ...] | None = None
    sections: Tensor | None = None
    chunk_pairs: Tensor | None = None
    chunk_attention: Tensor | None = None
    chunk_queries: Tensor | None = None
    chunk_keys: Tensor | None = None
    logits: Tensor | None = None
    subtopics: Tensor | None = None


class Readout(nn.Module, ABC):
    """How the nodes of a document become its vector: a class and a line in :mod:`graphdoc.registry`.

    Attributes:
        description: what the document vector is, in words that go on after "the document vector is".
        settings: its own settings, which a model has under ``readout_settings``; none unless it says otherwise.
        reads_initial_nodes: whether it reads nodes as they are before the graph, which then only shows its attention.
        starts_at_mean: whether vectors of new layers are the mean of the passages.
        has_sections: whether it makes vectors of the sections that a document is split into; elsewhere section vectors
            are means of passages under the readout's weights.
    """

    description: ClassVar[str]
    settings: ClassVar[type[Settings]] = Settings
    reads_initial_nodes: ClassVar[bool] = False
    has_sections: ClassVar[bool] = False
    starts_at_mean: ClassVar[bool] = False

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__()
        self.name = config.readout

    @property
    def own_attention(self) -> str | None:
        """Description of the readout's attention; None if it has no weights and the graph's attention is shown."""
        return None

    @classmethod
    def width(cls, config: DocumentConfig) -> int:
        """Width of document vectors, and of section vectors."""
        return config.node_size

    def init_weights(self, module: nn.Module) -> bool:
        """Initialize one of its modules; False leaves that to transformers."""
        return False

    @abstractmethod
    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attentions: bool = False
    ) -> DocumentOutput:
        """Read document vectors off the nodes.

        Args:
            nodes: ``(nodes, node size)``.
            passages: ``(passages, node size)``, the passages among them, document after document.
            batch: the graphs the nodes belong to; every document has at least one passage.
            output_attentions: also return the readout's attention weights, if it has any.

        Returns:
            Document vectors, and what else it knows. One that makes no section vectors, and whose vectors without
            graph layers are not the plain mean of the passages, has to give ``readout_weights`` and to name them in
            :attr:`own_attention`.
        """

    def attribute(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        """Read the vector of one document, which is not split, off nodes that are given as sums over passages.

        A readout that is not linear holds what multiplies a part at the value that it has for the whole, and shares
        constants, such as biases, equally between the passages.

        Args:
            states: ``(origins, nodes, node size)``, the part of every node that stems from each origin.
            batch: that document alone.
            output: the model's output for it, with attention.

        Returns:
            ``(origins, hidden)``; over all passages as origins, they add up to ``output.documents[0]``.

        Raises:
            ModelError: the readout has no exact attribution, as those have that do not define this.
        """
        raise ModelError(
            f"readout={self.name} has no exact attribution: it cannot say what a passage adds to a vector, so that "
            "documents can be encoded, but neither compared nor explained by passages"
        )

    def start_at_mean(self) -> None:
        """Set its layers so that document vectors are the mean of the passage nodes, or nearly.

        Raises:
            SettingsError: a layer does not allow it, or, unless a readout says otherwise, the readout cannot give it.
        """
        if not self.starts_at_mean:
            refuse_start_at_mean(f"readout={self.name} (set it to mean or document_node)")


def refuse_start_at_mean(*reasons: str) -> None:
    """Refuse a start at the mean of passages where settings, each with its fix, do not allow it."""
    if reasons:
        raise SettingsError(f"a start at the mean of passages is not possible with {' and '.join(reasons)}")


def mean_by_group(vectors: Tensor, group_of: Tensor, counts: Tensor) -> Tensor:
    """The mean of the vectors ``(rows, hidden)`` of every group; zero for a group without any.

    Args:
        vectors: ``(rows, hidden)``.
        group_of: ``(rows,)``.
        counts: ``(groups,)``, rows of every group.

    Returns:
        ``(groups, hidden)``.
    """
    return sum_by_group(vectors, group_of, counts, 1.0 / counts.clamp(min=1).to(vectors.dtype)[group_of])


def sum_by_group(vectors: Tensor, group_of: Tensor, counts: Tensor, weights: Tensor) -> Tensor:
    """Sum vectors by group under ``(rows,)`` weights, ``(groups, hidden)`` (see :func:`mean_by_group`)."""
    return vectors.new_zeros(len(counts), vectors.shape[1]).index_add(0, group_of, vectors * weights.unsqueeze(-1))


class WeightedReadout(Readout):
    """A weighted mean of the passage nodes; subclasses say with which weights."""

    def weights(self, passages: Tensor, batch: GraphBatch) -> Tensor:
        """The weight of every passage, ``(passages,)``, summing to 1 over a document; equal ones here."""
        return 1.0 / batch.rows.counts.clamp(min=1).to(passages.dtype)[batch.rows.document_of]

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attentions: bool = False
    ) -> DocumentOutput:
        """Take the weighted mean (see :meth:`Readout.forward`)."""
        weights = self.weights(passages, batch)
        documents = sum_by_group(passages, batch.rows.document_of, batch.rows.counts, weights)
        return DocumentOutput(documents=documents, readout_weights=weights)

    def attribute(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        """Sum the parts of the passages under the weights, held still (see :meth:`Readout.attribute`)."""
        assert output.readout_weights is not None
        return torch.einsum("p,oph->oh", output.readout_weights, states.index_select(1, batch.rows.passages))


class MeanReadout(WeightedReadout):
    """Gives every passage node the same weight."""

    description: ClassVar[str] = "the mean of the passages after the graph"
    starts_at_mean: ClassVar[bool] = True


class InitialMeanReadout(MeanReadout):
    """Gives every passage the same weight, as it is before the graph, whose attention is then shown with it."""

    description: ClassVar[str] = "the mean of the passages before the graph"
    reads_initial_nodes: ClassVar[bool] = True


class DocumentNodeReadout(Readout):
    """Takes the document node after the last graph layer (Graph-RoBERTa, section 2.1)."""

    description: ClassVar[str] = "the document node, which starts as the mean of the passages"
    starts_at_mean: ClassVar[bool] = True

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attentions: bool = False
    ) -> DocumentOutput:
        """Take the document nodes (see :meth:`Readout.forward`)."""
        return DocumentOutput(documents=nodes.index_select(0, batch.rows.documents))

    def attribute(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        """The parts of the document node (see :meth:`Readout.attribute`)."""
        return states.index_select(1, batch.rows.documents).squeeze(1)


class AttentionReadout(WeightedReadout):
    """Learns one score for every passage node; weights are the softmax over the passages of a document."""

    description: ClassVar[str] = "a mean of the passages after the graph, with weights that the readout learned"

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__(config)
        self.score = nn.Linear(config.node_size, 1)

    @property
    def own_attention(self) -> str:
        """Its weights."""
        return "the weights of the readout"

    def weights(self, passages: Tensor, batch: GraphBatch) -> Tensor:
        """The softmax of the scores, ``(passages,)``."""
        scores: Tensor = self.score(passages).squeeze(-1)
        return softmax_by_group(scores, batch.rows.document_of, len(batch))
