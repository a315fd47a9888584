"""The readout of CoLDE: chunks become sections, and sections the document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from transformers import initialization as init

from ...graphs.batch import GraphBatch
from ...graphs.section_layout import SectionLayout
from ..outputs import DocumentOutput
from .chunk_attention import ChunkAttention
from .readout import Readout, ReadoutOutput, mean_by_group, no_start_at_mean
from .section_terms import section_terms

if TYPE_CHECKING:
    from ..configuration import DocumentConfig


class SectionReadout(Readout):
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

    description: ClassVar[str] = "the mean of the vectors of its sections, of unit length"
    settings: ClassVar[tuple[str, ...]] = (
        *("chunk_attention_heads", "section_aggregation", "section_lstm_size", "section_projection_size"),
        "chunk_attention_norm",
    )
    has_sections: ClassVar[bool] = True

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__(config)
        heads, size = config.chunk_attention_heads, config.node_size
        self.node_size = size
        dropout, norm = config.attention_dropout, config.chunk_attention_norm
        self.attention = ChunkAttention(size, heads, dropout, norm) if heads else None
        self.lstm = None
        if config.section_aggregation == "lstm":
            self.lstm = nn.LSTM(size, config.section_lstm_size, bidirectional=True)
            size = 2 * config.section_lstm_size
        projected = config.section_projection_size
        self.projection = nn.Linear(size, projected) if projected else None

    @property
    def own_attention(self) -> str | None:
        """Chunkwise attention, where it has it."""
        return "chunkwise attention, mean over heads and over the passages that look" if self.attention else None

    @classmethod
    def width(cls, config: DocumentConfig) -> int:
        """Width of section and document vectors: of the projection, or of what the aggregation gives."""
        aggregated = 2 * config.section_lstm_size if config.section_aggregation == "lstm" else config.node_size
        return config.section_projection_size or aggregated

    @classmethod
    def check(cls, config: DocumentConfig) -> None:
        """Check that the heads of chunkwise attention divide the width of nodes.

        Raises:
            ValueError: they do not.
        """
        config.require_heads("chunk_attention_heads")

    @classmethod
    def describe(cls, config: DocumentConfig) -> dict[str, Any]:
        """The fields of the configuration that it has; without the norm where there is none."""
        described = super().describe(config)
        if not config.chunk_attention_norm:
            del described["chunk_attention_norm"]
        return described

    def init_weights(self, module: nn.Module) -> bool:
        """Draw its linear layers as PyG draws those of graph attention, and leave the LSTM to transformers."""
        if not isinstance(module, nn.Linear) or all(module is not own for own in self.modules()):
            return False
        init.xavier_uniform_(module.weight)
        init.zeros_(module.bias)
        return True

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attention: bool = False
    ) -> ReadoutOutput:
        """Read section and document vectors, of unit length, off the passages (see :meth:`Readout.forward`)."""
        layout = batch.sections
        chunks = passages.index_select(0, layout.chunks)
        pairs = weights = queries = keys = None
        if self.attention is not None:
            added, pairs, weights = self.attention(chunks, layout, output_attention)
            if output_attention:
                queries, keys = self.attention.queries_and_keys(passages)
            chunks = chunks + added
        sections = self._aggregate(chunks, layout)
        if self.projection is not None:
            sections = self.projection(sections)
        sections = nn.functional.normalize(sections, dim=-1)
        means = mean_by_group(sections, layout.document_of, layout.section_counts)
        documents = nn.functional.normalize(means, dim=-1)
        return ReadoutOutput(documents, None, sections, layout.document_of, pairs, weights, queries, keys)

    def terms(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        """Carry the parts of the passages through all layers (see :func:`section_terms`)."""
        parts = states.index_select(1, batch.rows.passages)
        return section_terms(self.attention, self.lstm, self.projection, parts, output)

    def start_at_mean(self) -> None:
        """Let chunkwise attention add nothing and make the projection the identity.

        Raises:
            SettingsError: sections are read by an LSTM, or the projection changes the width.
        """
        reasons = []
        if self.lstm is not None:
            reasons.append("section_aggregation=lstm (set it to mean)")
        if self.projection is not None and self.projection.out_features != self.node_size:
            reasons.append(f"section_projection_size={self.projection.out_features} (set it to {self.node_size})")
        if reasons:
            raise no_start_at_mean(reasons)
        if self.attention is not None:
            nn.init.zeros_(self.attention.output.weight)
            nn.init.zeros_(self.attention.output.bias)
        if self.projection is not None:
            nn.init.eye_(self.projection.weight)
            nn.init.zeros_(self.projection.bias)

    def _aggregate(self, chunks: Tensor, layout: SectionLayout) -> Tensor:
        """One vector for the chunks of every section, ``(sections, aggregated)``."""
        if self.lstm is None:
            return mean_by_group(chunks, layout.section_of, layout.counts)
        _, (states, _) = self.lstm(packed(chunks, layout))
        return torch.cat([states[0], states[1]], dim=-1)


def packed(chunks: Tensor, layout: SectionLayout) -> PackedSequence:
    """Sections as an LSTM reads them, without padding, with which one long document would fill a large batch.

    Args:
        chunks: ``(chunks, hidden)``, in the order of the layout.
        layout: the sections.
    """
    sizes = torch.from_numpy(layout.step_sizes)
    return PackedSequence(chunks.index_select(0, layout.by_step), sizes, layout.by_length, layout.rank)
