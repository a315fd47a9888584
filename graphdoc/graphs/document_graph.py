"""Graphs over the passages of a document: which nodes there are and who attends to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from ..errors import DocumentError
from ..segmentation.spans import SegmentedDocument
from .elements import EdgeKind, NodeKind
from .kinds.kind import GraphKind, Integers, graph_kind

MAXIMUM_EDGES = 40_000_000


class DocumentGraph(Data):  # type: ignore[misc]
    """The graph of one document, as PyG data.

    Node 0 is the document node, nodes 1 to n are the passages in reading order, and nodes of sections
    follow where the graph kind has them. Attributes are named so that PyG's collation leaves their values alone.

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


def build_graph(document: SegmentedDocument, kind: GraphKind | str | None = "full", **settings: Any) -> DocumentGraph:
    """Build the graph of a segmented document.

    Args:
        document: a document cut into passages.
        kind: a graph kind or its name: ``full``, ``section``, ``window`` or ``hierarchical`` (see
            :mod:`graphdoc.graphs.kinds`); None for nodes without edges, where nothing reads them.
        **settings: settings of a kind that is given by its name, such as ``window=2``.

    Returns:
        The graph; every node has a self-loop and all edges run both ways.

    Raises:
        DocumentError: the document has so many passages that the graph would not fit in memory.
        SettingsError: the kind is unknown or a setting is out of range.
    """
    return graph_of_sections([passage.section for passage in document.passages], kind, **settings)


def graph_of_sections(
    sections: Sequence[int], kind: GraphKind | str | None = "full", **settings: Any
) -> DocumentGraph:
    """Build a graph from the section number of every passage, in reading order (see :func:`build_graph`).

    >>> graph = graph_of_sections([0, 0, 1], "section")
    >>> graph.num_passages, graph.num_nodes
    (3, 4)
    """
    if isinstance(kind, str):
        kind = graph_kind(kind, **settings)
    section_of = np.asarray(sections, dtype=np.int64)
    section_nodes, all_edges = np.empty(0, np.int64), np.empty((2, 0), np.int64)
    if kind is not None:
        _require_memory(kind, section_of)
        section_nodes = kind.section_nodes(section_of)
        pairs, loops = kind.pairs(section_of), np.arange(1 + len(section_of) + len(section_nodes), dtype=np.int64)
        all_edges = np.concatenate([pairs, pairs[::-1], np.stack([loops, loops])], axis=1)
    kinds, counts = (NodeKind.DOCUMENT, NodeKind.PASSAGE, NodeKind.SECTION), (1, len(section_of), len(section_nodes))
    node_kind = np.repeat(kinds, counts).astype(np.int64)
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
    kinds = node_kind[source] + node_kind[target]
    has_document = (node_kind[source] == NodeKind.DOCUMENT) | (node_kind[target] == NodeKind.DOCUMENT)
    result = np.where(section_of[source] == section_of[target], EdgeKind.WITHIN_SECTION, EdgeKind.ACROSS_SECTIONS)
    result = np.where(kinds == NodeKind.PASSAGE + NodeKind.SECTION, EdgeKind.SECTION_PASSAGE, result)
    result = np.where(has_document & (kinds == NodeKind.PASSAGE), EdgeKind.DOCUMENT_PASSAGE, result)
    result = np.where(has_document & (kinds == NodeKind.SECTION), EdgeKind.DOCUMENT_SECTION, result)
    return np.where(source == target, EdgeKind.SELF_LOOP, result).astype(np.int64)
