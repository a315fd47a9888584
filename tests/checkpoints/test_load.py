from __future__ import annotations

import json
import os
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
        ("content", "named"),
        [
            ("{", CONFIG_FILE),
            (b"\xff\xfe\x00", CONFIG_FILE),
            ("[" * 200_000, CONFIG_FILE),
            ("[1, 2]", "graphdoc checkpoint"),
            ('{"model_type": "bert"}', "from_backbone"),
            ('{"model_type": "graphdoc"}', "encoder_config"),
            ('{"model_type": "graphdoc", "encoder_config": {"model_type": "nonsense"}}', "nonsense"),
        ],
        ids=range(7),
    )
    def test_configuration(self, checkpoint: Path, content: str | bytes, named: str) -> None:
        (checkpoint / CONFIG_FILE).write_bytes(content if isinstance(content, bytes) else content.encode())
        assert named in refusal(checkpoint)

    @pytest.mark.parametrize(
        ("values", "named"),
        [
            ({"graph_layers": "two"}, "graph_layers='two'"),
            ({"graph_layers": 10**6}, "graph_layers=1000000"),
            ({"pooling": "max"}, "pooling='max'"),
            ({"max_passages": 0}, "max_passages=0"),
            ({"trained": "yes"}, "trained='yes'"),
            ({"readout": None}, "readout"),
            ({"language": 5}, "language=5"),
            ({"quantization_config": {"load_in_8bit": True, "quant_method": "bitsandbytes"}}, WEIGHTS_FILE),
            ({"encoder_config": {"hidden_size": 0}}, "hidden_size=0"),
            ({"encoder_config": {"hidden_size": 10**30}}, WEIGHTS_FILE),
            ({"encoder_config": {"num_attention_heads": 5}}, WEIGHTS_FILE),
            ({"encoder_config": {"num_hidden_layers": 10**9}}, "num_hidden_layers=1e+09"),
            ({"encoder_config": {"num_labels": 10**12}}, "num_labels=1e+12"),
            ({"encoder_config": {"pad_token_id": 400}}, "pad_token_id=400"),
            ({"encoder_config": {"hidden_act": "nonsense"}}, "'nonsense'"),
        ],
        ids=str,
    )
    def test_values(
        self, checkpoint: Path, values: dict[str, Any], named: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        config = json.loads((checkpoint / CONFIG_FILE).read_text())
        config["encoder_config"] |= values.get("encoder_config", {})
        config |= {key: value for key, value in values.items() if key != "encoder_config"}
        (checkpoint / CONFIG_FILE).write_text(json.dumps(config))
        assert named in refusal(checkpoint)
        assert capfd.readouterr().err == ""

    @pytest.mark.parametrize("size", [0, 100, 10_000])
    def test_truncated_weights(self, checkpoint: Path, size: int) -> None:
        os.truncate(checkpoint / WEIGHTS_FILE, size)
        assert f"{WEIGHTS_FILE} of checkpoint {checkpoint}" in refusal(checkpoint)

    def test_tokens_beyond_the_vocabulary(self, checkpoint: Path) -> None:
        tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
        name = next(iter(tokenizer["model"]["vocab"]))
        tokenizer["model"]["vocab"][name] = 5000
        (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer))
        assert "5,001" in refusal(checkpoint)

    def test_a_limit_that_is_no_number(self, checkpoint: Path) -> None:
        settings = json.loads((checkpoint / "tokenizer_config.json").read_text())
        (checkpoint / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": "x"}))
        assert "model_max_length" in refusal(checkpoint)

    @pytest.mark.parametrize("name", ["passage_encoder.", "graph."])
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
        assert "projection.weight: I64" in refusal(checkpoint)

    @pytest.mark.parametrize("name", [WEIGHTS_FILE, CONFIG_FILE, "tokenizer.json"])
    def test_missing_files(self, checkpoint: Path, name: str) -> None:
        (checkpoint / name).unlink()
        assert name.partition(".")[0] in refusal(checkpoint)

    def test_broken_tokenizer(self, checkpoint: Path) -> None:
        for content in ("{", "{}", '{"model": 3}'):
            (checkpoint / "tokenizer.json").write_text(content)
            assert "tokenizer" in refusal(checkpoint)

    @pytest.mark.parametrize(
        "settings",
        [{"graph_layers": 3}, {"projection_size": 8}, {"readout": "mean"}, {"graph_heads": 4}],
    )
    def test_weights_of_another_shape(self, checkpoint: Path, settings: dict[str, Any]) -> None:
        assert "does not fit its configuration" in refusal(checkpoint, **settings)

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
        assert "(projection.bias)" in refusal(checkpoint)
        weights |= {"projection.bias": bias, "surprise": torch.zeros(2)}
        save_file(weights, checkpoint / WEIGHTS_FILE, {"format": "pt"})
        assert "(surprise)" in refusal(checkpoint)

    def test_a_file_instead_of_a_folder(self, checkpoint: Path) -> None:
        assert str(checkpoint / WEIGHTS_FILE) in refusal(checkpoint / WEIGHTS_FILE)
