from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import RobertaConfig
from transformers.modeling_layers import GradientCheckpointingLayer

from graphdoc.errors import SettingsError
from graphdoc.graphs.batch import GraphBatch, Packing
from graphdoc.graphs.kinds import WindowGraph, graph_kind
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.modeling.document_model import start_at_mean
from graphdoc.modeling.readouts import mean_by_group
from graphdoc.registry import GRAPH_KINDS, READOUTS, load

SETTINGS: dict[str, Any] = {
    "backbone": "someone/encoder",
    "structural_embeddings": True,
    "structural_sections": 3,
    "structural_chunks": 20,
    "pooling": "mean",
    "projection_size": None,
    "normalize_passages": True,
    "graph_kind": "window",
    "graph_settings": {"window": 5},
    "graph_layers": 3,
    "graph_heads": 4,
    "readout": "sections",
    "readout_settings": {
        "chunk_attention_heads": 2,
        "chunk_attention_norm": True,
        "section_aggregation": "mean",
        "section_lstm_size": 10,
        "section_projection_size": 30,
    },
    "similarity": "dot",
    "unit": "chunk",
    "passage_words": 80,
    "passage_tokens": 128,
    "max_passages": None,
    "language": "de",
    "trained": True,
    "labels": ["<b>rice</b>", "sea | wall"],
    "multi_label": True,
    "classifier_dropout": 0.5,
}


def test_defaults_are_the_papers() -> None:
    config = DocumentConfig()
    assert isinstance(config.encoder_config, RobertaConfig)
    assert config.encoder_config.hidden_size == 768
    assert (config.pooling, config.projection_size, config.hidden_size) == ("cls", 512, 512)
    assert (config.graph_kind, config.graph_layers, config.graph_heads) == ("full", 2, 2)
    assert (config.readout, config.passage_words, config.max_passages) == ("document_node", 100, 100)
    assert config.labels is None


def test_every_setting_survives_a_file(tmp_path: Path, tiny_encoder_config, encoder_name: str) -> None:
    encoder_config = tiny_encoder_config(encoder_name)
    config = DocumentConfig(encoder_config=encoder_config, **SETTINGS, sentence_document=np.float32(0.5))  # type: ignore[arg-type]
    assert all(value != getattr(DocumentConfig(), name) for name, value in SETTINGS.items())
    config.save_pretrained(tmp_path)
    # Files hold plain values.
    assert json.loads((tmp_path / "config.json").read_text())["sentence_document"] == 0.5
    loaded = DocumentConfig.from_pretrained(tmp_path)
    assert {name: getattr(loaded, name) for name in SETTINGS} == SETTINGS
    assert type(loaded.encoder_config) is type(encoder_config)
    assert loaded.encoder_config.to_dict() == encoder_config.to_dict()
    assert loaded.to_dict() == config.to_dict()
    assert (loaded.node_size, loaded.hidden_size) == (encoder_config.hidden_size, 30)


@pytest.mark.parametrize(
    ("settings", "width"),
    [
        ({}, 256),
        ({"section_projection_size": None}, 512),
        ({"section_projection_size": None, "section_aggregation": "mean"}, 600),
    ],
)
def test_the_width_of_vectors_is_that_of_the_last_part(settings: dict[str, Any], width: int) -> None:
    config = DocumentConfig(readout="sections", projection_size=600, readout_settings=settings)
    assert (config.node_size, config.hidden_size) == (600, width)
    assert DocumentConfig(projection_size=600).hidden_size == 600


def test_a_graph_has_its_own_settings_and_is_not_built_where_no_vector_depends_on_it() -> None:
    window: dict[str, Any] = {"graph_kind": "window", "graph_settings": {"window": 3}}
    config = DocumentConfig(**window)
    assert config.graph == WindowGraph(3) and config.describe()["graph_settings"] == {"window": 3}
    assert DocumentConfig(**window, readout="attention", graph_layers=1).vector_graph == WindowGraph(3)
    for settings in ({"graph_layers": 0}, {"readout": "initial_mean"}):
        assert DocumentConfig(**window, **settings).vector_graph is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"graph_heads": 3}, "512.*heads=3|heads=3.*512"),
        ({"readout": "sections", "readout_settings": {"chunk_attention_heads": 5}}, "512.*heads=5|heads=5.*512"),
        ({"readout": "sections", "readout_settings": {"section_lstm_size": 0}}, "readout_settings.section_lstm_size=0"),
        ({"readout": "mean", "readout_settings": {"section_lstm_size": 9}}, "readout_settings.section_lstm_size"),
        ({"readout": "sections", "section_lstm_size": 9}, "section_lstm_size .* readout_settings"),
        ({"graph_kind": "full", "graph_settings": {"hops": 2}}, "graph_settings.hops"),
        ({"graph_kind": "window", "graph_settings": {"window": 0}}, "window=0"),
    ],
)
def test_what_cannot_be_built_is_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        DocumentConfig(**settings)


# One passage, sections that come back, numbers with gaps and out of order, no structure, many short sections.
LAYOUTS: list[list[int]] = [[0], [0, 0, 1, 1, 1, 2], [5, 5, 2, 9, 2, 2], [0] * 11, [3, 2, 1, 0]]
PLAIN_SECTIONS = {"chunk_attention_heads": 0, "section_aggregation": "mean", "section_projection_size": None}
READERS_OF_THE_GRAPH = [name for name, readout in READOUTS.items() if not load(readout).reads_initial_nodes]


@pytest.fixture
def documents(random_document):
    return [random_document(layout, seed=seed) for seed, layout in enumerate(LAYOUTS)]


def vectors_by_hand(model: DocumentModel, token_ids: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Equation 1, one passage at a time: tanh(W x + b)."""
    weight, bias = (value.detach().double().numpy() for value in (model.projection.weight, model.projection.bias))
    rows = []
    for ids in token_ids:
        first = model.passage_encoder.transformer(input_ids=torch.tensor([ids])).last_hidden_state[0, 0]
        rows.append(np.tanh(weight @ first.detach().double().numpy() + bias))
    return np.stack(rows)


@pytest.mark.parametrize("kind", ["full", "hierarchical"])
def test_equations_1_and_2_are_the_papers(kind: str, tiny_model, documents) -> None:
    model = tiny_model(projection_size=20)
    torch.nn.init.normal_(model.projection.bias)
    batch = GraphBatch.from_documents(documents, kind)
    actual = model.initial_nodes(model.encode_passages(batch), batch).detach().numpy()
    expected = []
    for document, layout in zip(documents, LAYOUTS, strict=True):
        passages = vectors_by_hand(model, document.token_ids)
        expected += [passages.mean(0), *passages]
        for number in graph_kind(kind).section_nodes(np.array(layout)):
            expected.append(passages[[i for i, section in enumerate(layout) if section == number]].mean(0))
    np.testing.assert_allclose(actual, np.stack(expected), atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    ("encoder_name", "readout", "pooling"),
    [
        *(("roberta", readout, "mean") for readout in READOUTS),
        ("bert", "document_node", "cls"),
        ("modernbert", "attention", "mean"),
        ("xlm-roberta", "sections", "cls"),
    ],
)
def test_vectors_do_not_know_neighbours(encoder_name: str, pooling: str, readout: str, tiny_model, documents) -> None:
    model = tiny_model(encoder_name, pooling=pooling, readout=readout)
    for kind in GRAPH_KINDS:
        alone = [model(GraphBatch.from_documents([document], kind)) for document in documents]
        together = model(GraphBatch.from_documents(documents, kind))
        backwards = model(GraphBatch.from_documents(documents[::-1], kind), packing=Packing(150))
        expected = torch.cat([output.documents for output in alone])
        assert float((together.documents - expected).abs().max()) < 1e-5
        assert float((backwards.documents.flip(0) - expected).abs().max()) < 1e-5
        for name in ("passages", "nodes"):
            assert float((together[name] - torch.cat([output[name] for output in alone])).abs().max()) < 1e-5
        assert float((expected[0] - expected[1:]).abs().max(1).values.min()) > 1e-2


@torch.no_grad()
def test_half_precision_leaves_everything_above_the_encoder_in_fp32(tmp_path: Path, tiny_model, documents) -> None:
    model = tiny_model("bert", readout="sections", labels=["a", "b"])
    batch = GraphBatch.from_documents(documents, "section")
    vectors = model.encode_passages(batch)
    expected = model.encode_graphs(vectors, batch)
    with torch.autocast("cpu", torch.bfloat16):
        actual, whole = model.encode_graphs(vectors, batch), model(batch)
    assert torch.equal(actual.documents, expected.documents)
    model.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    loaded, report = DocumentModel.from_pretrained(tmp_path, dtype=torch.bfloat16, output_loading_info=True)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    above = [*loaded.graph.parameters(), *loaded.readout.parameters(), *loaded.head.parameters()]
    assert {parameter.dtype for parameter in above} == {torch.float32}
    assert {parameter.dtype for parameter in loaded.passage_encoder.parameters()} == {torch.bfloat16}
    for output in (whole, loaded(batch)):
        assert output.documents.dtype == output.nodes.dtype == torch.float32
        assert functional.cosine_similarity(output.documents, expected.documents).min() > 0.97


@pytest.mark.parametrize("readout", ["attention", "sections"])
def test_weights_missing_from_a_checkpoint_are_initialized_and_reported(
    readout: str, tmp_path: Path, tiny_model, documents
) -> None:
    own = {"section_lstm_size": 10, "section_projection_size": 6} if readout == "sections" else None
    tiny_model(readout=readout, structural_embeddings=True, seed=5, readout_settings=own).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    missing = {name for name in weights if not name.startswith(("passage_encoder.", "graph.layers.0.conv.lin"))}
    assert len(missing) > 10 and any(name.startswith("readout.") for name in missing)
    save_file({name: weight for name, weight in weights.items() if name not in missing}, file, {"format": "pt"})
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        loaded, report = DocumentModel.from_pretrained(tmp_path, output_loading_info=True)
        assert set(report["missing_keys"]) == missing
        states.append(loaded.state_dict())
    for name, weight in states[0].items():
        assert torch.equal(weight, states[1][name]), name
        if name not in missing:
            assert torch.equal(weight, weights[name]), name
        elif "bias" in name or "structural" in name:
            assert not bool(weight.any()), name
        else:
            bound = (6 / (weight.shape[-2] + weight.shape[-1])) ** 0.5
            assert bound / 2 < float(weight.abs().max()) <= bound or len(weight) == 1, name
    assert bool(loaded(GraphBatch.from_documents(documents, "full")).documents.isfinite().all())


def gradients(model: DocumentModel, batch: GraphBatch) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(batch).documents.square().sum().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")
def test_gradient_checkpointing_changes_no_gradient(encoder_name: str, tiny_model, documents) -> None:
    model = tiny_model(encoder_name).train()
    batch = GraphBatch.from_documents(documents[:3], "full")
    expected = gradients(model, batch)
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    runs: list[int] = []
    block = next(module for module in model.modules() if isinstance(module, GradientCheckpointingLayer))
    norm = next(module for module in block.modules() if isinstance(module, torch.nn.LayerNorm))
    norm.register_forward_hook(lambda *_: runs.append(1))
    actual = gradients(model, batch)
    assert len(runs) == 2 * sum(1 for _ in batch.mini_batches(Packing(2048), 1))
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize(
    "settings", [*({"readout": name} for name in READERS_OF_THE_GRAPH), {"readout_settings": PLAIN_SECTIONS}]
)
def test_every_weight_gets_a_gradient(settings: dict[str, object], tiny_model, documents) -> None:
    model = tiny_model(structural_embeddings=True, **{"readout": "sections", **settings}).train()
    output = model(GraphBatch.from_documents(documents, "section", split=True))
    read = output.documents if output.sections is None else output.sections
    read.mul(torch.randn(read.shape)).sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@torch.no_grad()
def test_the_initial_mean_is_read_off_before_the_graph(tiny_model, documents) -> None:
    model, node = (tiny_model(readout=readout, graph_layers=2) for readout in ("initial_mean", "document_node"))
    node.load_state_dict(model.state_dict())
    batch = GraphBatch.from_documents(documents, model.config.graph)
    vectors = model.encode_passages(batch)
    plain, looking = (model.encode_graphs(vectors, batch, output_attentions=flag) for flag in (False, True))
    initial, through_graph = model.initial_passages(vectors), node.encode_graphs(vectors, batch, output_attentions=True)
    torch.testing.assert_close(plain.documents, mean_by_group(initial, batch.rows.document_of, batch.rows.counts))
    assert torch.equal(plain.documents, looking.documents) and torch.equal(plain.passages, initial)
    assert plain.attention is None and len(looking.attention) == 2
    assert all(map(torch.equal, looking.attention, through_graph.attention))
    # The graph is not without effect: read off its document nodes, vectors are others.
    assert not torch.allclose(through_graph.documents, plain.documents, atol=1e-2)


HIDDEN = 24
MEANS = {"section_aggregation": "mean", "chunk_attention_heads": 2}
SHAPES: list[dict[str, Any]] = [
    {"graph_layers": 1, "readout": "mean"},
    {"graph_layers": 1, "readout": "document_node"},
    {"graph_layers": 1, "readout": "document_node", "projection_size": HIDDEN},
    {"graph_layers": 0, "readout": "sections", "readout_settings": {**MEANS, "section_projection_size": HIDDEN}},
    {"graph_layers": 1, "readout": "sections", "readout_settings": {**MEANS, "section_projection_size": None}},
]


@pytest.mark.parametrize("settings", SHAPES)
@torch.no_grad()
def test_a_start_at_the_mean_of_passages(tiny_model, documents, settings: dict[str, Any]) -> None:
    model = tiny_model("bert", normalize_passages=True, **{"projection_size": None, **settings})
    batch = GraphBatch.from_documents(documents, "section")
    vectors = functional.normalize(torch.randn(sum(batch.passage_counts), HIDDEN), dim=-1) * 0.3
    means = mean_by_group(functional.normalize(vectors, dim=-1), batch.rows.document_of, batch.rows.counts)

    def cosines() -> torch.Tensor:
        return functional.cosine_similarity(model.encode_graphs(vectors, batch).documents, means)

    before = cosines()
    start_at_mean(model)
    assert float(before.min()) < 0.8 and float(cosines().min()) > (0.95 if settings["graph_layers"] else 1 - 1e-5)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"projection_size": 16}, "projection_size=16"),
        ({"projection_size": None, "graph_layers": 2}, "graph_layers=2"),
        ({"projection_size": None, "graph_layers": 1, "readout": "attention"}, "readout=attention"),
        (
            {
                "projection_size": None,
                "graph_layers": 0,
                "readout": "sections",
                "readout_settings": {"section_projection_size": 8},
            },
            "section_aggregation=lstm .* section_projection_size=8",
        ),
    ],
)
def test_what_cannot_be_the_identity_is_named(tiny_model, settings: dict[str, object], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        start_at_mean(tiny_model("bert", **settings))
