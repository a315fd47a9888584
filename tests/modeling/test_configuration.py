from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig, PreTrainedConfig, RobertaConfig

from graphdoc.modeling import DocumentConfig

SETTINGS: dict[str, Any] = {
    "backbone": "someone/encoder",
    "structural_embeddings": True,
    "structural_sections": 3,
    "structural_chunks": 20,
    "pooling": "mean",
    "projection_size": None,
    "normalize_passages": True,
    "graph_kind": "window",
    "window": 5,
    "graph_layers": 3,
    "graph_heads": 4,
    "attention_dropout": 0.25,
    "readout": "sections",
    "chunk_attention_heads": 2,
    "section_aggregation": "mean",
    "section_lstm_size": 10,
    "section_projection_size": 30,
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
    config = DocumentConfig(encoder_config=encoder_config, **SETTINGS)
    assert all(value != getattr(DocumentConfig(), name) for name, value in SETTINGS.items())
    config.save_pretrained(tmp_path)
    loaded = DocumentConfig.from_pretrained(tmp_path)
    assert {name: getattr(loaded, name) for name in SETTINGS} == SETTINGS
    assert type(loaded.encoder_config) is type(encoder_config)
    assert loaded.encoder_config.to_dict() == encoder_config.to_dict()
    assert loaded.to_dict() == config.to_dict()
    assert (loaded.node_size, loaded.hidden_size) == (encoder_config.hidden_size, 30)


def test_an_encoder_config_may_be_a_mapping() -> None:
    config = DocumentConfig(encoder_config={"model_type": "bert", "hidden_size": 48, "num_attention_heads": 4})
    assert isinstance(config.encoder_config, BertConfig)
    assert config.encoder_config.hidden_size == 48
    assert DocumentConfig(encoder_config=config.encoder_config.to_dict()).to_dict() == config.to_dict()


def test_files_hold_plain_values(tmp_path: Path) -> None:
    DocumentConfig(**SETTINGS).save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["model_type"] == "graphdoc"
    assert values["encoder_config"]["model_type"] == "roberta"
    assert values["max_passages"] is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"graph_kind": "ring"}, "graph_kind='ring' is unknown; use one of full, section, window, hierarchical"),
        ({"pooling": "max"}, "pooling='max' is unknown; use one of cls, mean"),
        (
            {"readout": "sum"},
            "readout='sum' is unknown; use one of document_node, mean, initial_mean, attention, sections",
        ),
        ({"similarity": 3}, "similarity=3 is unknown; use one of cosine, dot"),
        ({"window": 0}, "window=0 must be a whole number of at least 1"),
        ({"window": "3"}, "window='3' must be a whole number of at least 1"),
        ({"window": 2.0}, "window=2.0 must be a whole number of at least 1"),
        ({"graph_layers": -1}, "graph_layers=-1 must be a whole number of at least 0"),
        ({"graph_layers": True}, "graph_layers=True must be a whole number of at least 0"),
        ({"graph_heads": 0}, "graph_heads=0 must be a whole number of at least 1"),
        ({"graph_heads": None}, "graph_heads=None must be a whole number of at least 1"),
        ({"projection_size": 0}, "projection_size=0 must be a whole number of at least 1 or None"),
        ({"max_passages": 0}, "max_passages=0 must be a whole number of at least 1 or None"),
        ({"unit": "sentence"}, "unit='sentence' is unknown; use one of passage, chunk"),
        ({"passage_words": 0}, "passage_words=0 must be a whole number of at least 1"),
        ({"passage_tokens": "256"}, "passage_tokens='256' must be a whole number of at least 1"),
        ({"attention_dropout": 1.0}, "attention_dropout=1.0 must be a number of at least 0 and below 1"),
        ({"attention_dropout": "0"}, "attention_dropout='0' must be a number of at least 0 and below 1"),
        ({"normalize_passages": "no"}, "normalize_passages='no' must be true or false"),
        ({"trained": 1}, "trained=1 must be true or false"),
        ({"multi_label": "no"}, "multi_label='no' must be true or false"),
        ({"classifier_dropout": True}, "classifier_dropout=True must be a number of at least 0 and below 1"),
        ({"labels": "rice"}, "labels='rice' must be a list of names, or None for a model without head"),
        ({"labels": ["rice"]}, "labels=['rice'] are too few; give two names, or with multi_label at least one"),
        ({"structural_embeddings": 1}, "structural_embeddings=1 must be true or false"),
        ({"structural_sections": 0}, "structural_sections=0 must be a whole number of at least 1"),
        ({"structural_chunks": None}, "structural_chunks=None must be a whole number of at least 1"),
        ({"chunk_attention_heads": -1}, "chunk_attention_heads=-1 must be a whole number of at least 0"),
        ({"section_aggregation": "max"}, "section_aggregation='max' is unknown; use one of lstm, mean"),
        ({"section_lstm_size": 0}, "section_lstm_size=0 must be a whole number of at least 1"),
        ({"section_projection_size": 0}, "section_projection_size=0 must be a whole number of at least 1 or None"),
        (
            {"graph_heads": 3},
            "node width 512 is not a multiple of graph_heads=3; change graph_heads or projection_size",
        ),
        (
            {"readout": "sections", "chunk_attention_heads": 5},
            "node width 512 is not a multiple of chunk_attention_heads=5; change chunk_attention_heads or "
            "projection_size",
        ),
    ],
)
def test_wrong_values_are_named_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        DocumentConfig(**settings)
    assert str(caught.value) == message


def test_heads_do_not_matter_without_layers() -> None:
    assert DocumentConfig(graph_layers=0, graph_heads=3).graph_heads == 3
    assert DocumentConfig(chunk_attention_heads=5).chunk_attention_heads == 5
    assert DocumentConfig(readout="sections", chunk_attention_heads=0).chunk_attention_heads == 0


@pytest.mark.parametrize(
    ("settings", "width"),
    [
        ({}, 256),
        ({"section_projection_size": None}, 512),
        ({"section_projection_size": None, "section_lstm_size": 100}, 200),
        ({"section_projection_size": None, "section_aggregation": "mean"}, 600),
        ({"section_projection_size": 40, "section_aggregation": "mean"}, 40),
    ],
)
def test_vectors_of_sections_have_a_width_of_their_own(settings: dict[str, Any], width: int) -> None:
    config = DocumentConfig(readout="sections", projection_size=600, **settings)
    assert (config.node_size, config.hidden_size) == (600, width)
    assert DocumentConfig(projection_size=600, **settings).hidden_size == 600


def test_unknown_encoder_types_are_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        DocumentConfig(encoder_config={"model_type": "nonsense"})


def test_width_without_projection_is_the_encoders(tiny_encoder_config) -> None:
    config = DocumentConfig(encoder_config=tiny_encoder_config("bert"), projection_size=None)
    assert isinstance(config.encoder_config, PreTrainedConfig)
    assert config.hidden_size == config.encoder_config.hidden_size == 24


def test_names_of_classes_are_on_one_line() -> None:
    config = DocumentConfig(labels=("a\nb", " c "))
    assert config.labels == ["a b", "c"]
    assert DocumentConfig(**config.to_dict()).labels == ["a b", "c"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"graph_layers": 0}, ("window", 1)),
        ({"readout": "initial_mean"}, ("window", 1)),
        ({"readout": "mean"}, ("hierarchical", 3)),
        ({"readout": "attention", "graph_layers": 1}, ("hierarchical", 3)),
    ],
)
def test_edges_that_no_vector_depends_on_are_not_built(settings: dict[str, Any], expected: tuple[str, int]) -> None:
    assert DocumentConfig(graph_kind="hierarchical", window=3, **settings).vector_graph == expected
