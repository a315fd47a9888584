"""Batches of documents, ragged graphs without padding across documents, and mini-batches of their passages."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from ..errors import SettingsError
from ..runtime.arrays import Rows
from ..segmentation.spans import SegmentedDocument
from .kinds import GraphKind, JoinedGraphs, NodeKind
from .layout import AttentionPlan, SectionLayout, places_of, plan_attention, section_ids

if TYPE_CHECKING:
    from .document_graph import DocumentGraph


def map_tensors(part: Any, change: Callable[[Tensor], Any]) -> Any:
    """A copy of a part whose tensors are changed, those of dataclasses and tuples inside of it too."""
    if isinstance(part, Tensor):
        return change(part)
    # Token ids are tuples of numbers by the thousand; a first element says what the others are.
    if type(part) is tuple and part and is_dataclass(part[0]):
        return tuple(map_tensors(member, change) for member in part)
    if is_dataclass(part) and not isinstance(part, type):
        return type(part)(**{entry.name: map_tensors(getattr(part, entry.name), change) for entry in fields(part)})
    return part


def sent(device: torch.device, tensor: Tensor) -> Tensor:
    """A tensor on another device; a GPU fetches it from pinned memory, so that nothing waits for the copy."""
    is_fetched = device.type == "cuda" and tensor.device.type == "cpu"
    return (tensor.pin_memory() if is_fetched else tensor).to(device, non_blocking=True)


class _ArrayPickler(pickle.Pickler):
    """Writes tensors as their numbers."""

    def reducer_override(self, value: Any) -> Any:
        return (torch.from_numpy, (value.numpy(),)) if isinstance(value, Tensor) else NotImplemented


@dataclass(frozen=True, slots=True)
class NodeRows:
    """Rows of a batch's nodes, so that no device has to look for them.

    Args:
        passages: ``(passages,)``, the node of every passage, queries among them.
        documents: ``(documents,)``, the node that stands for every document.
        document_of: ``(passages,)``, document of every passage.
        counts: ``(documents,)``, passages of every document.
        sections: ``(section nodes,)``, the section nodes.
        members: ``(members,)``, passages that belong to a section node.
        section_of: ``(members,)``, which of the section nodes each belongs to.
        section_counts: ``(section nodes,)``, passages of every section node.
    """

    passages: Tensor
    documents: Tensor
    document_of: Tensor
    counts: Tensor
    sections: Tensor
    members: Tensor
    section_of: Tensor
    section_counts: Tensor

    @classmethod
    def from_nodes(cls, node_kind: Rows, section_of: Rows, document_of: Rows, documents: int) -> NodeRows:
        """Find the rows.

        Args:
            node_kind: ``(nodes,)``, values of :class:`~graphdoc.graphs.kinds.NodeKind`.
            section_of: ``(nodes,)``, section of a node within its document, -1 for document nodes.
            document_of: ``(nodes,)``, document of every node.
            documents: number of documents.
        """
        is_query = node_kind == NodeKind.QUERY
        passages = np.flatnonzero((node_kind == NodeKind.PASSAGE) | is_query)
        sections = np.flatnonzero(node_kind == NodeKind.SECTION)
        # A batch may mix graph kinds: passages of a document without section nodes belong to none.
        stride = int(section_of.max(initial=0)) + 2
        keys = document_of * stride + section_of
        order = np.argsort(keys[sections], kind="stable")
        place = np.searchsorted(keys[sections], keys[passages], sorter=order)
        rank = order[place[place < len(order)]] if len(order) else order
        inside = np.flatnonzero(place < len(order))
        belongs = keys[sections][rank] == keys[passages][inside]
        members, section_of_member = inside[belongs], rank[belongs]
        arrays = (
            passages,
            np.flatnonzero((node_kind == NodeKind.DOCUMENT) | is_query),
            document_of[passages],
            np.bincount(document_of[passages], minlength=documents),
            sections,
            members,
            section_of_member,
            np.bincount(section_of_member, minlength=len(sections)),
        )
        return cls(*(torch.from_numpy(np.ascontiguousarray(array, np.int64)) for array in arrays))


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """The weights of the terms of documents, document after document; a term that is not there has none.

    Args:
        terms: ``(entries,)``, rows of terms in the lexical part of a model.
        weights: ``(entries,)``, what they weigh in their document.
        starts: ``(documents,)``, the first entry of every document.
    """

    terms: Tensor
    weights: Tensor
    starts: Tensor

    @classmethod
    def from_matrix(cls, weights: Any) -> BatchTerms:
        """The entries of a sparse SciPy matrix ``(documents, terms)``."""
        rows = sparse.csr_matrix(weights)
        parts = rows.indices.astype(np.int64), rows.data.astype(np.float32), rows.indptr[:-1].astype(np.int64)
        return cls(*map(torch.from_numpy, parts))


# Small blocks stay in a processor's cache, and little is lost by starting one; accelerators want large ones, filled
# before padding may close them, since there a start costs more than some padding.
CPU_TOKEN_BUDGET, ACCELERATOR_TOKEN_BUDGET = 2048, 65536
ACCELERATOR_FILLED = 0.9
PADDING = 0.03


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Passages that go through the transformer together.

    Args:
        input_ids: ``(passages, tokens)``.
        attention_mask: ``(passages, tokens)``, 1 for tokens and 0 for padding.
        passage_order: ``(passages,)``, row of every passage among the passages of the batch.
        structure: ``(passages, 2)``, section id and chunk id of every passage; None where the encoder reads none.
        token_types: ``(passages, tokens)``, 1 for tokens of a second text, else 0; None where no passage has two.
    """

    input_ids: Tensor
    attention_mask: Tensor
    passage_order: Tensor
    structure: Tensor | None = None
    token_types: Tensor | None = None

    def to(self, device: torch.device | str) -> MiniBatch:
        """The same mini-batch on another device."""
        moved: MiniBatch = map_tensors(self, partial(sent, torch.device(device)))
        return moved


@dataclass(frozen=True, slots=True)
class Packing:
    """The rule by which passages are packed into mini-batches.

    A mini-batch is closed when one more passage would exceed the token budget; or, once it is well filled, when one
    more would make padding more than ``padding`` of its cells. A passage longer than the budget has a mini-batch of
    its own. Longest first, so that a shortage of memory shows at once.

    Args:
        token_budget: most cells (passages times longest passage) of a mini-batch.
        padding: largest share of padding among the cells of a mini-batch that is well filled.
        filled: share of the token budget from which on a mini-batch is well filled; 0 lets padding close any.
    """

    token_budget: int
    padding: float = PADDING
    filled: float = 0.0

    def __post_init__(self) -> None:
        if self.token_budget < 1:
            raise SettingsError(f"token_budget={self.token_budget} must be at least 1")
        if not 0 <= self.padding <= 1:
            raise SettingsError(f"padding={self.padding} must be a share between 0 and 1")

    @classmethod
    def on(cls, device: torch.device | str, token_budget: int | None = None, padding: float | None = None) -> Packing:
        """The rule of a device, with a small token budget on a CPU and a large one on accelerators unless given."""
        is_cpu = torch.device(device).type == "cpu"
        if token_budget is None:
            token_budget = CPU_TOKEN_BUDGET if is_cpu else ACCELERATOR_TOKEN_BUDGET
        return cls(token_budget, PADDING if padding is None else padding, 0.0 if is_cpu else ACCELERATOR_FILLED)

    def pack(self, lengths: Sequence[int] | npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Positions of passages by their lengths in tokens, one array per mini-batch.

        >>> [positions.tolist() for positions in Packing(8).pack([2, 4, 4, 2, 2])]
        [[1, 2], [0, 3, 4]]
        """
        length = np.asarray(lengths, dtype=np.int64)
        order = np.argsort(-length, kind="stable")
        mini_batches: list[npt.NDArray[np.int64]] = []
        start, used = 0, 0
        for position, tokens in enumerate(length[order].tolist()):
            longest = int(length[order[start]])
            cells = longest * (position - start + 1)
            is_filled = cells - longest >= self.filled * self.token_budget
            is_padded = cells - used - tokens > self.padding * cells
            if position > start and (cells > self.token_budget or (is_filled and is_padded)):
                mini_batches.append(order[start:position])
                start, used = position, 0
            used += tokens
        if len(order):
            mini_batches.append(order[start:])
        return mini_batches


TokenIds = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class GraphBatch:
    """Documents as the model takes them: no padding across documents.

    Everything that the model has to look up or to count is laid out on the CPU when a batch is made, in the workers of
    a data loader where there are any: on an accelerator nothing waits for an answer.

    Args:
        token_ids: token ids of all passages, special tokens included, document after document; none where graphs or
            passage vectors are all there is.
        node_kind: ``(nodes,)``, values of :class:`~graphdoc.graphs.kinds.NodeKind`.
        section_of: ``(nodes,)``, section of a node within its document, -1 for document nodes.
        document_of: ``(nodes,)``, position of a node's document in the batch.
        edge_index: ``(2, edges)``, source above target, node numbers within the batch.
        edge_kind: ``(edges,)``, values of :class:`~graphdoc.graphs.kinds.EdgeKind`.
        node_counts, edge_counts, passage_counts: nodes, edges and passages of every document.
        places: ``(passages, 2)``, section id and chunk id of every passage, from 0 in every document: its place in
            what the document is split into, which may be one section.
        rows: where passages, documents and sections stand among the nodes.
        sections: the sections that documents are split into, and their chunks.
        plan: how graph attention is computed; None where nodes have no edges.
        passage_vectors: ``(passages, encoder hidden)``, pooled passage vectors that were computed before.
        edge_weight: ``(edges,)``, above 0, how much an edge counts in graph attention; None where all count alike.
        second_from: where passages are two texts that are read together, the first token that is of the second.
        words: what the terms of every document weigh, brought to the length 1, for a head that reads them.
        origin: the batch on the CPU that this one was moved from.
    """

    token_ids: tuple[TokenIds, ...]
    node_kind: Tensor
    section_of: Tensor
    document_of: Tensor
    edge_index: Tensor
    edge_kind: Tensor
    node_counts: tuple[int, ...]
    edge_counts: tuple[int, ...]
    passage_counts: tuple[int, ...]
    places: Rows
    rows: NodeRows
    sections: SectionLayout
    plan: AttentionPlan | None
    passage_vectors: Tensor | None = None
    edge_weight: Tensor | None = None
    second_from: tuple[int, ...] | None = None
    words: BatchTerms | None = None
    origin: GraphBatch | None = None

    @classmethod
    def from_documents(
        cls, documents: Sequence[SegmentedDocument], graph: GraphKind | str | None, *, split: bool = False
    ) -> GraphBatch:
        """Build the graphs of segmented documents and put them into one batch, split into their sections or not.

        Passage vectors go along where all documents have them. A graph of None gives nodes without edges.
        """
        vectors = [document.passage_vectors for document in documents if document.passage_vectors is not None]
        sections = [np.array([span.section for span in document.passages], np.int64) for document in documents]
        return cls.from_graphs(
            JoinedGraphs.from_sections(sections, graph),
            tuple(ids for document in documents for ids in document.token_ids),
            section_ids=np.concatenate([section_ids(numbers) for numbers in sections]) if split else None,
            passage_vectors=vectors if len(vectors) == len(documents) else None,
        )

    @classmethod
    def from_graphs(
        cls,
        graphs: Sequence[DocumentGraph] | JoinedGraphs,
        token_ids: tuple[TokenIds, ...] = (),
        *,
        section_ids: Rows | None = None,
        chunk_ids: Rows | None = None,
        passage_vectors: Sequence[npt.NDArray[np.float32]] | None = None,
        second_from: tuple[int, ...] | None = None,
    ) -> GraphBatch:
        """Put graphs into one batch.

        Args:
            graphs: the graphs of the documents, one by one or joined.
            token_ids: token ids of all passages, document after document, where the transformer is to run.
            section_ids: ``(passages,)``, section of every passage where documents are split into sections, counted
                from 0 in every document; None where they are not split, and each is one section.
            chunk_ids: ``(passages,)``, place of every passage in its section; None for its place in reading order.
            passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each.
            second_from: first token of the second text of every passage, where all are two texts read together.
        """
        if not len(graphs):
            raise ValueError("a batch needs at least one document")
        if not isinstance(graphs, JoinedGraphs):
            graphs = JoinedGraphs.join([graph.joined() for graph in graphs])
        batch = cls._of(token_ids, graphs, section_ids, chunk_ids)
        vectors = None if passage_vectors is None else torch.from_numpy(np.concatenate(passage_vectors))
        for name, rows in (("token_ids", token_ids), ("second_from", second_from), ("passage_vectors", vectors)):
            if rows is not None and len(rows) not in (0, sum(batch.passage_counts)):
                raise ValueError(f"{name} of {len(rows)} passages do not fit graphs with {sum(batch.passage_counts)}")
        return replace(batch, second_from=second_from, passage_vectors=vectors)

    @classmethod
    def from_passages(cls, token_ids: tuple[TokenIds, ...]) -> GraphBatch:
        """Passages by themselves, where only the transformer is to run."""
        return cls.from_graphs(JoinedGraphs.from_sections([np.zeros(len(token_ids), np.int64)], None), token_ids)

    @classmethod
    def _of(
        cls, token_ids: tuple[TokenIds, ...], graphs: JoinedGraphs, section_ids: Rows | None, chunk_ids: Rows | None
    ) -> GraphBatch:
        document_of = np.repeat(np.arange(len(graphs)), graphs.node_counts)
        rows = NodeRows.from_nodes(graphs.node_kind, graphs.section_of, document_of, len(graphs))
        documents = rows.document_of.numpy()
        places = places_of(documents, section_ids, chunk_ids)
        # Nodes have a self-loop at least, or no edges because nothing reads them.
        is_planned = bool((graphs.edge_counts >= graphs.node_counts).all())
        return cls(
            token_ids=token_ids,
            node_kind=torch.from_numpy(graphs.node_kind),
            section_of=torch.from_numpy(graphs.section_of),
            document_of=torch.from_numpy(document_of),
            edge_index=torch.from_numpy(graphs.edge_index),
            edge_kind=torch.from_numpy(graphs.edge_kind),
            node_counts=tuple(graphs.node_counts.tolist()),
            edge_counts=tuple(graphs.edge_counts.tolist()),
            passage_counts=tuple(rows.counts.tolist()),
            places=places,
            rows=rows,
            sections=SectionLayout.from_passages(documents, places, len(graphs)),
            plan=plan_attention(graphs) if is_planned else None,
            edge_weight=None if graphs.edge_weight is None else torch.from_numpy(graphs.edge_weight),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers of a data loader hand over every tensor as a file. A process may only open a limited number, and
        # the training process waits for each: all tensors of a batch go as one.
        content = io.BytesIO()
        _ArrayPickler(content).dump(
            {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "origin"}
        )
        return _restored, (torch.frombuffer(content.getbuffer(), dtype=torch.uint8),)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.node_counts)

    @property
    def is_query(self) -> Tensor:
        """Which nodes are queries, ``(nodes,)``: passages that are all of their document and its graph."""
        return self.node_kind == NodeKind.QUERY

    def split_into(self, section_ids: Rows | None, chunk_ids: Rows | None = None) -> GraphBatch:
        """The same documents in other sections, on the same device (see :meth:`from_graphs`)."""
        origin = self.origin or self
        documents = origin.rows.document_of.numpy()
        places = places_of(documents, section_ids, chunk_ids)
        split = replace(origin, places=places, sections=SectionLayout.from_passages(documents, places, len(self)))
        return split if self.origin is None else split.to(self.node_kind.device)

    def to(self, device: torch.device | str) -> GraphBatch:
        """The same batch with its tensors on another device; token ids stay where they are."""
        here, target = self.node_kind.device, torch.device(device)
        if here.type == target.type and target.index in (None, here.index):
            return self
        origin = self.origin or self
        moved: GraphBatch = map_tensors(replace(origin, origin=None), partial(sent, target))
        return replace(moved, origin=origin)

    def slices(self, costs: Sequence[int], most: int) -> Iterator[GraphBatch]:
        """Cut the batch into batches of consecutive documents that keep to a cost.

        Token ids, passage vectors and words are left behind where there are several slices.

        Args:
            costs: cost of every document.
            most: highest cost of a slice; a document over it is a slice by itself.
        """
        first, used = 0, 0
        for document, cost in enumerate(costs):
            if document > first and used + cost > most:
                yield self._slice(first, document)
                first, used = document, 0
            used += cost
        yield self._slice(first, len(costs)) if first else self

    def _slice(self, first: int, last: int) -> GraphBatch:
        graphs, passages = self._graphs(first, last)
        section_ids, chunk_ids = self.places[passages].T
        return GraphBatch._of((), graphs, section_ids, chunk_ids).to(self.node_kind.device)

    def _graphs(self, first: int, last: int) -> tuple[JoinedGraphs, slice]:
        """The graphs of some consecutive documents, and where their passages stand."""
        origin = self.origin or self
        nodes, edges, passages = (
            slice(sum(counts[:first]), sum(counts[:last]))
            for counts in (self.node_counts, self.edge_counts, self.passage_counts)
        )
        graphs = JoinedGraphs(
            origin.node_kind[nodes].numpy(),
            origin.section_of[nodes].numpy(),
            (origin.edge_index[:, edges] - nodes.start).numpy(),
            origin.edge_kind[edges].numpy(),
            np.array(self.node_counts[first:last], np.int64),
            np.array(self.edge_counts[first:last], np.int64),
            None if origin.edge_weight is None else origin.edge_weight[edges].numpy(),
        )
        return graphs, passages

    def mini_batches(self, packing: Packing, pad_token_id: int, *, with_structure: bool = False) -> Iterator[MiniBatch]:
        """Pack the passages of all documents into mini-batches, with their places in documents if these are read."""
        lengths = np.array([len(ids) for ids in self.token_ids], np.int64)
        for positions in packing.pack(lengths):
            place = np.arange(lengths[positions[0]])
            mask = place < lengths[positions, None]
            rows = [self.token_ids[position] for position in positions.tolist()]
            input_ids = np.full(mask.shape, pad_token_id, np.int64)
            # Arrays are copied as they are, where numbers would have to be taken one by one.
            are_arrays = isinstance(rows[0], np.ndarray)
            input_ids[mask] = np.concatenate(rows) if are_arrays else np.fromiter(chain.from_iterable(rows), np.int64)
            types = None if self.second_from is None else mask & (place >= np.array(self.second_from)[positions, None])
            yield MiniBatch(
                torch.from_numpy(input_ids),
                torch.from_numpy(mask.astype(np.int64)),
                torch.from_numpy(positions),
                torch.from_numpy(self.places[positions]) if with_structure else None,
                None if types is None else torch.from_numpy(types.astype(np.int64)),
            )


def _restored(content: Tensor) -> GraphBatch:
    return GraphBatch(**pickle.loads(content.numpy().data))
