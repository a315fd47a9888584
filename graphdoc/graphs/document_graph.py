"""The graph of one document, as PyG data; apart from ``kinds``, since encoding has no need of PyG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from ..segmentation.spans import SegmentedDocument
from .kinds import GraphKind, JoinedGraphs, NodeKind, graph_kind


class DocumentGraph(Data):  # type: ignore[misc]
    """The graph of one document, as PyG data.

    Node 0 is the document node, nodes 1 to n are the passages in reading order, and nodes of sections
    follow where the graph kind has them. Attributes are named so that PyG's collation leaves their values alone.

    Attributes:
        node_kind, section_of, edge_kind: see :class:`~graphdoc.graphs.kinds.JoinedGraphs`.
        edge_index: ``(2, edges)``, source above target, sorted by target, then source; both ways, and self-loops.
        edge_weight: ``(edges,)``, how much every edge counts in graph attention; not there where all count alike.
    """

    @classmethod
    def from_joined(cls, graphs: JoinedGraphs) -> DocumentGraph:
        """The graph of a row of one."""
        weights = {} if graphs.edge_weight is None else {"edge_weight": torch.from_numpy(graphs.edge_weight)}
        return cls(
            edge_index=torch.from_numpy(graphs.edge_index),
            edge_kind=torch.from_numpy(graphs.edge_kind),
            node_kind=torch.from_numpy(graphs.node_kind),
            section_of=torch.from_numpy(graphs.section_of),
            num_nodes=len(graphs.node_kind),
            **weights,
        )

    def joined(self) -> JoinedGraphs:
        """The graph as a row of one."""
        arrays = (self.node_kind, self.section_of, self.edge_index, self.edge_kind)
        counts = (np.array([count], np.int64) for count in (self.num_nodes, self.edge_index.shape[1]))
        graphs = JoinedGraphs(*(array.numpy() for array in arrays), *counts)
        return replace(graphs, edge_weight=self.edge_weight.numpy()) if "edge_weight" in self else graphs

    @property
    def num_passages(self) -> int:
        """Number of passage nodes."""
        return int(((self.node_kind == NodeKind.PASSAGE) | (self.node_kind == NodeKind.QUERY)).sum())


def build_graph(document: SegmentedDocument, kind: GraphKind | str | None = "full", **settings: Any) -> DocumentGraph:
    """Build the graph of a segmented document; every node has a self-loop and all edges run both ways.

    Args:
        document: a document cut into passages.
        kind: a graph kind or its name, a key of :data:`graphdoc.registry.GRAPH_KINDS`; None for nodes without edges.
        **settings: settings of a kind that is given by its name, such as ``window=2``.

    Raises:
        DocumentError: the document has too many passages for the graph to fit in memory.
        SettingsError: the kind is unknown or a setting is out of range.

    >>> from graphdoc import Document, DocumentEncoder
    >>> rice = Document.from_text("Rice is steamed. It is served warm.")
    >>> mini = DocumentEncoder.from_pretrained("mini", device="cpu", passage_words=4)
    >>> build_graph(mini.segment(rice), "window", window=1).num_passages
    2
    """
    return graph_of_sections([passage.section for passage in document.passages], kind, **settings)


def graph_of_sections(sections: Sequence[int], kind: GraphKind | str | None = "full", **settings: Any) -> DocumentGraph:
    """Build a graph from the section number of every passage, in reading order (see :func:`build_graph`).

    >>> graph = graph_of_sections([0, 0, 1], "section")
    >>> graph.num_passages, graph.num_nodes
    (3, 4)
    """
    if isinstance(kind, str):
        kind = graph_kind(kind, **settings)
    return DocumentGraph.from_joined(JoinedGraphs.from_sections([np.asarray(sections, np.int64)], kind))
