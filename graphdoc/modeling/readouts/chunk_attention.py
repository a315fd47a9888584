"""Chunkwise attention: the chunks of a section look at the chunks of the next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from ...graphs.section_layout import GROUP_CELLS, SectionGroup, SectionLayout


class ChunkAttention(nn.Module):
    r"""Multi-headed chunkwise attention between consecutive sections (CoLDE, section 3.2).

    .. math::
        \mathrm{Attention}(Q_p, K_{p+1}, V_{p+1}) = \mathrm{softmax}(Q_p K_{p+1}^\top / \sqrt d) \, V_{p+1}

    where :math:`Q_p = W_Q X_p` are the queries of the chunks of section p, and keys and values come from the chunks of
    section p + 1 of the same document. The last section looks at the first, and the only section of a document at
    itself. Heads are those of Vaswani et al. 2017: each has its own share of the width, they are concatenated and
    mapped by an output matrix; d is the width of a head.

    The paper's chunks are outputs of BERT, which have mean 0 and variance 1. On vectors of unit length, which encoders
    of sentences give, scores stay near 0 and attention even; ``norm`` brings chunks to mean 0 and variance 1 first.

    Args:
        hidden_size: width of a chunk.
        heads: number of heads.
        dropout: dropout on attention weights in training.
        norm: normalise every chunk before queries, keys and values are computed.
    """

    def __init__(self, hidden_size: int, heads: int, dropout: float = 0.0, norm: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, elementwise_affine=False) if norm else None
        self.heads = heads
        self.dropout = dropout
        self.scale = (hidden_size // heads) ** -0.5
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def queries_and_keys(self, chunks: Tensor) -> tuple[Tensor, Tensor]:
        """What chunks look for and what they are found by, each ``(chunks, heads, width)``."""
        chunks = chunks if self.norm is None else self.norm(chunks)
        return self.by_head(self.query(chunks)), self.by_head(self.key(chunks))

    def by_head(self, vectors: Tensor) -> Tensor:
        """Give every head its share, ``(chunks, hidden)`` to ``(chunks, heads, width)``."""
        return rearrange(vectors, "chunks (heads width) -> chunks heads width", heads=self.heads)

    def forward(
        self, chunks: Tensor, layout: SectionLayout, return_attention: bool = False
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Let every chunk look at the chunks of the next section.

        Args:
            chunks: ``(chunks, hidden)``, in the order of the layout.
            layout: the sections.
            return_attention: also return the weights (before dropout).

        Returns:
            ``(chunks, hidden)``, what is added to the chunks; and, where asked for, the pairs of passages
            ``(2, pairs)``, the one looked at above the one that looks, sorted by the latter, and the weights
            ``(pairs, heads)``, which sum to 1 over the pairs of one that looks.
        """
        queries, keys = self.queries_and_keys(chunks)
        values = self.by_head(self.value(chunks if self.norm is None else self.norm(chunks)))
        rows, messages, pairs, weights = [], [], [], []
        for block in _blocks(layout):
            scores = torch.einsum("sqhw,skhw->shqk", queries[block.asking], keys[block.asked]) * self.scale
            # A finite fill keeps rows of padding free of NaN.
            scores = scores.masked_fill(~block.is_asked[:, None, None], torch.finfo(scores.dtype).min)
            attention = torch.softmax(scores, dim=-1)
            dropped = functional.dropout(attention, p=self.dropout, training=self.training)
            message = torch.einsum("shqk,skhw->sqhw", dropped, values[block.asked])
            # Padding writes to a row that is thrown away.
            rows.append(torch.where(block.is_asking, block.asking, len(chunks)).flatten())
            messages.append(message.flatten(0, 1).flatten(1))
            if return_attention:
                sides, found = _pairs(block, attention)
                pairs.append(layout.chunks[sides])
                weights.append(found)
        heads = torch.zeros(len(chunks) + 1, chunks.shape[1], dtype=chunks.dtype, device=chunks.device)
        added: Tensor = self.output(heads.index_copy(0, torch.cat(rows), torch.cat(messages))[:-1])
        if not return_attention:
            return added, None, None
        table = torch.cat(pairs, dim=1)
        order = torch.argsort(table[1] * len(chunks) + table[0])
        return added, table[:, order], torch.cat(weights)[order]


def _blocks(layout: SectionLayout) -> Iterator[SectionGroup]:
    """The groups of a layout in parts whose attention fits in memory."""
    for group in layout.groups:
        # A single section may be larger than a group should be; its chunks look in parts.
        width = max(1, GROUP_CELLS // max(1, group.asked.numel()))
        for asking, is_asking in zip(
            *(torch.split(part, width, dim=1) for part in (group.asking, group.is_asking)), strict=True
        ):
            yield replace(group, asking=asking, is_asking=is_asking)


def _pairs(block: SectionGroup, attention: Tensor) -> tuple[Tensor, Tensor]:
    """Chunks looked at above those that look, ``(2, pairs)``, and weights ``(pairs, heads)``, without padding."""
    is_pair = block.is_asking.unsqueeze(2) & block.is_asked.unsqueeze(1)
    sides = (block.asked.unsqueeze(1), block.asking.unsqueeze(2))
    pairs = torch.stack([side.expand(is_pair.shape)[is_pair] for side in sides])
    return pairs, rearrange(attention, "s h q k -> s q k h")[is_pair]
