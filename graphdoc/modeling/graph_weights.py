"""What a layer of graph attention learns."""

from __future__ import annotations

import math

import torch
from torch import nn
from transformers import initialization as init


class GraphLinear(nn.Linear):
    """A linear map of nodes, without bias.

    Args:
        size: width of a node, before and after.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size, size, bias=False)


class GraphWeights(nn.Module):
    """The weights of one layer of graph attention, by the names that they have in PyG's ``GATConv``.

    PyG itself is not imported: that alone takes longer than to encode a dozen documents.

    Args:
        hidden_size: width of a node, before and after.
        heads: attention heads, concatenated.
        residual: whether the skip connection is a learned matrix.
    """

    def __init__(self, hidden_size: int, heads: int, residual: bool) -> None:
        super().__init__()
        self.heads = heads
        self.lin = GraphLinear(hidden_size)
        self.att_src = nn.Parameter(torch.empty(1, heads, hidden_size // heads))
        self.att_dst = nn.Parameter(torch.empty(1, heads, hidden_size // heads))
        self.res = GraphLinear(hidden_size) if residual else None
        self.bias = nn.Parameter(torch.empty(hidden_size))
        for part in (self.lin, self.res, self):
            if part is not None:
                init_graph_weights(part)


def init_graph_weights(part: GraphLinear | GraphWeights) -> None:
    """Draw the own weights of a part anew, as PyG does: Glorot's uniform distribution, and a bias of 0."""
    if isinstance(part, GraphLinear):
        init.xavier_uniform_(part.weight)
        return
    for weight in (part.att_src, part.att_dst):
        bound = math.sqrt(6.0 / (weight.shape[-2] + weight.shape[-1]))
        init.uniform_(weight, -bound, bound)
    init.zeros_(part.bias)
