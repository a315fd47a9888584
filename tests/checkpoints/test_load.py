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
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from graphdoc.checkpoints.contents import CONFIG_FILE, UPDATES_FILE, WEIGHTS_FILE
from graphdoc.checkpoints.load import BACKBONE_HASH
from graphdoc.checkpoints.save import save_checkpoint
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.modeling.document_model import weights_hash
from graphdoc.training.optimizer import prepare_tuning, trained_updates

EncoderFactory = Callable[..., DocumentEncoder]
LABELS = ["rice & <b>koji</b>", "the\nsea", "a|b"]


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

    def test_values(self, checkpoint: Path, capfd: pytest.CaptureFixture[str]) -> None:
        original = json.loads((checkpoint / CONFIG_FILE).read_text())
        rows: list[tuple[dict[str, Any], str]] = [
            ({"graph_layers": "two"}, "graph_layers='two'"),
            ({"graph_layers": 10**6}, "graph_layers=1000000"),
            ({"max_passages": 0}, "max_passages=0"),
            ({"readout": None}, "readout"),
            ({"labels": ["a"]}, "labels"),
            ({"quantization_config": {"load_in_8bit": True, "quant_method": "bitsandbytes"}}, WEIGHTS_FILE),
            ({"encoder_config": {"hidden_size": 10**30}}, WEIGHTS_FILE),
            ({"encoder_config": {"num_attention_heads": 5}}, WEIGHTS_FILE),
            ({"encoder_config": {"num_hidden_layers": 10**9}}, "num_hidden_layers=1e+09"),
            ({"encoder_config": {"num_labels": 10**12}}, "num_labels=1e+12"),
            ({"encoder_config": {"hidden_act": "nonsense"}}, "'nonsense'"),
        ]
        for values, named in rows:
            nested = original["encoder_config"] | values.get("encoder_config", {})
            (checkpoint / CONFIG_FILE).write_text(json.dumps({**original, **values, "encoder_config": nested}))
            assert named in refusal(checkpoint), values
        assert capfd.readouterr().err == ""

    def test_files_that_are_missing_or_cut_short(self, checkpoint: Path) -> None:
        for name in (WEIGHTS_FILE, CONFIG_FILE, "tokenizer.json"):
            (checkpoint / name).rename(checkpoint / "away")
            assert name.partition(".")[0] in refusal(checkpoint)
            (checkpoint / "away").rename(checkpoint / name)
        assert str(checkpoint / WEIGHTS_FILE) in refusal(checkpoint / WEIGHTS_FILE)
        for size in (10_000, 100, 0):
            os.truncate(checkpoint / WEIGHTS_FILE, size)
            assert f"{WEIGHTS_FILE} of checkpoint {checkpoint}" in refusal(checkpoint)

    def test_broken_tokenizer(self, checkpoint: Path) -> None:
        tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
        tokenizer["model"]["vocab"][next(iter(tokenizer["model"]["vocab"]))] = 5000
        for content, named in (("{", "tokenizer"), ('{"model": 3}', "tokenizer"), (json.dumps(tokenizer), "5,001")):
            (checkpoint / "tokenizer.json").write_text(content)
            assert named in refusal(checkpoint)

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

    def test_weights_that_do_not_fit(self, checkpoint: Path) -> None:
        for settings in ({"graph_layers": 3}, {"projection_size": 8}, {"readout": "mean"}, {"graph_heads": 4}):
            assert "does not fit its configuration" in refusal(checkpoint, **settings)
        assert "head.linear.bias" in refusal(checkpoint, labels=["a", "b"])
        weights = load_file(checkpoint / WEIGHTS_FILE)
        bias, weight = weights.pop("projection.bias"), weights["projection.weight"]
        for changes, named in (
            ({}, "(projection.bias)"),
            ({"projection.bias": bias, "surprise": torch.zeros(2)}, "(surprise)"),
            ({"projection.bias": bias, "projection.weight": (100 * weight).to(torch.int64)}, "projection.weight: I64"),
        ):
            save_file({**weights, **changes}, checkpoint / WEIGHTS_FILE, {"format": "pt"})
            assert named in refusal(checkpoint)


def logits_of(encoder: DocumentEncoder, documents: list[Document]) -> torch.Tensor:
    segmented = [encoder.segment(document) for document in documents]
    logits = encoder.run(segmented).output.logits
    assert logits is not None
    return logits


class TestHeads:
    @pytest.mark.parametrize("multi_label", [True, False])
    def test_a_head_is_saved_and_loaded(
        self, tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path, multi_label: bool
    ) -> None:
        encoder = load(tiny_encoder("bert").save_pretrained(tmp_path / "without"))
        encoder.model.add_head(LABELS, multi_label=multi_label, dropout=0.3)
        again = load(encoder.save_pretrained(tmp_path / "with"))
        assert torch.equal(logits_of(again, structured), logits_of(encoder, structured))
        config = again.model.config
        assert config.labels == ["rice & <b>koji</b>", "the sea", "a|b"]
        assert (config.multi_label, config.classifier_dropout) == (multi_label, 0.3)
        for labels in (["a", "b"], None):
            assert "head.linear.bias, head.linear.weight" in refusal(tmp_path / "with", labels=labels)

    @pytest.mark.parametrize(("key", "value"), [("pooling", "mean"), ("normalize_passages", True)])
    def test_one_of_other_vectors_is_left_out(
        self, tiny_encoder: EncoderFactory, tmp_path: Path, key: str, value: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        encoder = tiny_encoder("bert")
        encoder.model.add_head(["cooking", "sea"])
        encoder.save_pretrained(tmp_path)
        kept = load(tmp_path, **{key: getattr(encoder.model.config, key), "max_passages": 3})
        assert kept.model.head is not None and kept.model.config.max_passages == 3 and not caplog.records
        other = load(tmp_path, **{key: value})
        assert f"with another {key}" in caplog.text
        assert getattr(other.model.config, key) == value
        assert other.model.head is None and other.model.config.labels is None
        with pytest.raises(ModelError, match="has no classification head"):
            other.predict("The tide.")
        assert np.isfinite(other.encode("The tide.")).all()


@pytest.mark.parametrize("tune", ["frozen", "lora"])
class TestUpdates:
    @pytest.fixture
    def encoder(self, tiny_encoder: EncoderFactory, tune: str) -> DocumentEncoder:
        if tune == "lora":
            pytest.importorskip("peft", reason="needs the extra graphdoc[lora]")
        encoder = tiny_encoder("bert", readout="mean")
        prepare_tuning(encoder.model, tune, 2)
        return encoder

    def save(self, encoder: DocumentEncoder, folder: Path) -> Path:
        updates = trained_updates(encoder.model)
        return save_checkpoint(encoder.model, encoder.tokenizer, folder, name="updates", updates=updates)

    def test_are_put_on_the_backbone(
        self, encoder: DocumentEncoder, backbone_folder: Callable[[str], Path], tmp_path: Path,
        structured: list[Document], monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        encoder.model.add_head(LABELS)
        with torch.no_grad():
            for weight in encoder.model.parameters():
                if weight.requires_grad:
                    weight.add_(0.1 * torch.randn_like(weight))
        encoder.model.train(False)
        expected = logits_of(encoder, structured)
        folder = self.save(encoder, tmp_path / "model")
        assert not (folder / WEIGHTS_FILE).exists()
        # The backbone is known by its folder's name alone.
        monkeypatch.chdir(backbone_folder("bert").parent)
        torch.testing.assert_close(logits_of(load(folder), structured), expected, atol=1e-5, rtol=1e-5)
        with safe_open(folder / UPDATES_FILE, framework="pt") as opened:
            metadata = opened.metadata()
        weights = load_file(folder / UPDATES_FILE)
        del weights["head.linear.bias"]
        save_file(weights, folder / UPDATES_FILE, metadata)
        assert "head.linear.bias" in refusal(folder)

    def test_another_backbone_is_refused(
        self, encoder: DocumentEncoder, backbone_folder: Callable[[str], Path], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        folder = self.save(encoder, tmp_path / "model")
        backbone = Path(shutil.copytree(backbone_folder("bert"), tmp_path / backbone_folder("bert").name))
        monkeypatch.chdir(tmp_path)
        load(folder)
        weights = load_file(backbone / WEIGHTS_FILE)
        next(iter(weights.values())).view(-1)[0] += 1e-6
        save_file(weights, backbone / WEIGHTS_FILE, {"format": "pt"})
        message = refusal(folder)
        with safe_open(folder / UPDATES_FILE, framework="pt") as file:
            trained_on = file.metadata()[BACKBONE_HASH]
        here = weights_hash(DocumentEncoder.from_backbone(backbone).model.passage_encoder.transformer.state_dict())
        assert trained_on != here
        for part in (UPDATES_FILE, backbone.name, trained_on, here):
            assert part in message
        # Nor is a file taken that does not say what it was trained on.
        save_file(load_file(folder / UPDATES_FILE), folder / UPDATES_FILE, {"format": "pt"})
        assert UPDATES_FILE in refusal(folder)
