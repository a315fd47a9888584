"""The readout by sections (CoLDE): aggregation of chunks, chunkwise attention, and what each adds to a score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import torch
from einops import rearrange
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from transformers import initialization as init

from ..graphs.batch import GraphBatch
from ..graphs.layout import GROUP_CELLS, SectionLayout
from ..settings.base import Settings
from ..settings.document import Size
from .readouts import DocumentOutput, Readout, mean_by_group, refuse_start_at_mean

if TYPE_CHECKING:
    from .configuration import DocumentConfig


def _linear(layer: nn.Linear, parts: Tensor, share: float) -> Tensor:
    """A linear layer on parts of a whole, each with its share of the bias."""
    return parts @ layer.weight.T + layer.bias * share


def _attend(attention: ChunkAttention, states: Tensor, whole: Tensor, output: DocumentOutput, share: float) -> Tensor:
    """Chunkwise attention with its weights held still, a linear map of ``(origins, passages, node size)``."""
    if attention.norm is not None:
        spread = torch.sqrt(whole.var(dim=-1, correction=0) + attention.norm.eps)
        states = (states - states.mean(dim=-1, keepdim=True)) / spread[:, None]
    assert output.chunk_pairs is not None and output.chunk_attention is not None
    count = states.shape[1]
    source, target = output.chunk_pairs
    mixing = states.new_zeros(attention.heads, count, count)
    mixing[:, target, source] = output.chunk_attention.T
    values = rearrange(_linear(attention.value, states, share), "o s (h w) -> o s h w", h=attention.heads)
    message = torch.einsum("hts,oshw->othw", mixing, values)
    return _linear(attention.output, rearrange(message, "o t h w -> o t (h w)"), share)


def _lstm_end(lstm: nn.LSTM, suffix: str, whole: Tensor, states: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The last state of one direction of an LSTM, and its parts, ``(size,)`` and ``(origins, size)``."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    of_input, of_state, *biases = (getattr(lstm, f"{name}_l0{suffix}") for name in names)
    bias = biases[0] + biases[1]
    size = lstm.hidden_size
    # Of the gates only the new content of the cell is a sum over origins; torch keeps it in the third place.
    content = slice(2 * size, 3 * size)
    inputs = whole @ of_input.T + bias
    parts_of_inputs = states @ of_input[content].T + bias[content] * share
    state, cell = whole.new_zeros(size), whole.new_zeros(size)
    state_parts, cell_parts = (states.new_zeros(len(states), size) for _ in range(2))
    for place in reversed(range(len(whole))) if suffix else range(len(whole)):
        gates = inputs[place] + state @ of_state.T
        enters, forgets, _, leaves = torch.sigmoid(gates).chunk(4)
        new = gates[content]
        new_parts = parts_of_inputs[:, place] + state_parts @ of_state[content].T
        cell_parts = forgets * cell_parts + enters * _tanh_ratio(new) * new_parts
        cell = forgets * cell + enters * torch.tanh(new)
        state_parts = leaves * _tanh_ratio(cell) * cell_parts
        state = leaves * torch.tanh(cell)
    return state, state_parts


def _tanh_ratio(values: Tensor) -> Tensor:
    """The ratio of tanh(x) to x."""
    return torch.where(values.abs() > 1e-12, torch.tanh(values) / values, torch.ones_like(values))


class ChunkAttention(nn.Module):
    r"""Multi-headed chunkwise attention between consecutive sections (CoLDE, section 3.2).

    .. math::
        \mathrm{Attention}(Q_p, K_{p+1}, V_{p+1}) = \mathrm{softmax}(Q_p K_{p+1}^\top / \sqrt d) \, V_{p+1}

    where :math:`Q_p = W_Q X_p` are the queries of the chunks of section p, and keys and values come from the chunks of
    section p + 1 of the same document. The last section looks at the first, and the only section of a document at
    itself. Heads are those of Vaswani et al. 2017: d is the width of a head, and an output matrix maps all of them.

    The paper's chunks are outputs of BERT, which have mean 0 and variance 1. On vectors of unit length, which encoders
    of sentences give, scores stay near 0 and attention even; ``norm`` brings chunks to mean 0 and variance 1 first.
    """

    def __init__(self, hidden_size: int, heads: int, norm: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, elementwise_affine=False) if norm else None
        self.heads = heads
        self.scale = (hidden_size // heads) ** -0.5
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def queries_and_keys(self, chunks: Tensor) -> tuple[Tensor, Tensor]:
        """Attention queries and keys of chunks, each ``(chunks, heads, width)``."""
        chunks = chunks if self.norm is None else self.norm(chunks)
        return self.by_head(self.query(chunks)), self.by_head(self.key(chunks))

    def by_head(self, vectors: Tensor) -> Tensor:
        """Give every head its share, ``(chunks, hidden)`` to ``(chunks, heads, width)``."""
        return rearrange(vectors, "chunks (heads width) -> chunks heads width", heads=self.heads)

    def forward(
        self, chunks: Tensor, layout: SectionLayout, output_attentions: bool = False
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Let every chunk look at the chunks of the next section.

        Args:
            chunks: ``(chunks, hidden)``, in the order of the layout.
            layout: the sections.
            output_attentions: also return the weights.

        Returns:
            ``(chunks, hidden)``, what is added to the chunks; and, where asked for, the pairs of passages
            ``(2, pairs)``, the one looked at above the one that looks, sorted by the latter, and the weights
            ``(pairs, heads)``, which sum to 1 over the pairs of one that looks.
        """
        queries, keys = self.queries_and_keys(chunks)
        values = self.by_head(self.value(chunks if self.norm is None else self.norm(chunks)))
        rows, messages, pairs, weights = [], [], [], []
        for query_chunks, is_query, key_chunks, is_key in _parts(layout):
            scores = torch.einsum("sqhw,skhw->shqk", queries[query_chunks], keys[key_chunks]) * self.scale
            # A finite fill keeps rows of padding free of NaN.
            scores = scores.masked_fill(~is_key[:, None, None], torch.finfo(scores.dtype).min)
            attention = torch.softmax(scores, dim=-1)
            message = torch.einsum("shqk,skhw->sqhw", attention, values[key_chunks])
            # Padding writes to a row that is thrown away.
            rows.append(torch.where(is_query, query_chunks, len(chunks)).flatten())
            messages.append(message.flatten(0, 1).flatten(1))
            if output_attentions:
                is_pair = is_query.unsqueeze(2) & is_key.unsqueeze(1)
                sides = (key_chunks.unsqueeze(1), query_chunks.unsqueeze(2))
                pairs.append(layout.chunks[torch.stack([side.expand(is_pair.shape)[is_pair] for side in sides])])
                weights.append(rearrange(attention, "s h q k -> s q k h")[is_pair])
        heads = torch.zeros(len(chunks) + 1, chunks.shape[1], dtype=chunks.dtype, device=chunks.device)
        added: Tensor = self.output(heads.index_copy(0, torch.cat(rows), torch.cat(messages))[:-1])
        if not output_attentions:
            return added, None, None
        table = torch.cat(pairs, dim=1)
        order = torch.argsort(table[1] * len(chunks) + table[0])
        return added, table[:, order], torch.cat(weights)[order]


def _parts(layout: SectionLayout) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Query and key chunks with masks of the real ones, in parts whose attention fits in memory."""
    for group in layout.groups:
        # A single section may be larger than a group should be; its chunks look in parts.
        width = max(1, GROUP_CELLS // max(1, group.key_chunks.numel()))
        sides = (torch.split(side, width, dim=1) for side in (group.query_chunks, group.is_query))
        for query_chunks, is_query in zip(*sides, strict=True):
            yield query_chunks, is_query, group.key_chunks, group.is_key


class SectionSettings(Settings):
    """Settings of the readout by sections."""

    chunk_attention_heads: Annotated[int, Field(ge=0, le=1024)] = 4
    """heads of the chunkwise attention between sections; 0 for none"""
    chunk_attention_norm: bool = False
    """bring chunks to mean 0 and variance 1 before it"""
    section_aggregation: Literal["lstm", "mean"] = "lstm"
    """how the chunks of a section become one vector: a bidirectional lstm, or their mean"""
    section_lstm_size: Size = 256
    """width of each direction of the LSTM"""
    section_projection_size: Size | None = 256
    """width of section and document vectors; null leaves what the aggregation gives"""


class SectionReadout(Readout):
    r"""Chunks of a section to a section vector (CoLDE, section 3.2), section vectors to the document vector.

    .. math::
        \tilde z_l = [\overrightarrow h_{n_l} ; \overleftarrow h_1], \quad
        h = \mathrm{BiLSTM}(x_1 + a_1, \dots, x_{n_l} + a_{n_l}), \quad
        z_l = \mathrm{Proj}(\tilde z_l) / \lVert \mathrm{Proj}(\tilde z_l) \rVert

    where x are the chunks of section l, a what chunkwise attention (:class:`ChunkAttention`) gives each, and Proj is
    linear; ``section_aggregation="mean"`` takes the mean of x + a for the LSTM. Chunks are the passage nodes after the
    last graph layer. The document vector is the mean of its section vectors, of unit length.
    """

    description: ClassVar[str] = "the mean of the vectors of its sections, of unit length"
    settings: ClassVar[type[Settings]] = SectionSettings
    has_sections: ClassVar[bool] = True

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__(config)
        own: SectionSettings = config.own_readout_settings
        heads, size = own.chunk_attention_heads, config.node_size
        self.node_size = size
        self.attention = ChunkAttention(size, heads, own.chunk_attention_norm) if heads else None
        self.lstm = None
        if own.section_aggregation == "lstm":
            self.lstm = nn.LSTM(size, own.section_lstm_size, bidirectional=True)
            size = 2 * own.section_lstm_size
        projected = own.section_projection_size
        self.projection = nn.Linear(size, projected) if projected else None

    @property
    def own_attention(self) -> str | None:
        """Chunkwise attention, where it has it."""
        return "chunkwise attention, mean over heads and over the passages that look" if self.attention else None

    @classmethod
    def width(cls, config: DocumentConfig) -> int:
        """Width of section and document vectors: of the projection, or of what the aggregation gives."""
        own: SectionSettings = config.own_readout_settings
        aggregated = 2 * own.section_lstm_size if own.section_aggregation == "lstm" else config.node_size
        return own.section_projection_size or aggregated

    def init_weights(self, module: nn.Module) -> bool:
        """Draw its linear layers as PyG draws those of graph attention, and leave the LSTM to transformers."""
        if not isinstance(module, nn.Linear) or all(module is not part for part in self.modules()):
            return False
        init.xavier_uniform_(module.weight)
        init.zeros_(module.bias)
        return True

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attentions: bool = False
    ) -> DocumentOutput:
        """Read section and document vectors, of unit length, off the passages (see :meth:`Readout.forward`)."""
        layout = batch.sections
        chunks = passages.index_select(0, layout.chunks)
        pairs = weights = queries = keys = None
        if self.attention is not None:
            added, pairs, weights = self.attention(chunks, layout, output_attentions)
            if output_attentions:
                queries, keys = self.attention.queries_and_keys(passages)
            chunks = chunks + added
        sections = self._aggregate(chunks, layout)
        if self.projection is not None:
            sections = self.projection(sections)
        sections = nn.functional.normalize(sections, dim=-1)
        documents = nn.functional.normalize(mean_by_group(sections, layout.document_of, layout.section_counts), dim=-1)
        return DocumentOutput(
            documents=documents,
            sections=sections,
            chunk_pairs=pairs,
            chunk_attention=weights,
            chunk_queries=queries,
            chunk_keys=keys,
        )

    def attribute(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        """Carry the parts of the passages of one section through all layers (see :meth:`Readout.attribute`).

        Held at the values that they have for the whole are the weights of chunkwise attention, the spread that chunks
        are divided by before it, the gates of the LSTM, the ratios tanh(x) / x of its cells, and the length that the
        vector is divided by.
        """
        assert output.passages is not None and output.sections is not None
        if len(output.sections) != 1:
            raise ValueError(f"attributions are computed for a document of one section, not {len(output.sections)}")
        states = states.index_select(1, batch.rows.passages)
        whole, share = output.passages, 1.0 / len(output.passages)
        if self.attention is not None:
            added = _attend(self.attention, whole[None], whole, output, 1.0)[0]
            whole, states = whole + added, states + _attend(self.attention, states, whole, output, share)
        if self.lstm is None:
            whole, parts = whole.mean(dim=0), states.mean(dim=1)
        else:
            ends = [_lstm_end(self.lstm, suffix, whole, states, share) for suffix in ("", "_reverse")]
            whole, parts = torch.cat([end[0] for end in ends]), torch.cat([end[1] for end in ends], dim=1)
        if self.projection is not None:
            whole = self.projection(whole)
            parts = _linear(self.projection, parts, share)
        return torch.as_tensor(parts / whole.norm().clamp(min=1e-12))

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
        refuse_start_at_mean(*reasons)
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
        # Without padding, with which one long document would fill a large batch.
        sizes = torch.from_numpy(layout.step_sizes)
        steps = PackedSequence(chunks.index_select(0, layout.by_step), sizes, layout.by_length, layout.rank)
        _, (states, _) = self.lstm(steps)
        return torch.cat([states[0], states[1]], dim=-1)
