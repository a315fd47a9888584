"""CoLDE's readout written from the paper in NumPy, one chunk and one section at a time, and batches to try it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from torch import nn

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.graphs.layout import Form, plan_attention
from graphdoc.modeling.section_readout import ChunkAttention

Array = npt.NDArray[np.float64]
documents = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=5)


def batch_of(ids: list[list[int]], places: list[list[int]] | None = None) -> GraphBatch:
    """Documents with the given section id and chunk id for every passage."""
    chunk_ids = None if places is None else np.array([place for one in places for place in one])
    graphs = [graph_of_sections(one) for one in ids]
    return GraphBatch.from_graphs(graphs, section_ids=np.array([id for one in ids for id in one]), chunk_ids=chunk_ids)


def with_plan(batch: GraphBatch, form: Form) -> GraphBatch:
    """The same batch, with graph attention in one form."""
    return replace(batch, plan=plan_attention(batch._graphs(0, len(batch))[0], form))


def numbers(tensor: Any) -> Array:
    return np.asarray(tensor.detach().double().numpy())


def linear(layer: nn.Linear, rows: Array) -> Array:
    return rows @ numbers(layer.weight).T + numbers(layer.bias)


def softmax(scores: Array) -> Array:
    exponents = np.exp(scores - scores.max())
    return np.asarray(exponents / exponents.sum())


def sections_of(ids: Sequence[int], places: Sequence[int] | None = None) -> list[list[int]]:
    """Rows of every section of one document, sections and chunks by their ids."""
    places = list(range(len(ids))) if places is None else places
    return [sorted((row for row, id in enumerate(ids) if id == one), key=lambda row: places[row])
            for one in sorted(set(ids))]  # fmt: skip


def attention_by_hand(layer: ChunkAttention, chunks: Array, sections: list[list[int]]) -> tuple[Array, dict[Any, Any]]:
    """softmax(Q K^T / sqrt(d)) V from the chunks of each section to those of the next, in one document.

    Returns:
        What is added to every chunk; and the weights of all heads by (chunk looked at, chunk that looks).
    """
    query, key, value = (linear(part, chunks) for part in (layer.query, layer.key, layer.value))
    width = chunks.shape[1] // layer.heads
    added, weights = np.zeros_like(chunks), {}
    for number, members in enumerate(sections):
        following = sections[(number + 1) % len(sections)]
        for row in members:
            found = []
            for head in range(layer.heads):
                part = slice(head * width, (head + 1) * width)
                scores = np.array([query[row, part] @ key[other, part] for other in following])
                found.append(softmax(scores / width**0.5))
                added[row, part] = sum(w * value[other, part] for w, other in zip(found[-1], following, strict=True))
            weights.update({(other, row): [one[place] for one in found] for place, other in enumerate(following)})
    return linear(layer.output, added), weights


def lstm_direction(lstm: nn.LSTM, rows: Array, suffix: str) -> Array:
    """The last state of one direction, by the equations of an LSTM."""
    w_input, w_state, b_input, b_state = (
        numbers(getattr(lstm, f"{name}_l0{suffix}")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    state, cell = np.zeros(lstm.hidden_size), np.zeros(lstm.hidden_size)
    for row in rows:
        gates = w_input @ row + b_input + w_state @ state + b_state
        enters, forgets, new, leaves = np.split(gates, 4)
        enters, forgets, leaves = (1 / (1 + np.exp(-gate)) for gate in (enters, forgets, leaves))
        cell = forgets * cell + enters * np.tanh(new)
        state = leaves * np.tanh(cell)
    return np.asarray(state)


def readout_by_hand(readout: Any, chunks: Array, sections: list[list[int]]) -> tuple[Array, Array]:
    """Section vectors and document vector of one document."""
    if readout.attention is not None:
        chunks = chunks + attention_by_hand(readout.attention, chunks, sections)[0]
    vectors = []
    for members in sections:
        rows = chunks[members]
        if readout.lstm is None:
            vector = rows.mean(0)
        else:
            forward, backward = (
                lstm_direction(readout.lstm, rows[::step], suffix) for step, suffix in ((1, ""), (-1, "_reverse"))
            )
            vector = np.concatenate([forward, backward])
        if readout.projection is not None:
            vector = linear(readout.projection, vector)
        vectors.append(vector / np.linalg.norm(vector))
    mean = np.mean(vectors, axis=0)
    return np.array(vectors), mean / np.linalg.norm(mean)
