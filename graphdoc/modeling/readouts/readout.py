"""What a readout has to say: how the nodes of a document become its vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from ...errors import SettingsError
from ...graphs.batch import GraphBatch

if TYPE_CHECKING:
    from ..configuration import DocumentConfig
    from ..outputs import DocumentOutput


@dataclass(frozen=True)
class ReadoutOutput:
    """What a readout gives; the fields are those of :class:`~graphdoc.modeling.outputs.DocumentOutput`."""

    documents: Tensor
    readout_weights: Tensor | None = None
    sections: Tensor | None = None
    document_of_section: Tensor | None = None
    chunk_pairs: Tensor | None = None
    chunk_attention: Tensor | None = None
    chunk_queries: Tensor | None = None
    chunk_keys: Tensor | None = None


class Readout(nn.Module, ABC):
    """How the nodes of a document become its vector: a file in this folder and a line in :mod:`graphdoc.registry`.

    Args:
        config: configuration of the model.

    Attributes:
        description: what the document vector is, in words that go on after "the document vector is".
        settings: the fields of the configuration that it reads.
        reads_initial_nodes: whether it reads nodes as they are before the graph, which then only shows its attention.
        has_sections: whether it makes vectors of the sections that a document is split into; elsewhere section vectors
            are means of passages under the readout's weights.
    """

    description: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ()
    reads_initial_nodes: ClassVar[bool] = False
    has_sections: ClassVar[bool] = False

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__()
        self.name = config.readout

    @property
    def own_attention(self) -> str | None:
        """Where it looks, in words: whose weights can differ between passages; None for one without such weights.

        Where it is None, the attention of the graph is taken for that of the model, or there is none.
        """
        return None

    @classmethod
    def width(cls, config: DocumentConfig) -> int:
        """Width of document vectors, and of section vectors."""
        return config.node_size

    @classmethod
    def check(cls, config: DocumentConfig) -> None:
        """Check settings that have to fit each other.

        Raises:
            ValueError: they do not; the message names them and the fix.
        """

    @classmethod
    def describe(cls, config: DocumentConfig) -> dict[str, Any]:
        """What it is made with: the fields of the configuration that it has."""
        return {name: getattr(config, name) for name in cls.settings}

    def init_weights(self, module: nn.Module) -> bool:
        """Initialise one of its modules; False leaves that to transformers."""
        return False

    @abstractmethod
    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attention: bool = False
    ) -> ReadoutOutput:
        """Read document vectors off the nodes.

        Args:
            nodes: ``(nodes, node size)``.
            passages: ``(passages, node size)``, the passages among them, document after document.
            batch: the graphs the nodes belong to; every document has at least one passage.
            output_attention: also return the weights of its own attention, if it has any.

        Returns:
            Document vectors, and what else it knows. One that makes no section vectors, and whose vectors without
            graph layers are not the plain mean of the passages, has to give ``readout_weights`` and to name them in
            :attr:`own_attention`: one number for every passage, not negative, summing to 1 over a document. Where
            every number of a passage has a weight of its own, that is their mean over the numbers.
        """

    @abstractmethod
    def terms(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        """Read the vector of one document, which is not split, off nodes that are given as sums over passages.

        A readout that is not linear holds what multiplies a part at the value that it has for the whole, and shares
        constants, such as biases, equally between the passages: one that weighs every number of a passage by itself
        multiplies the parts of that passage by these weights, all of them and not their mean.

        Args:
            states: ``(origins, nodes, node size)``, the part of every node that stems from each origin.
            batch: that document alone.
            output: the model's output for it, with attention.

        Returns:
            ``(origins, hidden)``; over all passages as origins, they add up to ``output.documents[0]``.
        """

    def initial_terms(self, passages: Tensor, output: DocumentOutput) -> Tensor | None:
        """The same without a graph between: a shorter way, where it has one, when nodes are as they were at first.

        Args:
            passages: ``(passages, node size)`` of one document.
            output: the model's output for it.

        Returns:
            ``(passages, hidden)``, adding up to ``output.documents[0]``; None for what :meth:`terms` makes of it.
        """
        return None

    def start_at_mean(self) -> None:
        """Set its layers so that document vectors are the mean of the passage nodes, or nearly.

        A readout whose vectors are that mean without any layer has nothing to do; one that cannot give it, or would
        not learn from there, keeps this refusal.

        Raises:
            SettingsError: a layer does not allow it; the message names the setting and the fix.
        """
        raise no_start_at_mean([f"readout={self.name} (set it to mean or document_node)"])


def no_start_at_mean(reasons: Sequence[str]) -> SettingsError:
    """The refusal of a start at the mean of passages.

    Args:
        reasons: the settings that do not allow it, each with its fix.
    """
    return SettingsError(f"a start at the mean of passages is not possible with {' and '.join(reasons)}")


def mean_by_group(vectors: Tensor, group_of: Tensor, counts: Tensor) -> Tensor:
    """The mean of the vectors of every group; zero for a group without any.

    Args:
        vectors: ``(rows, hidden)``.
        group_of: ``(rows,)``.
        counts: ``(groups,)``, rows of every group.

    Returns:
        ``(groups, hidden)``.
    """
    return sum_by_group(vectors, group_of, counts, mean_weights(vectors, group_of, counts))


def mean_weights(vectors: Tensor, group_of: Tensor, counts: Tensor) -> Tensor:
    """The weight of every row in the mean of its group, ``(rows,)`` (see :func:`mean_by_group`)."""
    return 1.0 / counts.clamp(min=1).to(vectors.dtype)[group_of]


def sum_by_group(vectors: Tensor, group_of: Tensor, counts: Tensor, weights: Tensor) -> Tensor:
    """Sum vectors by group under ``(rows,)`` weights, ``(groups, hidden)`` (see :func:`mean_by_group`)."""
    result = torch.zeros(len(counts), vectors.shape[1], dtype=vectors.dtype, device=vectors.device)
    return result.index_add(0, group_of, vectors * weights.unsqueeze(-1))
