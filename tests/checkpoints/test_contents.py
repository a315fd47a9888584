from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_loading import load, refusal
from forked import run
from safetensors.torch import load_file
from transformers import AutoModel

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
        values = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**values, "auto_map": auto_map}))
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


def moved_out(file: Path) -> Path:
    """Put a file beside its folder, and a link to it in its place."""
    outside = file.parent.with_name(f"outside-{file.name}")
    file.rename(outside)
    file.symlink_to(outside)
    return outside


class TestLinks:
    @pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE, "tokenizer.json", TOKENIZER_FILE])
    def test_out_of_the_folder(self, checkpoint: Path, backbone: Path, name: str) -> None:
        for folder, refused in ((checkpoint, refusal), (backbone, backbone_refusal)):
            outside = moved_out(folder / name)
            message = refused(folder)
            assert name in message
            assert str(outside.resolve()) in message

    def test_inside_of_the_folder(self, checkpoint: Path, tmp_path: Path) -> None:
        (checkpoint / WEIGHTS_FILE).rename(checkpoint / "weights")
        (checkpoint / WEIGHTS_FILE).symlink_to("weights")
        (tmp_path / "link").symlink_to(checkpoint)
        assert load(tmp_path / "link").name == "link"

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

    def test_weights_that_a_configuration_names(self, checkpoint: Path, backbone: Path) -> None:
        for folder, refused in ((checkpoint, refusal), (backbone, backbone_refusal)):
            shutil.copy(folder / WEIGHTS_FILE, folder.with_name("outside.safetensors"))
            set_value(folder / CONFIG_FILE, "transformers_weights", "../outside.safetensors")
            message = refused(folder)
            assert "transformers_weights" in message
            assert "'../outside.safetensors'" in message
        set_value(checkpoint / CONFIG_FILE, "transformers_weights", "missing.safetensors")
        assert load(checkpoint).hidden_size

    def test_attention_that_a_configuration_names(self, checkpoint: Path) -> None:
        text = (checkpoint / CONFIG_FILE).read_text()
        for key in ("attn_implementation", "_attn_implementation"):
            values = json.loads(text)
            values[key] = values["encoder_config"][key] = "flash_attention_2"
            (checkpoint / CONFIG_FILE).write_text(json.dumps(values))
            transformer = load(checkpoint).model.passage_encoder.transformer
            assert transformer.config._attn_implementation in ("sdpa", "eager")

    def test_the_backbone_of_a_checkpoint(self, checkpoint: Path, backbone: Path) -> None:
        for name in (str(backbone), "../backbone", "~/backbone"):
            set_value(checkpoint / CONFIG_FILE, "backbone", name)
            message = refusal(checkpoint)
            assert CONFIG_FILE in message
            assert repr(name) in message

    def test_files_of_the_tokenizer(self, backbone: Path) -> None:
        expected = DocumentEncoder.from_backbone(backbone, device="cpu").tokenizer.get_vocab()
        tokenizer = json.loads((backbone / "tokenizer.json").read_text())
        tokenizer["added_tokens"][0]["content"] = "<secret>"
        outside = backbone.with_name("tokenizer.4.0.json")
        outside.write_text(json.dumps(tokenizer))
        for key in ("tokenizer_file", "vocab_file", "merges_file", "special_tokens_map_file"):
            set_value(backbone / TOKENIZER_FILE, key, str(outside))
        assert DocumentEncoder.from_backbone(backbone, device="cpu").tokenizer.get_vocab() == expected
        set_value(backbone / TOKENIZER_FILE, "fast_tokenizer_files", ["../tokenizer.4.0.json"])
        message = backbone_refusal(backbone)
        assert "fast_tokenizer_files" in message
        assert "'../tokenizer.4.0.json'" in message

    def test_chat_templates_write_nothing(self, backbone: Path, tmp_path: Path) -> None:
        templates = [{"name": "../../secret", "template": "x"}, {"name": "default", "template": "y"}]
        set_value(backbone / TOKENIZER_FILE, "chat_template", templates)
        encoder = DocumentEncoder.from_backbone(backbone, device="cpu")
        folder = encoder.save_pretrained(tmp_path / "a" / "b")
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
