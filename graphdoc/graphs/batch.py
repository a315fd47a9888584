"""Batches of documents: ragged graphs, with no padding across documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Batch

from ..errors import DocumentError
from ..segmentation.spans import SegmentedDocument
from .document_graph import DocumentGraph, build_graph
from .elements import EdgeKind, NodeKind
from .kinds.kind import GraphKind
from .packing import MiniBatch, Packing

TokenIds = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class GraphBatch:
    """Documents as the model takes them: no padding across documents.

    Args:
        token_ids: token ids of all passages, special tokens included, document after document; none where graphs or
            passage vectors are all there is.
        node_kind: ``(nodes,)``, values of :class:`~graphdoc.graphs.elements.NodeKind`.
        section_of: ``(nodes,)``, section of a node within its document, -1 for document nodes.
        document_of: ``(nodes,)``, position of a node's document in the batch.
        edge_index: ``(2, edges)``, source above target, node numbers within the batch.
        edge_kind: ``(edges,)``, values of :class:`~graphdoc.graphs.elements.EdgeKind`.
        node_counts: nodes of every document.
        edge_counts: edges of every document.
        passage_vectors: ``(passages, encoder hidden)``, pooled passage vectors that were computed before, for a
            passage encoder that is frozen.
        section_ids: ``(passages,)``, section of every passage where documents are split into sections, counted from
            0 in every document; None where they are not split, and each is one section.
        chunk_ids: ``(passages,)``, place of every passage in its section; None for its place in reading order.
    """

    token_ids: tuple[TokenIds, ...]
    node_kind: Tensor
    section_of: Tensor
    document_of: Tensor
    edge_index: Tensor
    edge_kind: Tensor
    node_counts: tuple[int, ...]
    edge_counts: tuple[int, ...]
    passage_vectors: Tensor | None = None
    section_ids: Tensor | None = None
    chunk_ids: Tensor | None = None

    @classmethod
    def from_documents(
        cls, documents: Sequence[SegmentedDocument], graph: GraphKind | str | None, *, split: bool = False
    ) -> GraphBatch:
        """Build the graphs of segmented documents and put them into one batch, split into their sections or not.

        Passage vectors go along where all of the documents have them.

        Args:
            documents: the documents.
            graph: kind of their graphs, or its name; None for nodes without edges, where nothing reads them.
            split: whether documents are split into their own sections.

        Raises:
            DocumentError: a document has other passage vectors than one for each of its passages, or of another width.
        """
        graphs = [build_graph(document, graph) for document in documents]
        batch = cls.from_graphs(graphs, tuple(ids for document in documents for ids in document.token_ids))
        vectors = [document.passage_vectors for document in documents if document.passage_vectors is not None]
        if len(vectors) == len(documents):
            _require_vectors_of_passages(documents)
            batch = replace(batch, passage_vectors=torch.from_numpy(np.concatenate(vectors)))
        if not split:
            return batch
        ids = [section_ids([passage.section for passage in document.passages]) for document in documents]
        return replace(batch, section_ids=torch.from_numpy(np.concatenate(ids)))

    @classmethod
    def from_graphs(cls, graphs: Sequence[DocumentGraph], token_ids: tuple[TokenIds, ...] = ()) -> GraphBatch:
        """Put graphs into one batch, with the token ids of their passages where the transformer is to run."""
        if not graphs:
            raise ValueError("a batch needs at least one document")
        passages = sum(graph.num_passages for graph in graphs)
        if token_ids and len(token_ids) != passages:
            raise ValueError(f"token ids of {len(token_ids)} passages do not fit graphs with {passages} passages")
        batch = Batch.from_data_list(list(graphs))
        return cls(
            token_ids=token_ids,
            node_kind=batch.node_kind,
            section_of=batch.section_of,
            document_of=batch.batch,
            edge_index=batch.edge_index,
            edge_kind=batch.edge_kind,
            node_counts=tuple(int(graph.num_nodes) for graph in graphs),
            edge_counts=tuple(int(graph.edge_index.shape[1]) for graph in graphs),
        )

    def to_graphs(self) -> list[DocumentGraph]:
        """The graphs of the single documents, as they went in."""
        graphs = []
        node, edge = 0, 0
        for nodes, edges in zip(self.node_counts, self.edge_counts, strict=True):
            graphs.append(
                DocumentGraph(
                    edge_index=self.edge_index[:, edge : edge + edges] - node,
                    edge_kind=self.edge_kind[edge : edge + edges],
                    node_kind=self.node_kind[node : node + nodes],
                    section_of=self.section_of[node : node + nodes],
                    num_nodes=nodes,
                )
            )
            node, edge = node + nodes, edge + edges
        return graphs

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.node_counts)

    @property
    def is_passage(self) -> Tensor:
        """Which nodes are passages, queries among them, ``(nodes,)``."""
        return (self.node_kind == NodeKind.PASSAGE) | self.is_query

    @property
    def is_document(self) -> Tensor:
        """Which nodes stand for their document, queries among them, ``(nodes,)``."""
        return (self.node_kind == NodeKind.DOCUMENT) | self.is_query

    @property
    def is_query(self) -> Tensor:
        """Which nodes are queries, ``(nodes,)``: passages that are all of their document and its graph."""
        return self.node_kind == NodeKind.QUERY

    @property
    def structure(self) -> Tensor:
        """Section id and chunk id of every passage, ``(passages, 2)``: its place in the structure of its document."""
        document_of = self.document_of[self.is_passage]
        sections = torch.zeros_like(document_of) if self.section_ids is None else self.section_ids
        if self.chunk_ids is not None:
            return torch.stack([sections, self.chunk_ids], dim=1)
        stride = int(sections.max()) + 1 if len(sections) else 1
        keys, order = torch.sort(document_of * stride + sections, stable=True)
        _, run, lengths = torch.unique_consecutive(keys, return_inverse=True, return_counts=True)
        starts = lengths.cumsum(0) - lengths
        places = torch.arange(len(keys), device=keys.device) - starts[run]
        return torch.stack([sections, torch.empty_like(places).scatter(0, order, places)], dim=1)

    @property
    def document_of_section(self) -> Tensor:
        """Document of every section that documents are split into, ``(sections,)``; one for each that is not split."""
        sections = torch.stack([self.document_of[self.is_passage], self.structure[:, 0]])
        return torch.as_tensor(torch.unique(sections, dim=1)[0])

    @property
    def is_readout_edge(self) -> Tensor:
        """Which edges belong to the readout rather than to the graph, ``(edges,)``."""
        return self.edge_kind == EdgeKind.READOUT

    def to(self, device: torch.device | str) -> GraphBatch:
        """The same batch with its tensors on another device; token ids stay where they are."""
        return replace(
            self,
            node_kind=self.node_kind.to(device),
            section_of=self.section_of.to(device),
            document_of=self.document_of.to(device),
            edge_index=self.edge_index.to(device),
            edge_kind=self.edge_kind.to(device),
            passage_vectors=None if self.passage_vectors is None else self.passage_vectors.to(device),
            section_ids=None if self.section_ids is None else self.section_ids.to(device),
            chunk_ids=None if self.chunk_ids is None else self.chunk_ids.to(device),
        )

    def slices(self, costs: Sequence[int], most: int) -> Iterator[GraphBatch]:
        """Cut the batch into batches of consecutive documents that keep to a cost.

        Token ids and passage vectors are left behind.

        Args:
            costs: cost of every document.
            most: most cost of a slice; a document over it has a slice of its own.
        """
        first, used = 0, 0
        for document, cost in enumerate(costs):
            if document > first and used + cost > most:
                yield self._slice(first, document)
                first, used = document, 0
            used += cost
        yield self._slice(first, len(costs))

    def _slice(self, first: int, last: int) -> GraphBatch:
        nodes = slice(sum(self.node_counts[:first]), sum(self.node_counts[:last]))
        edges = slice(sum(self.edge_counts[:first]), sum(self.edge_counts[:last]))
        passages = slice(0, 0)
        if self.section_ids is not None or self.chunk_ids is not None:
            passages = slice(*(int(self.is_passage[:node].sum()) for node in (nodes.start, nodes.stop)))
        return GraphBatch(
            token_ids=(),
            node_kind=self.node_kind[nodes],
            section_of=self.section_of[nodes],
            document_of=self.document_of[nodes] - first,
            edge_index=self.edge_index[:, edges] - nodes.start,
            edge_kind=self.edge_kind[edges],
            node_counts=self.node_counts[first:last],
            edge_counts=self.edge_counts[first:last],
            section_ids=None if self.section_ids is None else self.section_ids[passages],
            chunk_ids=None if self.chunk_ids is None else self.chunk_ids[passages],
        )

    def mini_batches(
        self, packing: Packing, pad_token_id: int, *, with_structure: bool = False
    ) -> Iterator[MiniBatch]:
        """Pack the passages of all documents into mini-batches.

        Args:
            packing: the rule.
            pad_token_id: what stands in the padding.
            with_structure: whether mini-batches say where their passages stand in their documents.
        """
        structure = self.structure if with_structure else None
        lengths = [len(ids) for ids in self.token_ids]
        for positions in packing.pack(lengths):
            width = lengths[positions[0]]
            input_ids = np.full((len(positions), width), pad_token_id, dtype=np.int64)
            mask = np.zeros((len(positions), width), dtype=np.int64)
            for row, position in enumerate(positions):
                ids = self.token_ids[position]
                input_ids[row, : len(ids)] = ids
                mask[row, : len(ids)] = 1
            rows = torch.from_numpy(positions)
            places = None if structure is None else structure[rows.to(structure.device)]
            yield MiniBatch(torch.from_numpy(input_ids), torch.from_numpy(mask), rows, places)


def section_ids(sections: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Count the sections of a document from 0 in the order in which they come, those without passages left out.

    Args:
        sections: section of every passage, in reading order.

    Returns:
        ``(passages,)``.
    """
    order: dict[int, int] = {}
    return np.array([order.setdefault(int(section), len(order)) for section in sections], dtype=np.int64)


def _require_vectors_of_passages(documents: Sequence[SegmentedDocument]) -> None:
    width = None
    for document in documents:
        found = np.asarray(document.passage_vectors).shape
        width = found[-1] if width is None and found else width
        if found != (len(document.passages), width):
            raise DocumentError(
                f"document {document.document.id!r} has {len(document.passages)} passages, and its passage vectors "
                f"are of shape {found} beside others of {width} numbers; segment it anew"
            )
