from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from graphdoc.errors import SettingsError
from graphdoc.registry import GRAPH_KINDS, READOUTS, load
from graphdoc.settings.document import DocumentSettings, setting_names
from graphdoc.settings.mistakes import shown


@pytest.mark.parametrize(
    ("key", "value", "bound"),
    [
        ("graph_kind", "no_such_kind", "hierarchical"),
        ("pooling", "max", "cls"),
        ("readout", "sum", "initial_mean"),
        ("similarity", 3, "cosine"),
        ("unit", "word", "chunk"),
        ("paragraph", "page", "blank_line"),
        ("section_aggregation", "max", "lstm"),
        ("passage_words", 0, "1"),
        ("passage_words", "3", "whole number"),
        ("passage_words", 2.0, "whole number"),
        ("passage_words", 10**12, "1,000,000,000"),
        ("graph_layers", -1, "0"),
        ("graph_layers", True, "whole number"),
        ("graph_layers", 100_000_000, "100"),
        ("graph_heads", 0, "1"),
        ("graph_heads", None, "no value"),
        ("graph_heads", 10**6, "1,024"),
        ("projection_size", 0, "1"),
        ("projection_size", 10**8, "65,536"),
        ("max_passages", 0, "1"),
        ("passage_words", 0, "1"),
        ("passage_tokens", "256", "whole number"),
        ("attention_dropout", 1.0, "1"),
        ("attention_dropout", "0", "number"),
        ("attention_dropout", float("nan"), "0"),
        ("normalize_passages", "no", "true or false"),
        ("trained", 1, "true or false"),
        ("multi_label", "no", "true or false"),
        ("classifier_dropout", True, "number"),
        ("labels", "rice", "list"),
        ("labels", ["rice"], "two"),
        ("language", 3, "text"),
        ("structural_embeddings", 1, "true or false"),
        ("structural_sections", 0, "1"),
        ("structural_chunks", None, "no value"),
        ("chunk_attention_heads", -1, "0"),
        ("section_lstm_size", 0, "1"),
        ("section_projection_size", 0, "1"),
    ],
)
def test_wrong_values_are_named_with_what_is_right(key: str, value: Any, bound: str) -> None:
    with pytest.raises(SettingsError) as error:
        DocumentSettings(**{key: value})
    message = str(error.value)
    assert message.startswith(f"{key}={shown(value)} " if value is not None else key)
    assert bound in message and "\n" not in message


def test_unknown_keys_are_named_with_the_nearest() -> None:
    with pytest.raises(SettingsError) as error:
        DocumentSettings(graph_layer=2)  # type: ignore[call-arg]
    message = str(error.value)
    assert "graph_layer " in message and "graph_layers" in message


def test_labels_are_put_on_one_line() -> None:
    assert DocumentSettings(labels=["a\nb", " c "]).labels == ["a b", "c"]
    assert DocumentSettings(labels=["spam"], multi_label=True).labels == ["spam"]


def test_the_schema_names_bounds_and_choices() -> None:
    properties = DocumentSettings.model_json_schema()["properties"]
    assert set(properties) == set(setting_names())
    assert properties["graph_layers"]["maximum"] == 100
    assert properties["readout"]["enum"] == list(READOUTS)
    assert properties["graph_kind"]["enum"] == list(GRAPH_KINDS)
    # Descriptions are those of the docstring.
    for name, described in properties.items():
        for choice in described.get("enum", []):
            assert f"``{choice}``" in described["description"], f"{name} does not explain {choice}"


def test_settings_and_registry_import_no_torch() -> None:
    check = "import sys, graphdoc.settings.document; print({'torch', 'transformers'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
    assert shown == "set()\n"


def test_the_registry_loads_what_it_names() -> None:
    assert load("graphdoc.settings.document:DocumentSettings") is DocumentSettings
