"""Graphs over the passages of a document: which nodes there are and who attends to whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data

from ..errors import DocumentError
from ..registry import GRAPH_KINDS
from ..segmentation.spans import SegmentedDocument
from .elements import EdgeKind, NodeKind

MAXIMUM_EDGES = 40_000_000

Integers = npt.NDArray[np.int64]


class DocumentGraph(Data):  # type: ignore[misc]
    """The graph of one document, as PyG data.

    Node 0 is the document node, nodes 1 to n are the passages in reading order, and in the ``hierarchical`` kind the
    section nodes follow. Attributes are named so that PyG's collation leaves their values alone.

    Attributes:
        node_kind: ``(nodes,)``, values of :class:`NodeKind`.
        section_of: ``(nodes,)``, section of a passage or section node, -1 for the document node.
        edge_index: ``(2, edges)``, source above target, sorted by target and then source; both directions and
            self-loops are present.
        edge_kind: ``(edges,)``, values of :class:`EdgeKind`.
    """

    @classmethod
    def of(cls, node_kind: Integers, section_of: Integers, edges: Integers, edge_kind: Integers) -> DocumentGraph:
        """Put arrays together as a graph with sorted edges."""
        order = np.lexsort((edges[0], edges[1]))
        return cls(
            edge_index=torch.from_numpy(np.ascontiguousarray(edges[:, order])),
            edge_kind=torch.from_numpy(edge_kind[order]),
            node_kind=torch.from_numpy(node_kind),
            section_of=torch.from_numpy(section_of),
            num_nodes=len(node_kind),
        )

    @property
    def num_passages(self) -> int:
        """Number of passage nodes."""
        return int(((self.node_kind == NodeKind.PASSAGE) | (self.node_kind == NodeKind.QUERY)).sum())


def build_graph(document: SegmentedDocument, kind: str = "full", *, window: int = 2) -> DocumentGraph:
    """Build the graph of a segmented document.

    Args:
        document: a document cut into passages.
        kind: ``full`` connects every pair of nodes, the document node included (Graph-RoBERTa, section 3.1).
            ``section`` connects the passages of a section with each other, and the document node and the first
            passages of all sections with each other (Graph-RoBERTa, section 3.3). ``window`` connects passages at
            most ``window`` apart in reading order, and the document node with every passage. ``hierarchical`` connects
            the passages of a section with each other and with a node of their section, and the section nodes with
            the document node.
        window: reach of the ``window`` kind, in passages.

    Returns:
        The graph; self-loops are always present and all edges run both ways.

    Raises:
        DocumentError: the document has so many passages that the graph would not fit in memory.
        ValueError: the kind is unknown or the window is not positive.
    """
    return graph_of_sections([passage.section for passage in document.passages], kind, window=window)


def graph_of_sections(sections: Sequence[int], kind: str = "full", *, window: int = 2) -> DocumentGraph:
    """Build a graph from the section number of every passage, in reading order (see :func:`build_graph`)."""
    if kind not in GRAPH_KINDS:
        raise ValueError(f"graph kind {kind!r} is unknown; use one of {', '.join(GRAPH_KINDS)}")
    if window < 1:
        raise ValueError(f"window={window} must be at least 1")
    section_of = np.asarray(sections, dtype=np.int64)
    count = len(section_of)
    _check_size(section_of, kind, window)
    starts = section_starts(section_of)
    edges = _BUILDERS[kind](section_of, starts, window)
    section_nodes = section_of[starts] if kind == "hierarchical" else np.empty(0, np.int64)
    nodes = 1 + count + len(section_nodes)
    loops = np.arange(nodes, dtype=np.int64)
    all_edges = np.concatenate([edges, edges[::-1], np.stack([loops, loops])], axis=1)
    node_kind = np.concatenate(
        [[NodeKind.DOCUMENT], np.full(count, NodeKind.PASSAGE), np.full(len(section_nodes), NodeKind.SECTION)]
    ).astype(np.int64)
    node_section = np.concatenate([[-1], section_of, section_nodes]).astype(np.int64)
    return DocumentGraph.of(node_kind, node_section, all_edges, _edge_kinds(all_edges, node_kind, node_section))


def query_graph(section: int = 0) -> DocumentGraph:
    """The graph of a query: one node, whose vector is its initial one (Graph-RoBERTa, section 3.3).

    The node is a passage and stands for the document too; no graph attention reaches it.

    Args:
        section: section that the passage comes from, where the query is a passage of a document.
    """
    loop = np.zeros((2, 1), np.int64)
    return DocumentGraph.of(
        np.array([NodeKind.QUERY], np.int64), np.array([section], np.int64), loop, np.array([EdgeKind.SELF_LOOP])
    )


def section_starts(section_of: Integers) -> Integers:
    """Positions of the first passage of every section, in reading order."""
    _, first = np.unique(section_of, return_index=True)
    return np.sort(first).astype(np.int64)


def _check_size(section_of: Integers, kind: str, window: int) -> None:
    """Refuse a graph that would not fit in memory, before any of it is built."""
    count = len(section_of)
    _, sizes = np.unique(section_of, return_counts=True)
    sections, within = len(sizes), int((sizes * (sizes - 1)).sum())
    edges = {
        "full": count * (count + 1),
        "section": within + sections * (sections + 1),
        "window": 2 * count * min(window + 1, count),
        "hierarchical": within + 2 * (count + sections),
    }[kind]
    if edges > MAXIMUM_EDGES:
        raise DocumentError(
            f"graph kind {kind!r} over {count:,} passages needs {edges:,} edges (limit {MAXIMUM_EDGES:,}); "
            "use graph kind 'window' with a small window, or a smaller max_passages"
        )


def _pairs(nodes: Integers) -> Integers:
    """Every pair of the given nodes once, as ``(2, pairs)``."""
    first, second = np.triu_indices(len(nodes), k=1)
    return np.stack([nodes[first], nodes[second]])


def _within_sections(section_of: Integers) -> Integers:
    _, sizes = np.unique(section_of, return_counts=True)
    members = np.split(np.argsort(section_of, kind="stable") + 1, np.cumsum(sizes)[:-1])
    parts = [_pairs(nodes) for nodes in members if len(nodes) > 1]
    return np.concatenate([np.empty((2, 0), np.int64), *parts], axis=1)


def _star(center: int, leaves: Integers) -> Integers:
    return np.stack([np.full(len(leaves), center, np.int64), leaves])


def _full(section_of: Integers, starts: Integers, window: int) -> Integers:
    return _pairs(np.arange(len(section_of) + 1, dtype=np.int64))


def _section(section_of: Integers, starts: Integers, window: int) -> Integers:
    hubs = np.concatenate([np.zeros(1, np.int64), starts + 1])
    return np.concatenate([_within_sections(section_of), _pairs(hubs)], axis=1)


def _window(section_of: Integers, starts: Integers, window: int) -> Integers:
    count = len(section_of)
    parts = [_star(0, np.arange(1, count + 1, dtype=np.int64))]
    for distance in range(1, min(window, count - 1) + 1):
        left = np.arange(1, count + 1 - distance, dtype=np.int64)
        parts.append(np.stack([left, left + distance]))
    return np.concatenate(parts, axis=1)


def _hierarchical(section_of: Integers, starts: Integers, window: int) -> Integers:
    count = len(section_of)
    section_nodes = np.arange(len(starts), dtype=np.int64) + count + 1
    by_number = np.argsort(section_of[starts])
    rank = by_number[np.searchsorted(section_of[starts], section_of, sorter=by_number)]
    membership = np.stack([section_nodes[rank], np.arange(1, count + 1, dtype=np.int64)])
    return np.concatenate([_within_sections(section_of), membership, _star(0, section_nodes)], axis=1)


_BUILDERS: dict[str, Callable[[Integers, Integers, int], Integers]] = {
    "full": _full,
    "section": _section,
    "window": _window,
    "hierarchical": _hierarchical,
}


def _edge_kinds(edges: Integers, node_kind: Integers, section_of: Integers) -> Integers:
    source, target = edges
    kinds = node_kind[source] + node_kind[target]
    has_document = (node_kind[source] == NodeKind.DOCUMENT) | (node_kind[target] == NodeKind.DOCUMENT)
    result = np.where(section_of[source] == section_of[target], EdgeKind.WITHIN_SECTION, EdgeKind.ACROSS_SECTIONS)
    result = np.where(kinds == NodeKind.PASSAGE + NodeKind.SECTION, EdgeKind.SECTION_PASSAGE, result)
    result = np.where(has_document & (kinds == NodeKind.PASSAGE), EdgeKind.DOCUMENT_PASSAGE, result)
    result = np.where(has_document & (kinds == NodeKind.SECTION), EdgeKind.DOCUMENT_SECTION, result)
    return np.where(source == target, EdgeKind.SELF_LOOP, result).astype(np.int64)
