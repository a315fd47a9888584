"""Graph attention over the nodes of documents."""

from __future__ import annotations

import math

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional
from transformers import initialization as init

from ..graphs.batch import GraphBatch
from ..graphs.layout import AttentionPlan, DenseBlock
from ..settings.document import Skip


def softmax_by_group(scores: Tensor, group_of: Tensor, groups: int) -> Tensor:
    """Turn scores ``(rows, ...)`` into weights that sum to 1 over every group; ``group_of`` is ``(rows,)``.

    >>> import torch
    >>> softmax_by_group(torch.zeros(3), torch.tensor([0, 1, 1]), 2)
    tensor([1.0000, 0.5000, 0.5000])
    """
    shape = (groups, *scores.shape[1:])
    rows = group_of.view(-1, *(1,) * (scores.dim() - 1)).expand_as(scores)
    # What is taken off all scores of a group changes no weight, and keeps the exponential within bounds.
    largest = scores.detach().new_zeros(shape).scatter_reduce(0, rows, scores.detach(), "amax", include_self=False)
    powers = (scores - largest.index_select(0, group_of)).exp()
    return powers / powers.new_zeros(shape).index_add(0, group_of, powers).index_select(0, group_of)


class GraphWeights(nn.Module):
    """The weights of one layer of graph attention, by the names that they have in PyG's ``GATConv``.

    PyG itself is not imported: that alone takes longer than to encode a dozen documents.
    """

    def __init__(self, hidden_size: int, heads: int, residual: bool) -> None:
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(hidden_size, hidden_size, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, hidden_size // heads))
        self.att_dst = nn.Parameter(torch.empty(1, heads, hidden_size // heads))
        self.res = nn.Linear(hidden_size, hidden_size, bias=False) if residual else None
        self.bias = nn.Parameter(torch.empty(hidden_size))
        for part in (self.lin, self.res, self):
            if part is not None:
                init_graph_weights(part)


def init_graph_weights(part: nn.Linear | GraphWeights) -> None:
    """Draw the weights of a part again, as PyG does: Glorot's uniform distribution, and a bias of 0."""
    if isinstance(part, nn.Linear):
        init.xavier_uniform_(part.weight)
        return
    for weight in (part.att_src, part.att_dst):
        bound = math.sqrt(6.0 / (weight.shape[-2] + weight.shape[-1]))
        init.uniform_(weight, -bound, bound)
    init.zeros_(part.bias)


# Of the LeakyReLU that scores go through (Velickovic et al. 2017, section 2.1).
NEGATIVE_SLOPE = 0.2


class GraphAttention(nn.Module):
    r"""One graph attention layer, exactly that of Velickovic et al. 2017 (Graph-RoBERTa, eq. 3), with skip connection.

    .. math::
        v_i' = \Vert_h \sum_{j \in N(i)} \alpha^h_{ij} W^h v_j + S v_i + b, \quad
        \alpha^h_{ij} = \mathrm{softmax}_j \, \mathrm{LeakyReLU}_{0.2}(a_s^h \cdot W^h v_j + a_t^h \cdot W^h v_i)

    The logarithm of the weight of an edge, where it has one, is added to its score, so that with equal scores a node
    takes the weighted mean of its neighbours. The skip connection S is the identity, or a learned matrix, as in
    the paper's library, DGL, up to 0.6. The sparse form goes along edges, as PyG's ``GATConv`` does; the dense form
    is the same function on masked adjacency matrices. Softmax and sums are in fp32, also under autocast.

    Args:
        hidden_size: width of a node, before and after.
        heads: attention heads, concatenated.
        skip: ``identity`` or ``linear``, the skip connection.
    """

    def __init__(self, hidden_size: int, heads: int, skip: Skip = "linear") -> None:
        super().__init__()
        self.conv = GraphWeights(hidden_size, heads, residual=skip == "linear")

    def skip(self, nodes: Tensor) -> Tensor:
        """The skip connection of nodes, ``(..., hidden)``."""
        return nodes if self.conv.res is None else self.conv.res(nodes)

    def forward(
        self, nodes: Tensor, batch: GraphBatch, plan: AttentionPlan, output_attentions: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Let every node attend to its neighbours.

        Args:
            nodes: ``(nodes, hidden)``.
            batch: the graphs; every node has a self-loop.
            plan: which form computes which document.
            output_attentions: also return the attention weights.

        Returns:
            ``(nodes, hidden)``, and the weights ``(edges, heads)`` in the order of ``batch.edge_index`` or None.
        """
        with torch.autocast(nodes.device.type, enabled=False):
            nodes = nodes.float()
            heads = self.conv.heads
            attention = nodes.new_zeros(batch.edge_index.shape[1], heads) if output_attentions else None
            result = nodes.new_zeros(nodes.shape)
            values = rearrange(self.conv.lin(nodes), "nodes (heads width) -> nodes heads width", heads=heads)
            source_score = (values * self.conv.att_src).sum(-1)
            target_score = (values * self.conv.att_dst).sum(-1)
            skipped = self.skip(nodes) + self.conv.bias
            if plan.blocks:
                result = skipped
                for block in plan.blocks:
                    message, weights = self._dense(block, values, source_score, target_score)
                    message = message.flatten(0, 1).index_select(0, block.places)
                    result = result.index_add(0, block.rows, message)
                    if attention is not None:
                        attention[block.edges] = rearrange(weights, "d heads t s -> (d t s) heads")[block.cells]
            if len(plan.sparse_edges):
                source, target = batch.edge_index[:, plan.sparse_edges]
                logits = functional.leaky_relu(source_score[source] + target_score[target], NEGATIVE_SLOPE)
                if batch.edge_weight is not None:
                    logits = logits + batch.edge_weight[plan.sparse_edges].log().unsqueeze(-1)
                weights = softmax_by_group(logits, target, len(nodes))
                sums = torch.zeros_like(values).index_add(0, target, weights.unsqueeze(-1) * values[source])
                result = torch.where(plan.is_sparse_node.unsqueeze(-1), skipped + sums.flatten(1), result)
                if attention is not None:
                    attention[plan.sparse_edges] = weights
            return result, attention

    def _dense(
        self, block: DenseBlock, values: Tensor, source_score: Tensor, target_score: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Messages ``(documents, width, hidden)`` and weights ``(documents, heads, target, source)`` of a block."""
        target = rearrange(target_score[block.nodes], "d t heads -> d heads t 1")
        source = rearrange(source_score[block.nodes], "d s heads -> d heads 1 s")
        logits = functional.leaky_relu(target + source, NEGATIVE_SLOPE)
        if block.log_weights is not None:
            logits = logits + block.log_weights.unsqueeze(1)
        # A finite fill keeps rows of padding, where everything is masked, free of NaN.
        logits = logits.masked_fill(~block.adjacency.unsqueeze(1), torch.finfo(logits.dtype).min)
        weights = torch.softmax(logits, dim=-1)
        message = weights @ rearrange(values[block.nodes], "d s heads width -> d heads s width")
        return rearrange(message, "d heads t width -> d t (heads width)"), weights


class GraphAttentionStack(nn.Module):
    """Layers of graph attention with ELU between them (Graph-RoBERTa, eq. 3 and section 3)."""

    def __init__(self, hidden_size: int, layers: int, heads: int, skip: Skip = "linear") -> None:
        super().__init__()
        self.layers = nn.ModuleList(GraphAttention(hidden_size, heads, skip) for _ in range(layers))

    def forward(
        self, nodes: Tensor, batch: GraphBatch, output_attentions: bool = False
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Apply all layers to initial nodes, ``(nodes, hidden)``.

        Returns:
            Final nodes ``(nodes, hidden)``; attention ``(edges, heads)`` of every layer; input ``(nodes, hidden)`` of
            every layer. The lists are empty unless asked for.
        """
        attention: list[Tensor] = []
        inputs: list[Tensor] = []
        if not self.layers:
            return nodes, attention, inputs
        plan = batch.plan
        if plan is None:
            raise ValueError("graph layers need a batch with edges; give its graph kind where it is made")
        for number, layer in enumerate(self.layers):
            if number:
                nodes = functional.elu(nodes)
            if output_attentions:
                inputs.append(nodes)
            nodes, weights = layer(nodes, batch, plan, output_attentions)
            if weights is not None:
                attention.append(weights)
        return nodes, attention, inputs
