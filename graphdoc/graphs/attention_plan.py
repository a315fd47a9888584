"""How graph attention over a batch is computed: planned with NumPy where the batch is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .kinds.kind import Integers

Form = Literal["auto", "dense", "sparse"]

# Measured in benchmarks/graph_attention.py: up to this many cells per edge the dense form is the faster one.
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
    """Which documents of a batch are computed densely, and which edges are left for the sparse form.

    Args:
        blocks: the dense blocks.
        sparse_edges: ``(sparse edges,)``, edges of the other documents.
        is_sparse_node: ``(nodes,)``, nodes of the other documents.
    """

    blocks: tuple[DenseBlock, ...]
    sparse_edges: Tensor
    is_sparse_node: Tensor


def plan_attention(
    edge_index: Integers,
    node_counts: Sequence[int] | Integers,
    edge_counts: Sequence[int] | Integers,
    form: Form = "auto",
    edge_weights: npt.NDArray[np.float32] | None = None,
) -> AttentionPlan:
    """Choose the cheaper form for every document and lay out the dense ones.

    A document is dense when its adjacency has at most ``DENSE_CELLS_PER_EDGE`` cells per edge: nearly complete graphs
    are far cheaper as matrix products, long windowed ones as sums over edges.

    Args:
        edge_index: ``(2, edges)``, source above target, document after document.
        node_counts: nodes of every document.
        edge_counts: edges of every document.
        form: ``dense`` or ``sparse`` to force one.
        edge_weights: ``(edges,)``, above 0, how much every edge counts; None where all count alike.

    Returns:
        The plan, which all layers share.
    """
    nodes, edges = np.asarray(node_counts, np.int64), np.asarray(edge_counts, np.int64)
    is_dense = (
        nodes * nodes <= DENSE_CELLS_PER_EDGE * edges if form == "auto" else np.full(len(nodes), form == "dense")
    )
    dense = np.flatnonzero(is_dense)
    order = dense[np.argsort(-nodes[dense], kind="stable")]
    log_weights = None if edge_weights is None else np.log(edge_weights)
    blocks: list[DenseBlock] = []
    first = 0
    for place in range(1, len(order) + 1):
        width = int(nodes[order[first]])
        if place < len(order):
            fits = (place - first + 1) * width**2 <= DENSE_BLOCK_CELLS
            if fits and nodes[order[place]] >= DENSE_BLOCK_EVENNESS * width:
                continue
        blocks.append(_dense_block(edge_index, order[first:place], nodes, edges, log_weights))
        first = place
    return AttentionPlan(
        tuple(blocks),
        torch.from_numpy(np.flatnonzero(np.repeat(~is_dense, edges))),
        torch.from_numpy(np.repeat(~is_dense, nodes)),
    )


def _dense_block(
    edge_index: Integers,
    documents: Integers,
    nodes: Integers,
    edges: Integers,
    log_weights: npt.NDArray[np.float32] | None,
) -> DenseBlock:
    width = int(nodes[documents[0]])
    starts = (np.cumsum(nodes) - nodes)[documents]
    offsets = np.arange(width)
    is_node = offsets < nodes[documents, None]
    rows = np.where(is_node, starts[:, None] + offsets, starts[0])
    own = ranges((np.cumsum(edges) - edges)[documents], edges[documents])
    document = np.repeat(np.arange(len(documents)), edges[documents])
    source, target = edge_index[:, own] - starts[document]
    cells = (document * width + target) * width + source
    adjacency = np.zeros((len(documents), width, width), np.bool_)
    adjacency.reshape(-1)[cells] = True
    places = np.flatnonzero(is_node)
    arrays = (rows, rows.reshape(-1)[places], places, adjacency, own, cells)
    block = DenseBlock(*(torch.from_numpy(array) for array in arrays))
    if log_weights is None:
        return block
    added = np.zeros(adjacency.shape, np.float32)
    added.reshape(-1)[cells] = log_weights[own]
    return replace(block, log_weights=torch.from_numpy(added))


def ranges(starts: Integers, counts: Integers) -> Integers:
    """Numbers from every start on, as many as its count, one range after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(starts - before, counts))
