"""CoLDE's readout and the contributions of passages to vectors, against the papers in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sections_by_hand import attention_by_hand, batch_of, documents, linear, numbers, readout_by_hand, sections_of
from torch import Tensor
from torch.nn.functional import elu
from typed import Models, Patch

from graphdoc.graphs import layout as section_layout
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.layout import SectionLayout, section_ids
from graphdoc.modeling import DocumentConfig, DocumentModel, DocumentOutput, attribution, section_readout
from graphdoc.modeling.attribution import logit_contributions, passage_attributions
from graphdoc.modeling.section_readout import ChunkAttention, SectionReadout
from graphdoc.registry import GRAPH_KINDS, READOUTS
from graphdoc.segmentation.spans import SegmentedDocument

DocumentFactory = Callable[..., SegmentedDocument]
SECTIONS = [0, 0, 0, 2, 1, 1, 4]


def run(model: DocumentModel, document: SegmentedDocument) -> tuple[Tensor, GraphBatch, DocumentOutput]:
    batch = GraphBatch.from_documents([document], model.config.graph)
    with torch.no_grad():
        vectors = model.encode_passages(batch)
        return vectors, batch, model.encode_graphs(vectors, batch, output_attentions=True)


def terms_of(model: DocumentModel, document: SegmentedDocument) -> tuple[Tensor, Tensor]:
    vectors, batch, output = run(model, document)
    with torch.no_grad():
        terms = passage_attributions(model, vectors, batch, output)
    assert output.documents is not None
    return terms, output.documents[0]


def spread(model: DocumentModel, factor: float) -> DocumentModel:
    """Draw the weights of the graph layers wide, so that ELU saturates and attention is uneven."""
    with torch.no_grad():
        for parameter in model.graph.parameters():
            parameter.copy_(torch.randn_like(parameter) * factor)
    return model


@pytest.mark.parametrize("readout", READOUTS)
def test_terms_and_logits_add_up(tiny_model: Models, random_document: DocumentFactory, readout: str) -> None:
    shapes = [{"graph_kind": kind, "graph_layers": 2} for kind in GRAPH_KINDS]
    shapes += [{"graph_layers": 0}, {"graph_layers": 3}, {"skip": "identity"}]
    for shape in shapes:
        model = tiny_model(readout=readout, labels=["a", "b", "c"], **shape)
        torch.nn.init.normal_(model.head.linear.weight)
        torch.nn.init.normal_(model.head.linear.bias)
        for sections in (SECTIONS, [0], [0, 1]):
            document = random_document(sections)
            terms, vector = terms_of(model, document)
            assert terms.shape == (len(sections), model.config.hidden_size)
            torch.testing.assert_close(terms.sum(0), vector, atol=2e-6, rtol=1e-5)
            vectors, batch, output = run(model, document)
            with torch.no_grad():
                parts = logit_contributions(model, vectors, batch, output, [2, 0])
                torch.testing.assert_close(parts, terms @ model.head.linear.weight[[2, 0]].T)
            logits = output.logits[0, [2, 0]]
            torch.testing.assert_close(parts.sum(0) + model.head.linear.bias[[2, 0]], logits, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("readout", READOUTS)
def test_also_where_elu_saturates_and_in_blocks(
    tiny_model: Models, random_document: DocumentFactory, readout: str, monkeypatch: Patch
) -> None:
    model = spread(tiny_model(readout=readout, graph_layers=3), 6.0)
    document = random_document(SECTIONS)
    _, _, output = run(model, document)
    assert output.layer_inputs is not None
    assert float(output.layer_inputs[1].min()) < -0.999_9
    terms, vector = terms_of(model, document)
    torch.testing.assert_close(terms.sum(0) / vector.norm(), vector / vector.norm(), atol=1e-5, rtol=0)
    monkeypatch.setattr(attribution, "BLOCK_CELLS", 1)
    torch.testing.assert_close(terms_of(model, document)[0], terms, atol=1e-5 * float(terms.abs().max()), rtol=1e-5)


def test_terms_against_a_walk_over_the_nodes(tiny_model: Models, random_document: DocumentFactory) -> None:
    """One layer after the other, node by node and in double precision, for the document node of a section graph."""
    model = spread(tiny_model(graph_kind="section", graph_layers=2), 0.7)
    vectors, batch, output = run(model, random_document(SECTIONS))
    assert output.attention is not None
    initial = model.initial_passages(vectors).detach().double().numpy()
    count, nodes = len(SECTIONS), len(SECTIONS) + 1
    parts = np.zeros((count, nodes, 16))
    for passage in range(count):
        parts[passage, passage + 1] = initial[passage]
        parts[passage, 0] = initial[passage] / count
    edges = batch.edge_index.T.tolist()
    for number, layer in enumerate(model.graph.layers):
        state = {name: value.double().numpy() for name, value in layer.conv.state_dict().items()}
        if number:
            whole = parts.sum(0)
            parts = parts * elu(torch.from_numpy(whole)).numpy() / whole
        after = np.zeros_like(parts)
        for passage in range(count):
            for node in range(nodes):
                after[passage, node] = parts[passage, node] @ state["res.weight"].T + state["bias"] / count
            for edge, (source, target) in enumerate(edges):
                value = (parts[passage, source] @ state["lin.weight"].T).reshape(2, 8)
                after[passage, target] += (output.attention[number][edge].double().numpy()[:, None] * value).ravel()
        parts = after
    terms = passage_attributions(model, vectors, batch, output).detach().numpy()
    np.testing.assert_allclose(terms, parts[:, 0], atol=1e-4 * np.abs(parts[:, 0]).max())


IDS = [[0, 0, 0, 1, 1], [0], [0] * 6, [0, 1, 2, 2, 2, 2, 3], [1, 0, 1, 0]]


def attention_layer(heads: int = 4, width: int = 16, norm: bool = False) -> ChunkAttention:
    """A layer with uneven weights."""
    layer = ChunkAttention(width, heads, norm)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)) * 0.6)
    return layer.eval()


def attend(layer: ChunkAttention, chunks: torch.Tensor, layout: SectionLayout) -> tuple[torch.Tensor, ...]:
    """What is added to every passage, pairs and weights."""
    added, pairs, weights = layer(chunks[layout.chunks], layout, True)
    assert pairs is not None and weights is not None
    return added[torch.argsort(layout.chunks)], pairs, weights


@pytest.mark.parametrize("heads", [1, 4])
def test_the_equation_is_the_papers(heads: int) -> None:
    layer = attention_layer(heads).double()
    chunks = torch.randn(sum(map(len, IDS)), 16, dtype=torch.float64)
    added, pairs, weights = attend(layer, chunks, batch_of(IDS).sections)
    assert weights.shape == (pairs.shape[1], heads)
    found = {tuple(pair): weight for pair, weight in zip(pairs.T.tolist(), weights.tolist(), strict=True)}
    assert pairs.T.tolist() == sorted(pairs.T.tolist(), key=lambda pair: pair[::-1])
    first, seen = 0, 0
    for ids in IDS:
        expected, by_pair = attention_by_hand(layer, chunks[first : first + len(ids)].numpy(), sections_of(ids))
        np.testing.assert_allclose(added[first : first + len(ids)].detach().numpy(), expected, atol=1e-12)
        for (source, target), weight in by_pair.items():
            np.testing.assert_allclose(found[first + source, first + target], weight, atol=1e-12)
        first, seen = first + len(ids), seen + len(by_pair)
    assert seen == len(found)
    assert float(weights.detach().std()) > 0.1


def test_normalized_chunks_are_those_of_bert_whatever_their_length() -> None:
    layer, plain = attention_layer(norm=True).double(), attention_layer().double()
    assert layer.state_dict().keys() == plain.state_dict().keys()
    ids, layout = [0, 0, 0, 1, 1, 2, 2], batch_of([[0, 0, 0, 1, 1, 2, 2]]).sections
    chunks = torch.nn.functional.normalize(torch.randn(7, 16, dtype=torch.float64), dim=-1)
    rows = chunks.numpy()
    normal = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    added, _, weights = attend(layer, chunks, layout)
    expected, _ = attention_by_hand(plain, normal, sections_of(ids))
    np.testing.assert_allclose(added.detach().numpy(), expected, atol=1e-12)
    # On vectors of unit length attention is nearly even without it.
    assert float(weights.detach().std()) > 2 * float(attend(plain, chunks, layout)[2].detach().std())


@pytest.mark.parametrize("cells", [1, 12])
def test_parts_of_any_size_give_the_same(cells: int, monkeypatch: Patch) -> None:
    layer, chunks = attention_layer(), torch.randn(sum(map(len, IDS)), 16)
    expected = attend(layer, chunks, batch_of(IDS).sections)
    for place in (section_readout, section_layout):
        monkeypatch.setattr(place, "GROUP_CELLS", cells)
    for actual, one in zip(attend(layer, chunks, batch_of(IDS).sections), expected, strict=True):
        torch.testing.assert_close(actual, one, atol=1e-6, rtol=1e-5)


# The rows of the paper's ablation, and what lies between them.
VARIANTS: list[dict[str, Any]] = [
    {},
    {"chunk_attention_heads": 0},
    {"section_aggregation": "mean"},
    {"chunk_attention_heads": 0, "section_aggregation": "mean"},
    {"section_projection_size": None},
    {"chunk_attention_heads": 0, "section_aggregation": "mean", "section_projection_size": None},
]
SIZES = {"section_lstm_size": 10, "section_projection_size": 6}
variants = pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: " ".join(map(str, one.values())) or "paper")


def made(**settings: Any) -> SectionReadout:
    """A readout of 16 wide nodes with uneven weights."""
    own = {**SIZES, **settings}
    readout = SectionReadout(DocumentConfig(projection_size=16, readout="sections", readout_settings=own))
    with torch.no_grad():
        draw = torch.Generator().manual_seed(3)
        for parameter in readout.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.5)
    return readout.eval()


@variants
def test_the_equations_are_the_papers(variant: dict[str, Any]) -> None:
    readout = made(**variant).double()
    passages = torch.randn(sum(map(len, IDS)), 16, dtype=torch.float64)
    read = readout(passages, passages, batch_of(IDS))
    first, sections = 0, []
    for number, ids in enumerate(IDS):
        vectors, document = readout_by_hand(readout, passages[first : first + len(ids)].numpy(), sections_of(ids))
        np.testing.assert_allclose(read.documents[number].detach(), document, atol=1e-12)
        sections.append(vectors)
        first += len(ids)
    np.testing.assert_allclose(read.sections.detach(), np.concatenate(sections), atol=1e-12)
    torch.testing.assert_close(read.sections.norm(dim=1), torch.ones(len(read.sections), dtype=torch.float64))
    # The document of one section is that section.
    torch.testing.assert_close(read.documents[1:3], read.sections[2:4])


@settings(max_examples=40)
@given(documents, st.sampled_from(VARIANTS), st.randoms(use_true_random=False))
def test_neighbours_packing_and_the_order_of_passages_have_no_influence(
    ids: list[list[int]], variant: dict[str, Any], draw: Any
) -> None:
    readout = made(**variant)
    passages = torch.randn(sum(map(len, ids)), 16, generator=torch.Generator().manual_seed(draw.randrange(2**16)))
    together = readout(passages, passages, batch_of(ids), True)
    first = section = 0
    for number, one in enumerate(ids):
        # The same passages in another order, with ids that say where they belong.
        order = draw.sample(range(len(one)), len(one))
        places = [sections_of(one)[sorted(set(one)).index(id)].index(row) for row, id in enumerate(one)]
        batch = batch_of([[one[row] for row in order]], [[places[row] for row in order]])
        moved = passages[[first + row for row in order]]
        alone = readout(moved, moved, batch)
        assert float((together.documents[number] - alone.documents[0]).detach().abs().max()) < 1e-5
        assert float((together.sections[section : section + len(alone.sections)] - alone.sections).abs().max()) < 1e-5
        first, section = first + len(one), section + len(alone.sections)
    assert section == len(together.sections)


@torch.no_grad()
def test_moving_sections_with_their_ids_moves_nothing(tiny_model, random_document) -> None:
    """Natural positions: whoever shuffles sections and leaves their ids alone gets the same vectors."""
    own = random_document([0, 0, 0, 1, 1, 2, 2, 2], seed=4)
    order = [3, 4, 5, 6, 7, 0, 1, 2]
    moved = replace(
        own, passages=tuple(own.passages[row] for row in order), token_ids=tuple(own.token_ids[row] for row in order)
    )
    settings = {"structural_embeddings": True, "projection_size": None, "readout_settings": SIZES}
    # The edges of "window" follow the passages, wherever their sections stand.
    for layers, kinds in ((0, ["full"]), (1, [kind for kind in GRAPH_KINDS if kind != "window"])):
        model = tiny_model("bert", readout="sections", graph_layers=layers, **settings)
        torch.nn.init.normal_(model.structural_embeddings.sections)
        torch.nn.init.normal_(model.structural_embeddings.chunks)
        for kind in kinds:
            batch = GraphBatch.from_documents([own], kind, split=True)
            shuffled = GraphBatch.from_documents([moved], kind)
            expected, found = model(batch), model(shuffled.split_into(*batch.places[order].T))
            assert float((found.sections - expected.sections).abs().max()) < 1e-5
            assert float((found.documents - expected.documents).abs().max()) < 1e-5
            numbered_anew = shuffled.split_into(section_ids([1, 1, 2, 2, 2, 0, 0, 0]))
            assert float((model(numbered_anew).documents - expected.documents).abs().max()) > 1e-3


NORMALISED = [{"chunk_attention_norm": True}, {"chunk_attention_norm": True, "section_aggregation": "mean"}]


def widened(model: DocumentModel, factor: float = 1.0) -> DocumentModel:
    """Draw the weights of the readout wide, so that gates close and biases count."""
    with torch.no_grad():
        for parameter in model.readout.parameters():
            parameter.copy_(torch.randn_like(parameter) * factor)
    return model


@pytest.mark.parametrize("variant", [*VARIANTS, *NORMALISED])
def test_terms_add_up_to_the_vector(tiny_model, random_document, variant: dict[str, Any]) -> None:
    for layers, kind in ((0, "full"), (1, "section"), (2, "window"), (2, "hierarchical")):
        settings = {"graph_layers": layers, "graph_kind": kind, "readout_settings": {**SIZES, **variant}}
        model = widened(tiny_model(readout="sections", structural_embeddings=True, **settings), 0.5)
        for sections in (SECTIONS, [0], [0] * 30):
            terms, vector = terms_of(model, random_document(sections))
            assert terms.shape == (len(sections), model.config.hidden_size)
            # Terms that cancel leave the rounding of the large numbers that they are.
            size = max(1.0, float(terms.abs().sum(0).max()))
            torch.testing.assert_close(terms.sum(0), vector, atol=5e-6 * size, rtol=1e-5)


def test_also_where_gates_close_and_graphs_saturate(tiny_model, random_document) -> None:
    model = spread(widened(tiny_model(readout="sections", readout_settings=SIZES), 10.0), 3.0)
    terms, vector = terms_of(model, random_document(SECTIONS))
    torch.testing.assert_close(terms.sum(0), vector, atol=1e-5, rtol=0)


def test_terms_against_one_passage_at_a_time(tiny_model, random_document) -> None:
    """With gates, ratios and weights held still, a term is what the readout gives for its passage alone."""
    model = widened(tiny_model(readout="sections", graph_layers=0, readout_settings=SIZES))
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
    terms = passage_attributions(model, vectors, batch, output).detach().numpy()
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
