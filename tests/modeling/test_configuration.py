from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import RobertaConfig

from graphdoc.graphs.kinds import WindowGraph
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
    "graph_settings": {"window": 5},
    "graph_layers": 3,
    "graph_heads": 4,
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
    config = DocumentConfig(readout="sections", projection_size=600, **settings)
    assert (config.node_size, config.hidden_size) == (600, width)
    assert DocumentConfig(projection_size=600, **settings).hidden_size == 600


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
        ({"readout": "sections", "chunk_attention_heads": 5}, "512.*heads=5|heads=5.*512"),
        ({"graph_kind": "full", "graph_settings": {"hops": 2}}, "graph_settings.hops"),
        ({"graph_kind": "window", "graph_settings": {"window": 0}}, "window=0"),
    ],
)
def test_what_cannot_be_built_is_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        DocumentConfig(**settings)
