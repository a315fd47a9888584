from __future__ import annotations

import errno
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
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from typed import Backbones, Documents, Encoders, Log, Output, Patch

from graphdoc.checkpoints.contents import CONFIG_FILE, TOKENIZER_FILE, UPDATES_FILE, WEIGHTS_FILE
from graphdoc.checkpoints.load import BACKBONE_HASH
from graphdoc.checkpoints.save import MOST_CLASSES, model_card, save_checkpoint
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError, OutputError
from graphdoc.modeling import DocumentConfig
from graphdoc.modeling.document_model import weights_hash
from graphdoc.training.optimizer import prepare_tuning, trained_updates


@pytest.mark.parametrize(("readout", "kind"), [("mean", "window"), ("attention", "section"), ("sections", "full")])
def test_what_is_loaded_is_what_was_saved(
    encoder_name: str, tiny_encoder: Encoders, structured: Documents, tmp_path: Path, readout: str, kind: str
) -> None:
    settings = {"graph_settings": {"window": 3}} if kind == "window" else {}
    encoder = tiny_encoder(encoder_name, readout=readout, graph_kind=kind, max_passages=7, similarity="dot", **settings)
    again = load(encoder.save_pretrained(tmp_path / "checkpoint"))
    assert torch.equal(
        again.encode(structured, convert_to_tensor=True), encoder.encode(structured, convert_to_tensor=True)
    )
    assert again.tokenizer("Rice & tides ☃").input_ids == encoder.tokenizer("Rice & tides ☃").input_ids
    assert again.describe() == {**encoder.describe(), "name": "checkpoint"}


def test_half_precision_is_saved_as_it_is_and_loads_in_full(
    tiny_encoder: Encoders, structured: Documents, tmp_path: Path
) -> None:
    encoder = tiny_encoder(dtype="bfloat16")
    folder = encoder.save_pretrained(tmp_path)
    assert load(folder).describe()["dtype"] == "float32"
    assert load(folder, dtype="bfloat16").encode(structured).tobytes() == encoder.encode(structured).tobytes()
    # Settings that change no weights are given when it is loaded.
    other = load(folder, max_passages=3, passage_words=10, graph_kind="section", similarity="dot")
    assert (other.segmenter.config.max_passages, other.describe()["graph_kind"]) == (3, "section")
    assert load(folder).describe()["graph_kind"] == "full"


class TestFolder:
    def test_contents(self, saved: Path, backbone_folder: Backbones) -> None:
        files = {path.name: path.read_bytes() for path in saved.iterdir()}
        assert sorted(files) == ["README.md", CONFIG_FILE, WEIGHTS_FILE, "tokenizer.json", "tokenizer_config.json"]
        assert len({path.stat().st_mode for path in saved.iterdir()}) == 1
        for name, content in files.items():
            # Zip archives and pickles begin with these bytes; no file knows a path of this machine.
            assert not content.startswith((b"PK", b"\x80")), name
            assert str(backbone_folder("bert").parent).encode() not in content and str(saved).encode() not in content
        assert json.loads(files[CONFIG_FILE])["backbone"] == "tiny-bert"

    def test_card(self, saved: Path) -> None:
        card = (saved / "README.md").read_text(encoding="utf-8")
        assert card.startswith("---\nlibrary_name: graphdoc\n")
        assert "not trained to compare" in card and "| graph_layers | 2 |" in card and "| graph_kind | full |" in card
        trained = model_card(DocumentConfig(graph_layers=0, trained=True, max_passages=None), "plain")
        assert "not trained" not in trained and "classes" not in trained and "| max_passages | null |" in trained
        card = model_card(DocumentConfig(labels=["rice & <b>koji</b>", "the\nsea", "a|b"]), "topics")
        assert "pipeline_tag: text-classification" in card
        assert r"| one of 3: rice \& \<b\>koji\</b\>, the sea, a\|b |" in card
        labels = [f"class{number}" for number in range(MOST_CLASSES + 5)]
        card = model_card(DocumentConfig(labels=labels, multi_label=True), "many")
        assert f"class{MOST_CLASSES - 1} and 5 more |" in card

    @pytest.mark.parametrize(
        ("step", "kind"), [("weights", SafetensorError), ("tokenizer", OSError), ("card", KeyboardInterrupt)]
    )
    def test_an_interrupted_save_leaves_nothing(
        self, tiny_encoder: Encoders, tmp_path: Path, monkeypatch: Patch, step: str, kind: Any
    ) -> None:
        encoder = tiny_encoder()
        error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if kind is OSError else kind("out of space")

        def fail(*_: Any, **__: Any) -> None:
            raise error

        target = {
            "weights": (encoder.model, "save_pretrained"),
            "tokenizer": (encoder.tokenizer, "save_pretrained"),
            "card": ("graphdoc.checkpoints.save.model_card",),
        }[step]
        monkeypatch.setattr(*target, fail)
        with pytest.raises(KeyboardInterrupt if kind is KeyboardInterrupt else OutputError) as caught:
            encoder.save_pretrained(tmp_path / "model")
        if kind is not KeyboardInterrupt:
            assert "model cannot be written: " in str(caught.value)
            assert "space" in str(caught.value)
        assert list((tmp_path / "model").iterdir()) == []
        assert "has no config.json" in refusal(tmp_path / "model")


def test_foreign_files_are_never_replaced(tiny_encoder: Encoders, checkpoint: Path, tmp_path: Path) -> None:
    encoder = tiny_encoder(graph_layers=1)
    for name, content in (
        ("README.md", "# My notes\n\nlibrary_name: graphdoc\n"), (CONFIG_FILE, '{"model_type": "bert"}'),
        (WEIGHTS_FILE, "mine"),
    ):  # fmt: skip
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(content)
        for updates in (None, trained_updates(encoder.model)):
            with pytest.raises(OutputError) as caught:
                save_checkpoint(encoder.model, encoder.tokenizer, folder, name="one", updates=updates)
            assert str(folder / name) in str(caught.value)
        assert {path.name: path.read_text() for path in folder.iterdir()} == {name: content}
    # A card that was replaced, and a target that is a file.
    before = {path.name: path.read_bytes() for path in checkpoint.iterdir()} | {"README.md": b"# Mine\n"}
    (checkpoint / "README.md").write_bytes(before["README.md"])
    for target, named in ((checkpoint, "README.md"), (checkpoint / CONFIG_FILE, CONFIG_FILE)):
        with pytest.raises(OutputError, match=named):
            encoder.save_pretrained(target)
    assert {path.name: path.read_bytes() for path in checkpoint.iterdir()} == before


def save(encoder: DocumentEncoder, folder: Path, kind: str) -> Path:
    updates = trained_updates(encoder.model) if kind == "updates" else None
    return save_checkpoint(encoder.model, encoder.tokenizer, folder, name="one", updates=updates)


@pytest.mark.parametrize("kinds", [("whole", "updates"), ("updates", "whole"), ("whole", "whole")])
def test_saving_over_leaves_nothing_of_before(tiny_encoder: Encoders, tmp_path: Path, kinds: tuple[str, str]) -> None:
    for folder, kind in (("over", kinds[0]), ("over", kinds[1]), ("fresh", kinds[1])):
        save(tiny_encoder("bert"), tmp_path / folder, kind)
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("over", "fresh")]
    assert files[0] == files[1]
    # Weights beside updates are refused.
    save(tiny_encoder("bert"), tmp_path / "both", "whole")
    shutil.copy(save(tiny_encoder("bert"), tmp_path / "updates", "updates") / UPDATES_FILE, tmp_path / "both")
    message = refusal(tmp_path / "both")
    assert WEIGHTS_FILE in message and UPDATES_FILE in message


@pytest.mark.parametrize("kind", ["whole", "updates"])
@pytest.mark.parametrize("moved", [0, 1, 4])
def test_interrupted_anywhere_never_loads_a_mix(
    tiny_encoder: Encoders, checkpoint: Path, monkeypatch: Patch, kind: str, moved: int
) -> None:
    encoder = tiny_encoder("bert", graph_layers=1)
    replace, left = Path.replace, [moved]

    def stop(path: Path, target: Path) -> Path:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stop)
    try:
        save(encoder, checkpoint, kind)
    except KeyboardInterrupt:
        if moved:
            assert "was interrupted" in refusal(checkpoint)
        else:
            assert load(checkpoint).model.config.graph_layers == 2
    monkeypatch.undo()
    save(encoder, checkpoint, "whole")
    assert load(checkpoint).model.config.graph_layers == 1
    names = {"README.md", CONFIG_FILE, WEIGHTS_FILE, "tokenizer.json", TOKENIZER_FILE}
    assert {path.name for path in checkpoint.iterdir()} == names


LABELS = ["rice & <b>koji</b>", "the\nsea", "a|b"]


def changed(**values: Any) -> Callable[[Path], object]:
    """Gives the configuration other values; those of the encoder below it."""

    def damage(folder: Path) -> None:
        original = json.loads((folder / CONFIG_FILE).read_text())
        nested = original["encoder_config"] | values.get("encoder_config", {})
        (folder / CONFIG_FILE).write_text(json.dumps({**original, **values, "encoder_config": nested}))

    return damage


def written(name: str, content: str | bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def weighted(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        weights = load_file(folder / WEIGHTS_FILE)
        change(weights)
        save_file(weights, folder / WEIGHTS_FILE, {"format": "pt"})

    return damage


def far_token(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"][next(iter(tokenizer["model"]["vocab"]))] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


# What is done to a checkpoint, the settings that it is loaded with, and what the error must name.
BROKEN: list[tuple[Callable[[Path], object] | None, dict[str, Any], str]] = [
    (written(CONFIG_FILE, "{"), {}, CONFIG_FILE),
    (written(CONFIG_FILE, b"\xff\xfe\x00"), {}, CONFIG_FILE),
    (written(CONFIG_FILE, "[" * 200_000), {}, CONFIG_FILE),
    (written(CONFIG_FILE, "[1, 2]"), {}, "graphdoc checkpoint"),
    (written(CONFIG_FILE, '{"model_type": "bert"}'), {}, "from_backbone"),
    (written(CONFIG_FILE, '{"model_type": "graphdoc"}'), {}, "encoder_config"),
    (changed(encoder_config={"model_type": "nonsense"}), {}, "nonsense"),
    (changed(graph_layers="two"), {}, "graph_layers='two'"),
    (changed(graph_layers=10**6), {}, "graph_layers=1000000"),
    (changed(max_passages=0), {}, "max_passages=0"),
    (changed(readout=None), {}, "readout"),
    (changed(labels=["a"]), {}, "labels"),
    (changed(quantization_config={"load_in_8bit": True, "quant_method": "bitsandbytes"}), {}, WEIGHTS_FILE),
    (changed(encoder_config={"hidden_size": 10**30}), {}, WEIGHTS_FILE),
    (changed(encoder_config={"num_attention_heads": 5}), {}, WEIGHTS_FILE),
    (changed(encoder_config={"num_hidden_layers": 10**9}), {}, "num_hidden_layers=1e+09"),
    (changed(encoder_config={"num_labels": 10**12}), {}, "num_labels=1e+12"),
    (changed(encoder_config={"hidden_act": "nonsense"}), {}, "'nonsense'"),
    *((lambda folder, name=name: (folder / name).unlink(), {}, name.partition(".")[0])
      for name in (WEIGHTS_FILE, CONFIG_FILE, "tokenizer.json")),
    *((lambda folder, size=size: os.truncate(folder / WEIGHTS_FILE, size), {}, f"{WEIGHTS_FILE} of checkpoint")
      for size in (10_000, 100, 0)),
    (written("tokenizer.json", "{"), {}, "tokenizer"),
    (written("tokenizer.json", '{"model": 3}'), {}, "tokenizer"),
    (far_token, {}, "5,001"),
    *((None, settings, "does not fit its configuration")
      for settings in ({"graph_layers": 3}, {"projection_size": 8}, {"readout": "mean"}, {"graph_heads": 4})),
    (None, {"labels": ["a", "b"]}, "head.linear.bias"),
    (weighted(lambda weights: weights.pop("projection.bias")), {}, "(projection.bias)"),
    (weighted(lambda weights: weights.update(surprise=torch.zeros(2))), {}, "(surprise)"),
    (weighted(lambda weights: weights.update({"projection.weight": torch.ones(16, 24).long()})), {}, "I64"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "settings", "named"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_checkpoint_is_named(
    checkpoint: Path, damage: Any, settings: dict[str, Any], named: str, capfd: Output
) -> None:
    if damage is not None:
        damage(checkpoint)
    assert named in refusal(checkpoint, **settings)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["passage_encoder.", "graph."])
def test_weights_that_are_no_numbers(checkpoint: Path, structured: Documents, name: str) -> None:
    weighted(lambda weights: [weights[key].fill_(torch.nan) for key in weights if key.startswith(name)])(checkpoint)
    encoder = load(checkpoint)
    for run in (encoder.encode, lambda documents: encoder.compare(documents[0])):
        with pytest.raises(ModelError, match="NaN"):
            run(structured)


def logits_of(encoder: DocumentEncoder, documents: Documents) -> torch.Tensor:
    logits = encoder.run([encoder.segment(document) for document in documents]).output.logits
    assert logits is not None
    return logits


class TestHeads:
    def test_a_head_is_saved_and_loaded(self, tiny_encoder: Encoders, structured: Documents, tmp_path: Path) -> None:
        encoder = tiny_encoder("bert")
        for multi_label in (True, False):
            encoder.model.add_head(LABELS, multi_label=multi_label, dropout=0.3)
            again = load(encoder.save_pretrained(tmp_path))
            assert torch.equal(logits_of(again, structured), logits_of(encoder, structured))
            config = again.model.config
            assert config.labels == ["rice & <b>koji</b>", "the sea", "a|b"]
            assert (config.multi_label, config.classifier_dropout) == (multi_label, 0.3)
            for labels in (["a", "b"], None):
                assert "head.linear.bias, head.linear.weight" in refusal(tmp_path, labels=labels)

    @pytest.mark.parametrize(("key", "value"), [("pooling", "mean"), ("normalize_passages", True)])
    def test_one_of_other_vectors_is_left_out(
        self, tiny_encoder: Encoders, tmp_path: Path, key: str, value: Any, caplog: Log
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
def test_updates_are_put_on_the_backbone_that_they_were_trained_on(
    tiny_encoder: Encoders, backbone_folder: Backbones, tmp_path: Path, structured: Documents,
    monkeypatch: Patch, tune: Any,
) -> None:  # fmt: skip
    if tune == "lora":
        pytest.importorskip("peft", reason="needs the extra graphdoc[lora]")
    # All parts of CoLDE, and a head.
    own = {"section_lstm_size": 6}
    encoder = tiny_encoder("bert", readout="sections", structural_embeddings=True, readout_settings=own)
    prepare_tuning(encoder.model, tune, 2)
    assert encoder.model.trains_passage_vectors == (tune == "lora")
    encoder.model.add_head(LABELS)
    with torch.no_grad():
        for weight in encoder.model.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn_like(weight))
    encoder.model.train(False)
    expected, updates = logits_of(encoder, structured), trained_updates(encoder.model)
    assert updates.keys() >= {"structural_embeddings.sections", "structural_embeddings.chunks"}
    folder = save_checkpoint(encoder.model, encoder.tokenizer, tmp_path / "model", name="updates", updates=updates)
    assert not (folder / WEIGHTS_FILE).exists()
    # The backbone is known by its folder's name alone.
    backbone = Path(shutil.copytree(backbone_folder("bert"), tmp_path / backbone_folder("bert").name))
    monkeypatch.chdir(tmp_path)
    torch.testing.assert_close(logits_of(load(folder), structured), expected, atol=1e-5, rtol=1e-5)
    with safe_open(folder / UPDATES_FILE, framework="pt") as opened:
        metadata = opened.metadata()
    kept = load_file(folder / UPDATES_FILE)
    save_file({name: one for name, one in kept.items() if name != "head.linear.bias"}, folder / UPDATES_FILE, metadata)
    assert "head.linear.bias" in refusal(folder)
    # Nor is a file taken that does not say what it was trained on, or that was trained on another backbone.
    save_file(kept, folder / UPDATES_FILE, {"format": "pt"})
    assert UPDATES_FILE in refusal(folder)
    save_file(kept, folder / UPDATES_FILE, metadata)
    weights = load_file(backbone / WEIGHTS_FILE)
    next(iter(weights.values())).view(-1)[0] += 1e-6
    save_file(weights, backbone / WEIGHTS_FILE, {"format": "pt"})
    here = weights_hash(DocumentEncoder.from_backbone(backbone).model.passage_encoder.transformer.state_dict())
    assert metadata[BACKBONE_HASH] != here
    assert all(part in refusal(folder) for part in (UPDATES_FILE, backbone.name, metadata[BACKBONE_HASH], here))
