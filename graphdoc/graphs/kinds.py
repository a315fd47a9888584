"""Graph kinds, and the graphs of documents that they make, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DocumentError, SettingsError
from ..registry import GRAPH_KINDS, load
from ..runtime.arrays import Rows
from ..runtime.text import require_one_of, require_whole


class NodeKind(IntEnum):
    """What a node of a document graph stands for."""

    DOCUMENT = 0
    PASSAGE = 1
    SECTION = 2
    QUERY = 3


class EdgeKind(IntEnum):
    """What an edge of a document graph connects; every edge has exactly one kind."""

    SELF_LOOP = 0
    DOCUMENT_PASSAGE = 1
    WITHIN_SECTION = 2
    ACROSS_SECTIONS = 3
    SECTION_PASSAGE = 4
    DOCUMENT_SECTION = 5
    READOUT = 6
    CHUNKWISE = 7
    CONTRIBUTION = 8

    @property
    def label(self) -> str:
        """The name as tables and plots show it."""
        return self.name.lower().replace("_", " ")


# Edges of nodes that are all connected; beyond, a graph does not fit in memory.
MAXIMUM_EDGES = 40_000_000


@dataclass(frozen=True)
class GraphKind(ABC):
    """Which nodes of a document are connected.

    Node 0 is the document node, nodes 1 to n are the passages in reading order, and extra nodes for sections follow
    where a kind has them. Self-loops and the other direction of every edge are added to all kinds alike.

    A kind is a frozen dataclass and a line in :mod:`graphdoc.registry`. Its fields are its own settings, which checks
    them when it is made; a model has them under ``graph_settings``.
    """

    @abstractmethod
    def pairs(self, section_of: Rows) -> Rows:
        """The connected pairs of nodes, each once, ``(2, pairs)``, of passages in sections ``(passages,)``."""

    def section_nodes(self, section_of: Rows) -> Rows:
        """Section number of every extra node, ``(section nodes,)``; none unless a kind says otherwise."""
        return np.empty(0, np.int64)


def graph_kind(name: str, **settings: Any) -> GraphKind:
    """A graph kind by its name, with its own settings.

    >>> graph_kind("window", window=3)
    WindowGraph(window=3)
    """
    require_one_of("graph kind", name, list(GRAPH_KINDS))
    kind = load(GRAPH_KINDS[name])
    if unknown := settings.keys() - {field.name for field in fields(kind)}:
        raise SettingsError(f"graph_settings.{min(unknown)} is no setting of graph_kind={name}")
    return kind(**settings)  # type: ignore[no-any-return]


def section_starts(section_of: Rows) -> Rows:
    """Positions of the first passage of every section, in reading order."""
    _, first = np.unique(section_of, return_index=True)
    return np.sort(first).astype(np.int64)


def all_pairs(nodes: Rows) -> Rows:
    """Every pair of the given nodes once, ``(2, pairs)``."""
    count = len(nodes)
    if count * count > MAXIMUM_EDGES:
        raise DocumentError(
            f"a graph that connects {count:,} nodes with each other needs {count * count:,} edges (limit "
            f"{MAXIMUM_EDGES:,}); use graph kind 'window', or a smaller max_passages"
        )
    return nodes[np.stack(np.triu_indices(count, k=1))]


def star(centre: int, leaves: Rows) -> Rows:
    """A node with each of some others, ``(2, pairs)``."""
    return np.stack([np.full(len(leaves), centre, np.int64), leaves])


def pairs_within_sections(section_of: Rows) -> Rows:
    """Every pair of passages of one section, ``(2, pairs)``."""
    _, sizes = np.unique(section_of, return_counts=True)
    members = np.split(np.argsort(section_of, kind="stable") + 1, np.cumsum(sizes)[:-1])
    parts = [all_pairs(nodes) for nodes in members if len(nodes) > 1]
    return np.concatenate([np.empty((2, 0), np.int64), *parts], axis=1)


@dataclass(frozen=True)
class FullGraph(GraphKind):
    """Every pair of nodes is connected, the document node included (Graph-RoBERTa, section 3.1)."""

    def pairs(self, section_of: Rows) -> Rows:
        """All pairs of nodes."""
        return all_pairs(np.arange(len(section_of) + 1, dtype=np.int64))


@dataclass(frozen=True)
class SectionGraph(GraphKind):
    """Passages of a section with each other; the document node and the first passages of all sections with each other.

    Source: Graph-RoBERTa, section 3.3.
    """

    def pairs(self, section_of: Rows) -> Rows:
        """Pairs within sections, and pairs of the document node and the first passages."""
        hubs = np.concatenate([np.zeros(1, np.int64), section_starts(section_of) + 1])
        return np.concatenate([pairs_within_sections(section_of), all_pairs(hubs)], axis=1)


@dataclass(frozen=True)
class WindowGraph(GraphKind):
    """Passages at most ``window`` apart in reading order, and the document node with every passage."""

    window: int = 2

    def __post_init__(self) -> None:
        require_whole("window", self.window, may_be_none=False)

    def pairs(self, section_of: Rows) -> Rows:
        """A star around the document node, and passages at every distance up to the window."""
        passages = np.arange(1, len(section_of) + 1, dtype=np.int64)
        distances = range(1, min(self.window, len(passages) - 1) + 1)
        near = [np.stack([passages[:-distance], passages[distance:]]) for distance in distances]
        return np.concatenate([star(0, passages), *near], axis=1)


@dataclass(frozen=True)
class HierarchicalGraph(GraphKind):
    """Passages of a section with each other and with their section's node; section nodes with the document node."""

    def pairs(self, section_of: Rows) -> Rows:
        """Pairs within sections, passages with their section's node, and section nodes with the document node."""
        count, starts = len(section_of), section_starts(section_of)
        nodes = np.arange(len(starts), dtype=np.int64) + count + 1
        by_number = np.argsort(section_of[starts])
        rank = by_number[np.searchsorted(section_of[starts], section_of, sorter=by_number)]
        membership = np.stack([nodes[rank], np.arange(1, count + 1, dtype=np.int64)])
        return np.concatenate([pairs_within_sections(section_of), membership, star(0, nodes)], axis=1)

    def section_nodes(self, section_of: Rows) -> Rows:
        """One node for every section that has passages, in reading order."""
        return section_of[section_starts(section_of)]


_NO_SECTION = np.array([-1], np.int64)
_KINDS = np.array([NodeKind.DOCUMENT, NodeKind.PASSAGE, NodeKind.SECTION], np.int64)
# Edges of two nodes by their kinds; those within a section and self-loops are seen by the nodes themselves.
_KIND_OF_ENDS = np.full((len(_KINDS), len(_KINDS)), EdgeKind.ACROSS_SECTIONS, np.int64)
for _one, _other, _kind in (
    (NodeKind.DOCUMENT, NodeKind.PASSAGE, EdgeKind.DOCUMENT_PASSAGE),
    (NodeKind.DOCUMENT, NodeKind.SECTION, EdgeKind.DOCUMENT_SECTION),
    (NodeKind.PASSAGE, NodeKind.SECTION, EdgeKind.SECTION_PASSAGE),
):
    _KIND_OF_ENDS[_one, _other] = _KIND_OF_ENDS[_other, _one] = _kind


@dataclass(frozen=True, slots=True, eq=False)
class JoinedGraphs:
    """Graphs of documents, one after the other.

    Args:
        node_kind: ``(nodes,)``, values of :class:`~graphdoc.graphs.kinds.NodeKind`.
        section_of: ``(nodes,)``, section of a node within its document, -1 for document nodes.
        edge_index: ``(2, edges)``, source above target, nodes numbered through, sorted by target and then source.
        edge_kind: ``(edges,)``, values of :class:`~graphdoc.graphs.kinds.EdgeKind`.
        node_counts: ``(documents,)``, nodes of every document.
        edge_counts: ``(documents,)``, edges of every document.
        edge_weight: ``(edges,)``, above 0, how much an edge counts in graph attention; None where all count alike.
    """

    node_kind: Rows
    section_of: Rows
    edge_index: Rows
    edge_kind: Rows
    node_counts: Rows
    edge_counts: Rows
    edge_weight: npt.NDArray[np.float32] | None = None

    @classmethod
    def from_sections(cls, sections: Sequence[Rows], kind: GraphKind | str | None) -> JoinedGraphs:
        """Build graphs from the section number of every passage of every document, in reading order.

        Args:
            sections: ``(passages,)`` of every document.
            kind: a graph kind or its name; None for nodes without edges, where nothing reads them.

        Raises:
            DocumentError: a document has too many passages for its graph to fit in memory.
        """
        kind = graph_kind(kind) if isinstance(kind, str) else kind
        nothing = np.empty(0, np.int64)
        nodes = [(_NO_SECTION, own, nothing if kind is None else kind.section_nodes(own)) for own in sections]
        lengths = np.array([[len(part) for part in parts] for parts in nodes], np.int64)
        counts = lengths.sum(axis=1)
        node_kind = np.repeat(np.tile(_KINDS, len(lengths)), lengths.reshape(-1))
        section_of = np.concatenate([part for parts in nodes for part in parts])
        if kind is None:
            return cls(node_kind, section_of, np.empty((2, 0), np.int64), nothing, counts, np.zeros_like(counts))
        pairs = [kind.pairs(numbers) for numbers in sections]
        pair_counts = np.array([part.shape[1] for part in pairs], np.int64)
        ends = np.concatenate(pairs, axis=1) + np.repeat(np.cumsum(counts) - counts, pair_counts)
        total = len(node_kind)
        # Every edge is a number that says where it comes in the order.
        keys = np.concatenate([ends[1] * total + ends[0], ends[0] * total + ends[1], np.arange(total) * (total + 1)])
        keys.sort()
        edges = np.stack(np.divmod(keys, total)[::-1])
        return cls(
            node_kind, section_of, edges, _edge_kinds(edges, node_kind, section_of), counts, 2 * pair_counts + counts
        )

    @classmethod
    def from_similarities(cls, sections: Sequence[Rows], similarities: Sequence[npt.ArrayLike]) -> JoinedGraphs:
        """Build graphs in which passages are connected that are similar, and edges weigh as much as they are.

        Weights are those of the normalized adjacency :math:`D^{-1/2} A D^{-1/2}`, self-loops have the weight 1, and
        the document node has no other edge. It is no graph kind, since kinds are made before there are any vectors.

        Args:
            sections: ``(passages,)`` of every document, section number of every passage.
            similarities: ``(passages, passages)`` of every document, symmetric and not negative.
        """
        alone = cls.from_sections(sections, None)
        counts, node_kind, section_of = alone.node_counts, alone.node_kind, alone.section_of
        edges, weights, edge_counts = [], [], []
        for start, similarity in zip((np.cumsum(counts) - counts).tolist(), similarities, strict=True):
            adjacency = np.zeros((len(similarity) + 1,) * 2)  # type: ignore[arg-type]
            adjacency[1:, 1:] = normalized_adjacency(similarity)
            np.fill_diagonal(adjacency, 1.0)
            target, source = np.nonzero(adjacency)
            edges.append(np.stack([source, target]) + start)
            weights.append(adjacency[target, source])
            edge_counts.append(len(target))
        joined = np.concatenate(edges, axis=1)
        weight, of_edges = np.concatenate(weights).astype(np.float32), np.array(edge_counts, np.int64)
        return cls(node_kind, section_of, joined, _edge_kinds(joined, node_kind, section_of), counts, of_edges, weight)

    @classmethod
    def from_queries(cls, sections: Sequence[int]) -> JoinedGraphs:
        """Graphs of queries, one node each, whose vector is its initial one (Graph-RoBERTa, section 3.3).

        The node is a passage and stands for the document too; no graph attention reaches it.
        """
        nodes = np.arange(len(sections), dtype=np.int64)
        ones = np.ones_like(nodes)
        node_kind, edge_kind = np.full_like(nodes, NodeKind.QUERY), np.full_like(nodes, EdgeKind.SELF_LOOP)
        return cls(node_kind, np.asarray(sections, np.int64), np.stack([nodes, nodes]), edge_kind, ones, ones)

    @classmethod
    def join(cls, parts: Sequence[JoinedGraphs]) -> JoinedGraphs:
        """All graphs of some rows of graphs, in one row."""
        ends = np.cumsum([len(part.node_kind) for part in parts])
        edges = [part.edge_index + end - len(part.node_kind) for part, end in zip(parts, ends.tolist(), strict=True)]
        weights = None
        if any(part.edge_weight is not None for part in parts):
            ones = np.ones(max(len(part.edge_kind) for part in parts), np.float32)
            weights = np.concatenate(
                [ones[: len(part.edge_kind)] if part.edge_weight is None else part.edge_weight for part in parts]
            )
        return cls(
            np.concatenate([part.node_kind for part in parts]),
            np.concatenate([part.section_of for part in parts]),
            np.concatenate(edges, axis=1),
            np.concatenate([part.edge_kind for part in parts]),
            np.concatenate([part.node_counts for part in parts]),
            np.concatenate([part.edge_counts for part in parts]),
            weights,
        )

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.node_counts)


def normalized_adjacency(similarity: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Similarities over the roots of what both nodes have in all, :math:`D^{-1/2} A D^{-1/2}`, ``(nodes, nodes)``.

    The diagonal is taken as 0, and nodes that are similar to none have rows of 0.

    >>> normalized_adjacency([[1, 4], [4, 1]]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    adjacency = np.array(similarity, np.float64)
    np.fill_diagonal(adjacency, 0.0)
    roots = np.sqrt(adjacency.sum(axis=1))
    scale = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    return np.asarray(scale[:, None] * adjacency * scale)


def _edge_kinds(edges: Rows, node_kind: Rows, section_of: Rows) -> Rows:
    source, target = edges
    result: Rows = _KIND_OF_ENDS[node_kind[source], node_kind[target]]
    result[(result == EdgeKind.ACROSS_SECTIONS) & (section_of[source] == section_of[target])] = EdgeKind.WITHIN_SECTION
    result[source == target] = EdgeKind.SELF_LOOP
    return result
