"""The plan of computing a batch, made on the CPU: graph attention, sections and chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..runtime.arrays import Rows
from .kinds import JoinedGraphs

Form = Literal["auto", "dense", "sparse"]

# Measured in benchmarks/results/graph_attention.md: up to this many cells per edge the dense form is the faster one.
DENSE_CELLS_PER_EDGE = 40
# Cells of one dense block; bounds the memory of its (documents, heads, nodes, nodes) attention.
DENSE_BLOCK_CELLS = 2**21
# Documents share a dense block while the smallest has at least this share of the largest one's nodes.
DENSE_BLOCK_EVENNESS = 0.8


@dataclass(frozen=True, slots=True)
class DenseBlock:
    """Documents of about the same size, laid out for masked dense attention.

    Args:
        nodes: ``(documents, width)``, node numbers in the batch; padding points at the block's first node.
        rows: ``(block nodes,)``, the node numbers without padding.
        places: ``(block nodes,)``, place of each in the flattened nodes.
        adjacency: ``(documents, width, width)``, target by source.
        edges: ``(block edges,)``, the block's edges among the edges of the batch.
        cells: ``(block edges,)``, place of each edge in the flattened adjacency.
        log_weights: ``(documents, width, width)``, logarithm of the weight of every edge, 0 where there is none; None
            where all edges count alike.
    """

    nodes: Tensor
    rows: Tensor
    places: Tensor
    adjacency: Tensor
    edges: Tensor
    cells: Tensor
    log_weights: Tensor | None = None


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The documents of a batch that are computed densely, and the edges left for the sparse form.

    Args:
        blocks: the dense blocks.
        sparse_edges: ``(sparse edges,)``, edges of the other documents.
        is_sparse_node: ``(nodes,)``, nodes of the other documents.
    """

    blocks: tuple[DenseBlock, ...]
    sparse_edges: Tensor
    is_sparse_node: Tensor


def plan_attention(graphs: JoinedGraphs, form: Form = "auto") -> AttentionPlan:
    """Choose the cheaper form for every document and lay out the dense ones, unless a form is given.

    A document is dense when its adjacency has at most ``DENSE_CELLS_PER_EDGE`` cells per edge: nearly complete graphs
    are far cheaper as matrix products, long windowed ones as sums over edges.
    """
    nodes, edges = graphs.node_counts, graphs.edge_counts
    is_dense = nodes * nodes <= DENSE_CELLS_PER_EDGE * edges if form == "auto" else np.full(len(nodes), form == "dense")
    dense = np.flatnonzero(is_dense)
    order = dense[np.argsort(-nodes[dense], kind="stable")]
    blocks: list[DenseBlock] = []
    first = 0
    for place in range(1, len(order) + 1):
        width = int(nodes[order[first]])
        if place < len(order):
            fits = (place - first + 1) * width**2 <= DENSE_BLOCK_CELLS
            if fits and nodes[order[place]] >= DENSE_BLOCK_EVENNESS * width:
                continue
        blocks.append(_dense_block(graphs, order[first:place]))
        first = place
    sparse_edges = torch.from_numpy(np.flatnonzero(np.repeat(~is_dense, edges)))
    return AttentionPlan(tuple(blocks), sparse_edges, torch.from_numpy(np.repeat(~is_dense, nodes)))


def _dense_block(graphs: JoinedGraphs, documents: Rows) -> DenseBlock:
    nodes, edges = graphs.node_counts, graphs.edge_counts
    width = int(nodes[documents[0]])
    starts = (np.cumsum(nodes) - nodes)[documents]
    offsets = np.arange(width)
    is_node = offsets < nodes[documents, None]
    rows = np.where(is_node, starts[:, None] + offsets, starts[0])
    members = ranges((np.cumsum(edges) - edges)[documents], edges[documents])
    document = np.repeat(np.arange(len(documents)), edges[documents])
    source, target = graphs.edge_index[:, members] - starts[document]
    cells = (document * width + target) * width + source
    adjacency = np.zeros((len(documents), width, width), np.bool_)
    adjacency.reshape(-1)[cells] = True
    places = np.flatnonzero(is_node)
    arrays = [rows, rows.reshape(-1)[places], places, adjacency, members, cells]
    if graphs.edge_weight is not None:
        arrays.append(np.zeros(adjacency.shape, np.float32))
        arrays[-1].reshape(-1)[cells] = np.log(graphs.edge_weight[members])
    return DenseBlock(*map(torch.from_numpy, arrays))


def ranges(starts: Rows, counts: Rows) -> Rows:
    """Numbers from every start on, as many as its count, one range after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(starts - before, counts))


# Cells (query by key) of one group; bounds the memory of its (sections, heads, queries, keys) attention.
GROUP_CELLS = 2**21


@dataclass(frozen=True, slots=True)
class SectionGroup:
    """Sections of about the same size and the sections that follow them, laid out for dense attention.

    Args:
        query_chunks: ``(sections, queries)``, chunks of the sections; padding repeats a chunk.
        is_query: ``(sections, queries)``, False for padding.
        key_chunks: ``(sections, keys)``, chunks of the following sections.
        is_key: ``(sections, keys)``, False for padding.
    """

    query_chunks: Tensor
    is_query: Tensor
    key_chunks: Tensor
    is_key: Tensor


@dataclass(frozen=True, slots=True)
class SectionLayout:
    """Sections of a batch, document after document, and their chunks; a chunk is a passage of the batch.

    Sections of a document come by their ids, chunks of a section by theirs, wherever they stand in the batch.

    Args:
        chunks: ``(chunks,)``, the passages of the batch in the order of documents, sections and chunk ids.
        section_of: ``(chunks,)``, section of every chunk.
        counts: ``(sections,)``, chunks of every section.
        document_of: ``(sections,)``, document of every section.
        section_counts: ``(documents,)``, sections of every document.
        groups: sections with about as many chunks, and their following ones; after a document's last comes its first.
        by_step: ``(chunks,)``, the first chunks of all sections, the longest section first, then the second ones, and
            so on: the order in which a recurrent network reads them.
        step_sizes: ``(longest section,)``, how many chunks each step has, on the CPU wherever the batch is.
        by_length: ``(sections,)``, sections, the longest first.
        rank: ``(sections,)``, place of every section in that order.
    """

    chunks: Tensor
    section_of: Tensor
    counts: Tensor
    document_of: Tensor
    section_counts: Tensor
    groups: tuple[SectionGroup, ...]
    by_step: Tensor
    step_sizes: Rows
    by_length: Tensor
    rank: Tensor

    @classmethod
    def from_passages(cls, documents: Rows, places: Rows, count: int) -> SectionLayout:
        """Lay out sections.

        Args:
            documents: ``(passages,)``, document of every passage.
            places: ``(passages, 2)``, section id and chunk id of every passage.
            count: number of documents.
        """
        sections, chunk_ids = places.T
        chunks, starts, counts = _by_section(documents, sections, chunk_ids)
        section_of = np.repeat(np.arange(len(starts)), counts)
        document_of = documents[chunks][starts]
        place_of = np.arange(len(chunks)) - starts[section_of]
        by_length = np.argsort(-counts, kind="stable")
        rank = np.argsort(by_length)
        return cls(
            torch.from_numpy(chunks),
            torch.from_numpy(section_of),
            torch.from_numpy(counts),
            torch.from_numpy(document_of),
            torch.from_numpy(np.bincount(document_of, minlength=count)),
            _groups(starts, counts, _following(document_of)),
            torch.from_numpy(np.lexsort((rank[section_of], place_of))),
            np.bincount(place_of),
            torch.from_numpy(by_length),
            torch.from_numpy(rank),
        )

    def __len__(self) -> int:
        """Number of sections."""
        return len(self.counts)


def _by_section(documents: Rows, sections: Rows, chunk_ids: Rows) -> tuple[Rows, Rows, npt.NDArray[np.int64]]:
    """Passages in the order of documents, sections and chunks; where sections begin in it, and their chunks."""
    order = np.lexsort((chunk_ids, sections, documents))
    keys = np.stack([documents[order], sections[order]])
    starts = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-1) != 0, axis=0))
    return order, starts, np.diff(starts, append=len(order))


def _following(document_of: Rows) -> Rows:
    """The section after each in its document; after the last comes the first."""
    following = np.arange(len(document_of)) + 1
    is_last = np.diff(document_of, append=-1) != 0
    following[is_last] = np.flatnonzero(np.diff(document_of, prepend=-1))
    return following


def _groups(starts: Rows, counts: Rows, following: Rows) -> tuple[SectionGroup, ...]:
    """Groups of sections with about as many chunks that look and that are looked at: little of them is padding."""
    sizes = np.stack([counts, counts[following]])
    # Sizes within a power of two share a group, which at most doubles each side of it.
    scales = np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    order = np.lexsort((np.arange(len(counts)), scales[1], scales[0]))
    cuts = np.flatnonzero(np.any(np.diff(scales[:, order], axis=1) != 0, axis=0)) + 1
    groups = []
    for members in np.split(order, cuts) if len(order) else ():
        query_chunks, key_chunks = sizes[:, members].max(axis=1).tolist()
        most = max(1, GROUP_CELLS // (query_chunks * key_chunks))
        for sections in np.split(members, range(most, len(members), most)):
            parts = [_padded(starts[rows], counts[rows]) for rows in (sections, following[sections])]
            groups.append(SectionGroup(*(torch.from_numpy(array) for part in parts for array in part)))
    return tuple(groups)


def _padded(starts: Rows, counts: Rows) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Chunks of sections, padded to one width with the first, and the mask of the real ones."""
    places = np.arange(int(counts.max()))
    is_chunk = places < counts[:, None]
    return starts[:, None] + np.where(is_chunk, places, 0), is_chunk


def places_of(documents: Rows, section_ids: Rows | None, chunk_ids: Rows | None) -> Rows:
    """Section id and chunk id of every passage, ``(passages, 2)``.

    Args:
        documents: ``(passages,)``, document of every passage.
        section_ids: ``(passages,)``, section of every passage, from 0 in every document; None for one section each.
        chunk_ids: ``(passages,)``, place of every passage in its section; None for its place in reading order.
    """
    sections = np.zeros_like(documents) if section_ids is None else section_ids
    if chunk_ids is None:
        order, starts, counts = _by_section(documents, sections, np.arange(len(documents)))
        chunk_ids = np.empty_like(documents)
        chunk_ids[order] = ranges(np.zeros_like(starts), counts)
    return np.stack([sections, chunk_ids], axis=1)


def section_ids(sections: npt.ArrayLike) -> Rows:
    """Count the sections of passages ``(passages,)`` from 0 in the order in which they come.

    >>> section_ids([5, 5, 2, 9, 2]).tolist()
    [0, 0, 1, 2, 1]
    """
    _, first, number = np.unique(np.asarray(sections, np.int64), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]
