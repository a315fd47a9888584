from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sections_by_hand import attention_by_hand, linear, numbers
from test_attribution import SECTIONS, run, spread, terms_of
from test_section_readout import SIZES
from test_section_readout import VARIANTS as PAPER

from graphdoc.modeling import DocumentModel
from graphdoc.modeling.attribution import passage_terms

VARIANTS: list[dict[str, Any]] = [*PAPER, {"chunk_attention_norm": True}, {"chunk_attention_norm": True, **PAPER[2]}]


def widened(model: DocumentModel, factor: float = 1.0) -> DocumentModel:
    """Draw the weights of the readout wide, so that gates close and biases count."""
    with torch.no_grad():
        for parameter in model.readout.parameters():
            parameter.copy_(torch.randn_like(parameter) * factor)
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_terms_add_up_to_the_vector(tiny_model, random_document, variant: dict[str, Any]) -> None:
    for layers, kind in ((0, "full"), (1, "section"), (2, "window"), (2, "hierarchical")):
        settings = {"graph_layers": layers, "graph_kind": kind, **SIZES, **variant}
        model = widened(tiny_model(readout="sections", structural_embeddings=True, **settings), 0.5)
        for sections in (SECTIONS, [0], [0] * 30):
            terms, vector = terms_of(model, random_document(sections))
            assert terms.shape == (len(sections), model.config.hidden_size)
            # Terms that cancel leave the rounding of the large numbers that they are.
            size = max(1.0, float(terms.abs().sum(0).max()))
            torch.testing.assert_close(terms.sum(0), vector, atol=5e-6 * size, rtol=1e-5)


def test_also_where_gates_close_and_graphs_saturate(tiny_model, random_document) -> None:
    model = spread(widened(tiny_model(readout="sections", **SIZES), 10.0), 3.0)
    terms, vector = terms_of(model, random_document(SECTIONS))
    torch.testing.assert_close(terms.sum(0), vector, atol=1e-5, rtol=0)


def test_terms_against_one_passage_at_a_time(tiny_model, random_document) -> None:
    """With gates, ratios and weights held still, a term is what the readout gives for its passage alone."""
    model = widened(tiny_model(readout="sections", graph_layers=0, **SIZES))
    vectors, batch, output = run(model, random_document(SECTIONS))
    readout, count = model.readout, len(SECTIONS)
    passages = model.initial_passages(vectors).detach().double().numpy()
    chunks = passages + attention_by_hand(readout.attention, passages, [list(range(count))])[0]

    weights = {
        tuple(pair): one
        for pair, one in zip(output.chunk_pairs.T.tolist(), output.chunk_attention.tolist(), strict=True)
    }
    ends, of_lstm = [], {}
    for suffix in ("", "_reverse"):
        of_lstm[suffix] = [
            numbers(getattr(readout.lstm, f"{name}_l0{suffix}"))
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]

    def held(suffix: str) -> list[tuple[np.ndarray, ...]]:
        w_input, w_state, b_input, b_state = of_lstm[suffix]
        state, cell, kept = np.zeros(10), np.zeros(10), []
        for row in chunks[:: -1 if suffix else 1]:
            enters, forgets, new, leaves = np.split(w_input @ row + b_input + w_state @ state + b_state, 4)
            enters, forgets, leaves = (1 / (1 + np.exp(-gate)) for gate in (enters, forgets, leaves))
            cell = forgets * cell + enters * np.tanh(new)
            state = leaves * np.tanh(cell)
            kept.append((enters * np.tanh(new) / new, forgets, leaves * np.tanh(cell) / cell))
        ends.append(state)
        return kept

    kept = {suffix: held(suffix) for suffix in of_lstm}
    length = np.linalg.norm(linear(readout.projection, np.concatenate(ends)))
    terms = passage_terms(model, vectors, batch, output).detach().numpy()
    for origin in range(count):
        part = np.zeros_like(passages)
        part[origin] = passages[origin]
        value = part @ numbers(readout.attention.value.weight).T + numbers(readout.attention.value.bias) / count
        mixed = np.zeros_like(passages)
        for (source, target), heads in weights.items():
            mixed[target] += np.repeat(heads, 4) * value[source]
        output_layer = readout.attention.output
        part = part + mixed @ numbers(output_layer.weight).T + numbers(output_layer.bias) / count
        states = []
        for suffix, (w_input, w_state, b_input, b_state) in of_lstm.items():
            state, cell = np.zeros(10), np.zeros(10)
            for row, (entering, forgets, leaving) in zip(part[:: -1 if suffix else 1], kept[suffix], strict=True):
                new = (w_input @ row + w_state @ state)[20:30] + (b_input + b_state)[20:30] / count
                cell = forgets * cell + entering * new
                state = leaving * cell
            states.append(state)
        expected = np.concatenate(states) @ numbers(readout.projection.weight).T
        expected = (expected + numbers(readout.projection.bias) / count) / length
        np.testing.assert_allclose(terms[origin], expected, atol=2e-5)
    assert float(np.abs(terms).max()) > 0.05
