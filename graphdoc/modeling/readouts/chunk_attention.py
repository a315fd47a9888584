"""Chunkwise attention: the chunks of a section look at the chunks of the next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from .section_layout import SectionLayout

# Cells (query by key) of one block; bounds the memory of its (sections, heads, queries, keys) attention.
BLOCK_CELLS = 2**21


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
            rows.append(block.asking[block.is_asking])
            messages.append(message[block.is_asking].flatten(1))
            if return_attention:
                pairs.append(layout.chunks[block.pairs])
                weights.append(rearrange(attention, "s h q k -> s q k h")[block.is_pair])
        added: Tensor = self.output(torch.cat(messages)[torch.argsort(torch.cat(rows))])
        if not return_attention:
            return added, None, None
        table = torch.cat(pairs, dim=1)
        order = torch.argsort(table[1] * len(chunks) + table[0])
        return added, table[:, order], torch.cat(weights)[order]


@dataclass(frozen=True, slots=True)
class _Block:
    """Sections of about the same size, laid out for dense attention.

    Args:
        asking: ``(sections, queries)``, chunks that look; padding repeats a chunk.
        is_asking: ``(sections, queries)``, False for padding.
        asked: ``(sections, keys)``, chunks that are looked at.
        is_asked: ``(sections, keys)``, False for padding.
    """

    asking: Tensor
    is_asking: Tensor
    asked: Tensor
    is_asked: Tensor

    @property
    def is_pair(self) -> Tensor:
        """``(sections, queries, keys)``, False for padding."""
        return self.is_asking.unsqueeze(2) & self.is_asked.unsqueeze(1)

    @property
    def pairs(self) -> Tensor:
        """Chunks looked at above those that look, ``(2, pairs)``."""
        is_pair = self.is_pair
        sides = (self.asked.unsqueeze(1), self.asking.unsqueeze(2))
        return torch.stack([side.expand(is_pair.shape)[is_pair] for side in sides])


def _blocks(layout: SectionLayout) -> Iterator[_Block]:
    """Blocks of sections with about as many chunks that look and that are looked at: little of them is padding."""
    sizes = torch.stack([layout.counts, layout.counts[layout.following]]).cpu()
    # Sizes within a power of two share a block, which at most doubles each side of it.
    scales = torch.ceil(torch.log2(sizes.double())).long()
    _, kind_of = torch.unique(scales, dim=1, return_inverse=True)
    for kind in range(int(kind_of.max()) + 1):
        members = torch.nonzero(kind_of == kind).squeeze(1)
        asking, asked = sizes[:, members].amax(dim=1).tolist()
        for sections in torch.split(members.to(layout.counts.device), max(1, BLOCK_CELLS // (asking * asked))):
            queries, keys = layout.padded(sections), layout.padded(layout.following[sections])
            # A single section may be larger than a block; its chunks look in parts.
            width = max(1, BLOCK_CELLS // (len(sections) * asked))
            for chunks, is_chunk in zip(*(torch.split(part, width, dim=1) for part in queries), strict=True):
                yield _Block(chunks, is_chunk, *keys)
