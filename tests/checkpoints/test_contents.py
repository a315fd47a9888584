from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from checkpoint_loading import load, refusal
from forked import run
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors.torch import load_file
from transformers import AutoModel
from typed import Encoders, Patch

from graphdoc.checkpoints.contents import ADAPTER_FILE, CONFIG_FILE, INDEX_FILE, TOKENIZER_FILE, WEIGHTS_FILE
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError

CODE = "from pathlib import Path\nPath({marker!r}).write_text('ran')\n"


def test_code_of_a_folder_is_never_run_nor_asked_about(backbone: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    folders = []
    for name, auto_map in (
        ("config.json", {"AutoConfig": "own.Config"}),
        ("config.json", {"AutoModel": "own.Model"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["own.Tokenizer", None]}),
    ):
        folder = Path(shutil.copytree(backbone, tmp_path / next(iter(auto_map))))
        folders.append(str(folder))
        (folder / "own.py").write_text(CODE.format(marker=str(marker)))
        (folder / name).write_text(json.dumps({**json.loads((folder / name).read_text()), "auto_map": auto_map}))
    (tmp_path / "program.py").write_text(
        "import io, sys\n"
        "sys.stdin = io.StringIO('y\\n' * 9)\n"
        "from graphdoc import DocumentEncoder\n"
        "from graphdoc.errors import ModelError\n"
        f"for folder in {folders!r}:\n"
        "    try:\n        DocumentEncoder.from_backbone(folder, device='cpu')\n"
        "    except ModelError:\n        pass\n"
        "    print('tried')\n",
        encoding="utf-8",
    )
    done = run(tmp_path / "program.py")
    assert not marker.exists()
    assert "[y/N]" not in done.stdout + done.stderr
    assert done.stdout.count("tried") == len(folders)


def backbone_refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        DocumentEncoder.from_backbone(folder, device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def set_value(file: Path, key: str, value: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))


class TestLinks:
    @pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE, "tokenizer.json", TOKENIZER_FILE])
    def test_out_of_the_folder_or_inside_of_it(self, checkpoint: Path, backbone: Path, name: str) -> None:
        for folder, refused in ((checkpoint, refusal), (backbone, backbone_refusal)):
            outside = folder.with_name(f"outside-{folder.name}-{name}")
            (folder / name).rename(outside)
            (folder / name).symlink_to(outside)
            message = refused(folder)
            assert name in message and str(outside.resolve()) in message
            (folder / name).unlink()
            outside.rename(folder / "inside")
            (folder / name).symlink_to("inside")
        checkpoint.with_name("link").symlink_to(checkpoint)
        assert load(checkpoint.with_name("link")).name == "link"

    def test_of_the_hubs_cache(self, checkpoint: Path, tmp_path: Path) -> None:
        repository = tmp_path / "models--someone--model"
        snapshot, blobs = repository / "snapshots" / "0123", repository / "blobs"
        snapshot.mkdir(parents=True)
        blobs.mkdir()
        for path in checkpoint.iterdir():
            path.rename(blobs / f"hash-{path.name}")
            (snapshot / path.name).symlink_to(Path("../../blobs", f"hash-{path.name}"))
        assert load(snapshot).hidden_size
        blobs.rename(tmp_path / "elsewhere")
        blobs.symlink_to(tmp_path / "elsewhere")
        assert "is a link out of its folder" in refusal(snapshot)


class TestNames:
    def test_shards(self, backbone: Path, tmp_path: Path) -> None:
        expected = load_file(backbone / WEIGHTS_FILE)
        model = AutoModel.from_pretrained(backbone, add_pooling_layer=False)
        (backbone / WEIGHTS_FILE).unlink()
        model.save_pretrained(backbone, max_shard_size="20KB")
        loaded = DocumentEncoder.from_backbone(backbone, device="cpu").model.passage_encoder.transformer.state_dict()
        assert all(torch.equal(value, expected[key]) for key, value in loaded.items())
        shards = json.loads((backbone / INDEX_FILE).read_text())["weight_map"]
        key, shard = next(iter(shards.items()))
        shutil.copy(backbone / shard, tmp_path / shard)
        for name in (f"../{shard}", str(tmp_path / shard), "..", 5, ["x"], {}):
            set_value(backbone / INDEX_FILE, "weight_map", {**shards, key: name})
            message = backbone_refusal(backbone)
            assert INDEX_FILE in message
            assert repr(str(name)) in message

    def test_of_files_elsewhere_are_refused(self, checkpoint: Path, backbone: Path) -> None:
        for folder, file, key, names in (
            (checkpoint, CONFIG_FILE, "transformers_weights", ["../outside.safetensors"]),
            (backbone, CONFIG_FILE, "transformers_weights", ["../outside.safetensors"]),
            (checkpoint, CONFIG_FILE, "backbone", [str(backbone), "../backbone", "~/backbone"]),
            (backbone, TOKENIZER_FILE, "fast_tokenizer_files", ["../tokenizer.4.0.json"]),
        ):
            shutil.copy(folder / WEIGHTS_FILE, folder.with_name("outside.safetensors"))
            shutil.copy(folder / "tokenizer.json", folder.with_name("tokenizer.4.0.json"))
            kept = (folder / file).read_text()
            for name in names:
                set_value(folder / file, key, [name] if key == "fast_tokenizer_files" else name)
                message = (refusal if folder is checkpoint else backbone_refusal)(folder)
                assert (key in message or file in message) and repr(name) in message
            (folder / file).write_text(kept)
        set_value(checkpoint / CONFIG_FILE, "transformers_weights", "missing.safetensors")
        assert load(checkpoint).hidden_size

    def test_of_files_elsewhere_are_not_followed(self, checkpoint: Path, backbone: Path) -> None:
        values = json.loads((checkpoint / CONFIG_FILE).read_text())
        for key in ("attn_implementation", "_attn_implementation"):
            values[key] = values["encoder_config"][key] = "flash_attention_2"
        (checkpoint / CONFIG_FILE).write_text(json.dumps(values))
        assert load(checkpoint).model.passage_encoder.transformer.config._attn_implementation in ("sdpa", "eager")
        expected = DocumentEncoder.from_backbone(backbone, device="cpu").tokenizer.get_vocab()
        tokenizer = json.loads((backbone / "tokenizer.json").read_text())
        tokenizer["added_tokens"][0]["content"] = "<secret>"
        outside = backbone.with_name("tokenizer.4.0.json")
        outside.write_text(json.dumps(tokenizer))
        for key in ("tokenizer_file", "vocab_file", "merges_file", "special_tokens_map_file"):
            set_value(backbone / TOKENIZER_FILE, key, str(outside))
        assert DocumentEncoder.from_backbone(backbone, device="cpu").tokenizer.get_vocab() == expected

    def test_chat_templates_write_nothing(self, backbone: Path, tmp_path: Path) -> None:
        templates = [{"name": "../../secret", "template": "x"}, {"name": "default", "template": "y"}]
        set_value(backbone / TOKENIZER_FILE, "chat_template", templates)
        folder = DocumentEncoder.from_backbone(backbone, device="cpu").save_pretrained(tmp_path / "a" / "b")
        assert not list(tmp_path.rglob("*.jinja"))
        assert load(folder).hidden_size


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_waited_for(checkpoint: Path) -> None:
    (checkpoint / TOKENIZER_FILE).unlink()
    os.mkfifo(checkpoint / TOKENIZER_FILE)
    assert load(checkpoint).hidden_size


def test_pickles_and_adapters_are_refused(checkpoint: Path, backbone: Path) -> None:
    for folder, refused in ((checkpoint, refusal), (backbone, backbone_refusal)):
        (folder / ADAPTER_FILE).write_text(json.dumps({"base_model_name_or_path": "../outside"}))
        assert ADAPTER_FILE in refused(folder)
        (folder / ADAPTER_FILE).unlink()
        weights = load_file(folder / WEIGHTS_FILE)
        (folder / WEIGHTS_FILE).unlink()
        for name in ("pytorch_model.bin", "model.pt", "weights.pth"):
            torch.save(weights, folder / name)
            message = refused(folder)
            assert str(folder) in message and f"{name} of " in message and WEIGHTS_FILE in message
            (folder / name).unlink()


MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.mark.parametrize("name", ["someone/no-model", "./model", "a/b/c", "x" * 300, "~nobody-has-this-name", "  "])
def test_what_is_not_there(name: str) -> None:
    assert name in refusal(name)
    with pytest.raises(ModelError, match="check the"):
        DocumentEncoder.from_backbone(name)


@pytest.mark.parametrize(
    "error", [GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError, LocalEntryNotFoundError]
)
def test_what_the_hub_refuses_or_a_hub_that_is_not_reached(error: type[Exception], monkeypatch: Patch) -> None:
    client = logging.getLogger("huggingface_hub.utils._http")

    def refuse(*_: Any, **__: Any) -> str:
        assert not client.isEnabledFor(logging.WARNING)
        if error is LocalEntryNotFoundError:
            raise error("no connection")
        response = httpx2.Response(401, request=httpx2.Request("GET", "https://huggingface.co/api/models/a/model"))
        raise error("401 Client Error. (Request ID: 7)\n\nNo access.\nLog in.", response=response)  # type: ignore[call-arg]

    monkeypatch.setattr("graphdoc.checkpoints.folders.snapshot_download", refuse)
    with pytest.raises(ModelError) as backbone:
        DocumentEncoder.from_backbone("someone/model")
    for message in (refusal("someone/model", revision="main"), str(backbone.value)):
        named = "no connection" if error is LocalEntryNotFoundError else error.__name__
        assert "'someone/model'" in message and named in message
        assert "Request ID" not in message and "\n" not in message
    assert client.isEnabledFor(logging.WARNING)


def test_folders_of_other_kinds(tiny_encoder: Encoders, backbone: Path, tmp_path: Path) -> None:
    assert f"from_backbone({str(backbone)!r})" in refusal(str(backbone))
    run = tmp_path / "run"
    model = tiny_encoder().save_pretrained(run / "model")
    with pytest.raises(ModelError) as caught:
        DocumentEncoder.from_backbone(str(run))
    assert str(model) in refusal(run) and str(model) in str(caught.value)
    assert "config.json" in refusal(model / "config.json")


def test_a_folder_of_the_same_name_does_not_hide_a_shipped_model(
    mini: DocumentEncoder, tmp_path: Path, monkeypatch: Patch
) -> None:
    (tmp_path / "mini").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load(Path("mini")).describe() == mini.describe()


def test_settings_that_cannot_be(saved: Path) -> None:
    for settings in ({"graf_kind": "full"}, {"backbone": "x"}, {"passage_tokens": 81}):
        assert next(iter(settings)) in refusal(saved, **settings)
    # The model that is shipped does not get untrained parts.
    for settings, part in (({"readout": "attention"}, "readout"), ({"labels": ["a", "b"]}, "head")):
        assert f"mini has no weights for its {part}" in refusal("mini", **settings)


def test_the_packaged_backbone_is_missing(monkeypatch: Patch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = refusal("mini")
    assert MINILM in message and "[offline]" in message
