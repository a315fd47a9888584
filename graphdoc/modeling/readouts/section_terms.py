"""How much of a document vector stems from each passage, through the readout of CoLDE."""

from __future__ import annotations

import torch
from einops import rearrange
from torch import Tensor, nn

from ..outputs import DocumentOutput
from .chunk_attention import ChunkAttention


def section_terms(
    attention: ChunkAttention | None,
    lstm: nn.LSTM | None,
    projection: nn.Linear | None,
    states: Tensor,
    output: DocumentOutput,
) -> Tensor:
    """Carry sums over passages through the readout of a document that is not split.

    What multiplies a part is held at the value it has for the whole: the weights of chunkwise attention, the spread
    that chunks are divided by before it, the gates of the LSTM, the ratios tanh(x) / x of its cells, and the length
    that the vector is divided by. Biases are shared equally. With these held still the readout is linear, so that the
    terms add up to the document vector.

    Args:
        attention: chunkwise attention, if the readout has it.
        lstm: what aggregates the chunks; None for their mean.
        projection: what follows the aggregation, if anything does.
        states: ``(origins, passages, node size)``, the part of every passage node that stems from each origin.
        output: the output for that document alone, with attention.

    Returns:
        ``(origins, hidden)``; over all passages as origins, they add up to ``output.documents[0]``.

    Raises:
        ValueError: the document is split into sections.
    """
    assert output.passages is not None and output.sections is not None
    if len(output.sections) != 1:
        raise ValueError(f"terms are computed for a document that is one section, not {len(output.sections)}")
    whole, share = output.passages, 1.0 / len(output.passages)
    if attention is not None:
        added = [_attend(attention, parts, whole, output, one) for parts, one in ((whole[None], 1), (states, share))]
        whole, states = whole + added[0][0], states + added[1]
    if lstm is None:
        whole, parts = whole.mean(dim=0), states.mean(dim=1)
    else:
        ends = [_lstm_end(lstm, suffix, whole, states, share) for suffix in ("", "_reverse")]
        whole, parts = torch.cat([end[0] for end in ends]), torch.cat([end[1] for end in ends], dim=1)
    if projection is not None:
        whole = projection(whole)
        parts = _linear(projection, parts, share)
    return torch.as_tensor(parts / whole.norm().clamp(min=1e-12))


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
    """What tanh multiplies a number by."""
    return torch.where(values.abs() > 1e-12, torch.tanh(values) / values, torch.ones_like(values))
