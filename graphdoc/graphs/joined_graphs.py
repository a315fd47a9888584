"""The graphs of documents, one by one and joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import DocumentError
from .kinds import EdgeKind, GraphKind, Integers, NodeKind, graph_kind

MAXIMUM_EDGES = 40_000_000

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
        edge_weights: ``(edges,)``, above 0, how much an edge counts in graph attention; None where all count alike.
    """

    node_kind: Integers
    section_of: Integers
    edge_index: Integers
    edge_kind: Integers
    node_counts: Integers
    edge_counts: Integers
    edge_weights: npt.NDArray[np.float32] | None = None

    @classmethod
    def of_sections(cls, sections: Sequence[Integers], kind: GraphKind | str | None) -> JoinedGraphs:
        """Build graphs from the section number of every passage of every document, in reading order.

        Args:
            sections: ``(passages,)`` of every document.
            kind: a graph kind or its name; None for nodes without edges, where nothing reads them.

        Raises:
            DocumentError: a document has so many passages that its graph would not fit in memory.
            SettingsError: the kind is unknown.
        """
        kind = graph_kind(kind) if isinstance(kind, str) else kind
        nothing = np.empty(0, np.int64)
        more = [nothing if kind is None else kind.section_nodes(one) for one in sections]
        lengths = np.array([(1, len(one), len(nodes)) for one, nodes in zip(sections, more, strict=True)], np.int64)
        counts = lengths.sum(axis=1)
        node_kind = np.repeat(np.tile(_KINDS, len(lengths)), lengths.reshape(-1))
        parts = (part for one, nodes in zip(sections, more, strict=True) for part in (_NO_SECTION, one, nodes))
        section_of = np.concatenate(list(parts))
        if kind is None:
            return cls(node_kind, section_of, np.empty((2, 0), np.int64), nothing, counts, np.zeros_like(counts))
        pairs = []
        for one in sections:
            _require_memory(kind, one)
            pairs.append(kind.pairs(one))
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
    def of_similarities(cls, sections: Sequence[Integers], similarities: Sequence[npt.ArrayLike]) -> JoinedGraphs:
        """Build graphs in which passages are connected that are similar, and edges weigh as much as they are.

        Weights are those of the normalised adjacency :math:`D^{-1/2} A D^{-1/2}`, self-loops have the weight 1, and
        the document node has no other edge. It is no graph kind, since kinds are made of sections alone, before
        there are any vectors.

        Args:
            sections: ``(passages,)`` of every document, section number of every passage.
            similarities: ``(passages, passages)`` of every document, symmetric and not negative; the diagonal does
                not count.
        """
        counts = np.array([len(one) + 1 for one in sections], np.int64)
        node_kind = np.concatenate([np.repeat(_KINDS[:2], (1, len(one))) for one in sections])
        section_of = np.concatenate([np.concatenate([_NO_SECTION, one]) for one in sections])
        edges, weights, edge_counts = [], [], []
        for start, similarity in zip((np.cumsum(counts) - counts).tolist(), similarities, strict=True):
            adjacency = np.zeros((len(similarity) + 1,) * 2)  # type: ignore[arg-type]
            adjacency[1:, 1:] = normalised_adjacency(similarity)
            np.fill_diagonal(adjacency, 1.0)
            target, source = np.nonzero(adjacency)
            edges.append(np.stack([source, target]) + start)
            weights.append(adjacency[target, source])
            edge_counts.append(len(target))
        joined = np.concatenate(edges, axis=1)
        return cls(
            node_kind,
            section_of,
            joined,
            _edge_kinds(joined, node_kind, section_of),
            counts,
            np.array(edge_counts, np.int64),
            np.concatenate(weights).astype(np.float32),
        )

    @classmethod
    def of_queries(cls, sections: Sequence[int]) -> JoinedGraphs:
        """Graphs of queries, one node each (see :func:`~graphdoc.graphs.document_graph.query_graph`).

        Args:
            sections: the section that every passage comes from.
        """
        nodes = np.arange(len(sections), dtype=np.int64)
        ones = np.ones_like(nodes)
        return cls(
            np.full_like(nodes, NodeKind.QUERY),
            np.asarray(sections, np.int64),
            np.stack([nodes, nodes]),
            np.full_like(nodes, EdgeKind.SELF_LOOP),
            ones,
            ones,
        )

    @classmethod
    def join(cls, parts: Sequence[JoinedGraphs]) -> JoinedGraphs:
        """All graphs of some rows of graphs, in one row."""
        ends = np.cumsum([len(part.node_kind) for part in parts])
        edges = [part.edge_index + end - len(part.node_kind) for part, end in zip(parts, ends.tolist(), strict=True)]
        return cls(
            np.concatenate([part.node_kind for part in parts]),
            np.concatenate([part.section_of for part in parts]),
            np.concatenate(edges, axis=1),
            np.concatenate([part.edge_kind for part in parts]),
            np.concatenate([part.node_counts for part in parts]),
            np.concatenate([part.edge_counts for part in parts]),
            _joined_weights(parts),
        )

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.node_counts)


def normalised_adjacency(similarity: npt.ArrayLike) -> npt.NDArray[np.float64]:
    r"""Similarities over the roots of what both nodes have in all, :math:`D^{-1/2} A D^{-1/2}`.

    Args:
        similarity: ``(nodes, nodes)``, symmetric and not negative; the diagonal is taken as 0.

    Returns:
        ``(nodes, nodes)``; nodes that are similar to none have rows of 0.

    >>> normalised_adjacency([[1, 4], [4, 1]]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    adjacency = np.array(similarity, np.float64)
    np.fill_diagonal(adjacency, 0.0)
    roots = np.sqrt(adjacency.sum(axis=1))
    scale = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    return np.asarray(scale[:, None] * adjacency * scale)


def _joined_weights(parts: Sequence[JoinedGraphs]) -> npt.NDArray[np.float32] | None:
    if all(part.edge_weights is None for part in parts):
        return None
    return np.concatenate(
        [
            np.ones(len(part.edge_kind), np.float32) if part.edge_weights is None else part.edge_weights
            for part in parts
        ]
    )


def _require_memory(kind: GraphKind, section_of: Integers) -> None:
    """Refuse a graph that would not fit in memory, before any of it is built."""
    edges = 2 * kind.count(section_of)
    if edges > MAXIMUM_EDGES:
        raise DocumentError(
            f"{kind!r} over {len(section_of):,} passages needs {edges:,} edges (limit {MAXIMUM_EDGES:,}); "
            "use graph kind 'window' with a small window, or a smaller max_passages"
        )


def _edge_kinds(edges: Integers, node_kind: Integers, section_of: Integers) -> Integers:
    source, target = edges
    result: Integers = _KIND_OF_ENDS[node_kind[source], node_kind[target]]
    result[(result == EdgeKind.ACROSS_SECTIONS) & (section_of[source] == section_of[target])] = EdgeKind.WITHIN_SECTION
    result[source == target] = EdgeKind.SELF_LOOP
    return result
