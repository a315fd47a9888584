"""Graph attention layers on document graphs, in a dense and a sparse form that share their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv
from torch_geometric.utils import softmax

from ..graphs.batch import GraphBatch

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
        is_node: ``(documents, width)``, False for padding.
        adjacency: ``(documents, width, width)``, target by source.
        edges: ``(block edges,)``, the block's edges among the edges of the batch.
        cells: ``(block edges,)``, place of each edge in the flattened adjacency.
    """

    nodes: Tensor
    is_node: Tensor
    adjacency: Tensor
    edges: Tensor
    cells: Tensor


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


def plan_attention(batch: GraphBatch, form: Form = "auto") -> AttentionPlan:
    """Choose the cheaper form for every document and lay out the dense ones.

    A document is dense when its adjacency has at most ``DENSE_CELLS_PER_EDGE`` cells per edge: nearly complete graphs
    are far cheaper as matrix products, long windowed ones as sums over edges.

    Args:
        batch: the graphs.
        form: ``dense`` or ``sparse`` to force one.

    Returns:
        The plan, which all layers share.
    """
    device = batch.edge_index.device
    node_starts = _starts(batch.node_counts)
    edge_starts = _starts(batch.edge_counts)
    dense = [
        form == "dense" or (form == "auto" and nodes * nodes <= DENSE_CELLS_PER_EDGE * edges)
        for nodes, edges in zip(batch.node_counts, batch.edge_counts, strict=True)
    ]
    order = sorted((i for i, chosen in enumerate(dense) if chosen), key=lambda i: -batch.node_counts[i])
    blocks: list[DenseBlock] = []
    group: list[int] = []
    for document in order:
        if group:
            width, nodes = batch.node_counts[group[0]], batch.node_counts[document]
            if (len(group) + 1) * width**2 > DENSE_BLOCK_CELLS or nodes < DENSE_BLOCK_EVENNESS * width:
                blocks.append(_dense_block(batch, group, node_starts, edge_starts))
                group = []
        group.append(document)
    if group:
        blocks.append(_dense_block(batch, group, node_starts, edge_starts))
    is_sparse_document = torch.tensor([not chosen for chosen in dense], device=device)
    is_sparse_node = is_sparse_document[batch.document_of]
    sparse_edges = torch.nonzero(is_sparse_node[batch.edge_index[0]]).squeeze(1)
    return AttentionPlan(tuple(blocks), sparse_edges, is_sparse_node)


def _starts(counts: Sequence[int]) -> list[int]:
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    return starts


def _dense_block(
    batch: GraphBatch, documents: Sequence[int], node_starts: Sequence[int], edge_starts: Sequence[int]
) -> DenseBlock:
    device = batch.edge_index.device
    width = batch.node_counts[documents[0]]
    starts = torch.tensor([node_starts[i] for i in documents], device=device)
    counts = torch.tensor([batch.node_counts[i] for i in documents], device=device)
    offsets = torch.arange(width, device=device)
    is_node = offsets < counts.unsqueeze(1)
    nodes = torch.where(is_node, starts.unsqueeze(1) + offsets, starts[:1].unsqueeze(1))
    edges = torch.cat([torch.arange(edge_starts[i], edge_starts[i + 1], device=device) for i in documents])
    row = torch.repeat_interleave(
        torch.arange(len(documents), device=device),
        torch.tensor([batch.edge_counts[i] for i in documents], device=device),
    )
    source, target = batch.edge_index[:, edges] - starts[row]
    cells = (row * width + target) * width + source
    adjacency = torch.zeros(len(documents) * width * width, dtype=torch.bool, device=device)
    adjacency[cells] = True
    return DenseBlock(nodes, is_node, adjacency.view(len(documents), width, width), edges, cells)


class GraphAttention(nn.Module):
    r"""One graph attention layer, exactly that of Velickovic et al. 2017 (Graph-RoBERTa, eq. 3), with skip connection.

    .. math::
        v_i' = \Vert_h \sum_{j \in N(i)} \alpha^h_{ij} W^h v_j + R v_i + b, \quad
        \alpha^h_{ij} = \mathrm{softmax}_j \, \mathrm{LeakyReLU}_{0.2}(a_s^h \cdot W^h v_j + a_t^h \cdot W^h v_i)

    The parameters live in PyG's ``GATConv``, which computes the sparse form; the dense form is the same function on
    masked adjacency matrices. Softmax and sums are in fp32, also under autocast.

    Args:
        hidden_size: width of a node, before and after.
        heads: attention heads, concatenated.
        dropout: dropout on attention weights in training.
    """

    def __init__(self, hidden_size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv: Any = GATConv(
            hidden_size, hidden_size // heads, heads, dropout=dropout, add_self_loops=False, residual=True
        )

    def forward(
        self, nodes: Tensor, batch: GraphBatch, plan: AttentionPlan, return_attention: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Let every node attend to its neighbours.

        Args:
            nodes: ``(nodes, hidden)``.
            batch: the graphs; every node has a self-loop.
            plan: which form computes which document.
            return_attention: also return the attention weights (before dropout).

        Returns:
            ``(nodes, hidden)``, and the weights ``(edges, heads)`` in the order of ``batch.edge_index`` or None.
        """
        with torch.autocast(nodes.device.type, enabled=False):
            nodes = nodes.float()
            heads = self.conv.heads
            attention = nodes.new_zeros(batch.edge_index.shape[1], heads) if return_attention else None
            result = nodes.new_zeros(nodes.shape)
            if plan.blocks or attention is not None:
                values = rearrange(self.conv.lin(nodes), "nodes (heads width) -> nodes heads width", heads=heads)
                source_score = (values * self.conv.att_src).sum(-1)
                target_score = (values * self.conv.att_dst).sum(-1)
            if plan.blocks:
                result = self.conv.res(nodes) + self.conv.bias
                for block in plan.blocks:
                    message, weights = self._dense(block, values, source_score, target_score)
                    result = result.index_add(0, block.nodes[block.is_node], message[block.is_node])
                    if attention is not None:
                        attention[block.edges] = rearrange(weights, "d heads t s -> (d t s) heads")[block.cells]
            if len(plan.sparse_edges):
                edges = batch.edge_index[:, plan.sparse_edges]
                sparse = self.conv(nodes, edges)
                result = torch.where(plan.is_sparse_node.unsqueeze(-1), sparse, result)
                if attention is not None:
                    # What GATConv returns is after dropout.
                    source, target = edges
                    logits = functional.leaky_relu(
                        source_score[source] + target_score[target], self.conv.negative_slope
                    )
                    attention[plan.sparse_edges] = softmax(logits, target, num_nodes=len(nodes))
            return result, attention

    def _dense(
        self, block: DenseBlock, values: Tensor, source_score: Tensor, target_score: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Messages ``(documents, width, hidden)`` and weights ``(documents, heads, target, source)`` of a block."""
        target = rearrange(target_score[block.nodes], "d t heads -> d heads t 1")
        source = rearrange(source_score[block.nodes], "d s heads -> d heads 1 s")
        logits = functional.leaky_relu(target + source, self.conv.negative_slope)
        # A finite fill keeps rows of padding, where everything is masked, free of NaN.
        logits = logits.masked_fill(~block.adjacency.unsqueeze(1), torch.finfo(logits.dtype).min)
        weights = torch.softmax(logits, dim=-1)
        dropped = functional.dropout(weights, p=self.conv.dropout, training=self.training)
        message = dropped @ rearrange(values[block.nodes], "d s heads width -> d heads s width")
        return rearrange(message, "d heads t width -> d t (heads width)"), weights


class GraphAttentionStack(nn.Module):
    """Layers of graph attention with ELU between them (Graph-RoBERTa, eq. 3 and section 3).

    Args:
        hidden_size: width of a node.
        layers: number of layers T.
        heads: attention heads of a layer.
        dropout: dropout on attention weights in training.
    """

    def __init__(self, hidden_size: int, layers: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GraphAttention(hidden_size, heads, dropout) for _ in range(layers))

    def forward(
        self, nodes: Tensor, batch: GraphBatch, return_attention: bool = False, form: Form = "auto"
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Apply all layers.

        Args:
            nodes: initial nodes, ``(nodes, hidden)``.
            batch: the graphs.
            return_attention: also return what every layer saw and where it looked.
            form: ``dense`` or ``sparse`` to force one form.

        Returns:
            Final nodes ``(nodes, hidden)``; attention ``(edges, heads)`` of every layer; input ``(nodes, hidden)`` of
            every layer. The lists are empty unless asked for.
        """
        attention: list[Tensor] = []
        inputs: list[Tensor] = []
        if not self.layers:
            return nodes, attention, inputs
        plan = plan_attention(batch, form)
        for number, layer in enumerate(self.layers):
            if number:
                nodes = functional.elu(nodes)
            if return_attention:
                inputs.append(nodes)
            nodes, weights = layer(nodes, batch, plan, return_attention)
            if weights is not None:
                attention.append(weights)
        return nodes, attention, inputs
