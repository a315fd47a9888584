"""The readout of CoLDE: chunks become sections, and sections the document."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ...graphs.batch import GraphBatch
from ..configuration import DocumentConfig
from .chunk_attention import ChunkAttention
from .section_layout import SectionLayout
from .weighted import mean_by_group


@dataclass(frozen=True, slots=True)
class SectionVectors:
    """What the readout gives.

    Args:
        documents: ``(documents, hidden)``, of unit length.
        sections: ``(sections, hidden)``, of unit length, document after document.
        document_of: ``(sections,)``, document of every section.
        pairs: ``(2, pairs)``, passages looked at above those that look; None unless asked for.
        weights: ``(pairs, heads)``; None unless asked for.
    """

    documents: Tensor
    sections: Tensor
    document_of: Tensor
    pairs: Tensor | None
    weights: Tensor | None


class SectionReadout(nn.Module):
    r"""Chunks of a section to a section vector (CoLDE, section 3.2), section vectors to the document vector.

    .. math::
        \tilde z_l = [\overrightarrow h_{n_l} ; \overleftarrow h_1], \quad
        h = \mathrm{BiLSTM}(x_1 + a_1, \dots, x_{n_l} + a_{n_l}), \quad
        z_l = \mathrm{Proj}(\tilde z_l) / \lVert \mathrm{Proj}(\tilde z_l) \rVert

    where x are the chunks of section l, a what chunkwise attention (:class:`ChunkAttention`) gives each, and Proj is
    linear. Chunks are the passage nodes after the last graph layer, without graph layers the passage vectors. The
    document vector is the mean of its section vectors, of unit length; that of a document that is not split is the
    vector of its only section.

    Args:
        config: ``chunk_attention_heads`` (0 for none), ``chunk_attention_norm``, ``section_aggregation`` (``lstm``, or
            the ``mean`` of the chunks), ``section_lstm_size`` and ``section_projection_size`` (None for none).
    """

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__()
        heads, size = config.chunk_attention_heads, config.node_size
        dropout, norm = config.attention_dropout, config.chunk_attention_norm
        self.attention = ChunkAttention(size, heads, dropout, norm) if heads else None
        self.lstm = None
        if config.section_aggregation == "lstm":
            self.lstm = nn.LSTM(size, config.section_lstm_size, bidirectional=True)
            size = 2 * config.section_lstm_size
        projected = config.section_projection_size
        self.projection = nn.Linear(size, projected) if projected else None

    @property
    def linear_layers(self) -> list[nn.Linear]:
        """Its linear layers, those of chunkwise attention among them."""
        return [module for module in self.modules() if isinstance(module, nn.Linear)]

    def forward(self, passages: Tensor, batch: GraphBatch, return_attention: bool = False) -> SectionVectors:
        """Read section and document vectors off the passages.

        Args:
            passages: ``(passages, node size)``, passage nodes, document after document.
            batch: which sections they belong to; every document has at least one passage.
            return_attention: also return the weights of chunkwise attention.

        Returns:
            Vectors of sections and documents.
        """
        layout = SectionLayout.of(batch)
        chunks, pairs, weights = passages[layout.chunks], None, None
        if self.attention is not None:
            added, pairs, weights = self.attention(chunks, layout, return_attention)
            chunks = chunks + added
        sections = self._aggregate(chunks, layout)
        if self.projection is not None:
            sections = self.projection(sections)
        sections = nn.functional.normalize(sections, dim=-1)
        means = mean_by_group(sections, layout.document_of, len(batch))
        return SectionVectors(nn.functional.normalize(means, dim=-1), sections, layout.document_of, pairs, weights)

    def _aggregate(self, chunks: Tensor, layout: SectionLayout) -> Tensor:
        """One vector for the chunks of every section, ``(sections, aggregated)``."""
        if self.lstm is None:
            return mean_by_group(chunks, layout.section_of, len(layout))
        _, (states, _) = self.lstm(packed(chunks, layout))
        return torch.cat([states[0], states[1]], dim=-1)


def packed(chunks: Tensor, layout: SectionLayout) -> PackedSequence:
    """Sections as an LSTM reads them: the first chunks of all, longest first, then the second ones, and so on.

    Torch makes the same from padded sections, which one long document in a large batch would fill with padding.

    Args:
        chunks: ``(chunks, hidden)``, in the order of the layout.
        layout: the sections.
    """
    by_length = torch.argsort(layout.counts, descending=True, stable=True)
    rank = torch.empty_like(by_length).scatter(0, by_length, torch.arange(len(by_length), device=by_length.device))
    order = torch.argsort(layout.place_of * len(layout) + rank[layout.section_of])
    return PackedSequence(chunks[order], torch.bincount(layout.place_of).cpu(), by_length, rank)
