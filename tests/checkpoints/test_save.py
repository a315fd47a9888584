from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_loading import load, refusal
from safetensors import SafetensorError

from graphdoc.checkpoints.contents import CONFIG_FILE, TOKENIZER_FILE, UPDATES_FILE, WEIGHTS_FILE
from graphdoc.checkpoints.save import MOST_CLASSES, model_card, save_checkpoint
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import OutputError
from graphdoc.modeling import DocumentConfig
from graphdoc.registry import GRAPH_KINDS, READOUTS
from graphdoc.training.optimizer import trained_updates

EncoderFactory = Callable[..., DocumentEncoder]
BackboneFactory = Callable[[str], Path]


class TestRoundTrip:
    @pytest.mark.parametrize(
        ("readout", "kind"),
        [*(("mean", kind) for kind in GRAPH_KINDS), *((readout, "full") for readout in READOUTS if readout != "mean")],
    )
    def test_vectors_are_bit_equal(
        self, tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path, readout: str, kind: str
    ) -> None:
        encoder = tiny_encoder(
            readout=readout,
            graph_kind=kind,
            graph_settings={"window": 3} if kind == "window" else None,
            max_passages=7,
            similarity="dot",
        )
        again = load(encoder.save_pretrained(tmp_path / "checkpoint"))
        assert torch.equal(again.encode(structured, output="torch"), encoder.encode(structured, output="torch"))
        expected = {**encoder.describe(), "name": "checkpoint"}
        assert again.describe() == expected

    def test_backbones_of_all_kinds(
        self, encoder_name: str, tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path
    ) -> None:
        encoder = tiny_encoder(encoder_name)
        again = load(encoder.save_pretrained(tmp_path))
        assert again.encode(structured).tobytes() == encoder.encode(structured).tobytes()
        assert again.tokenizer("Rice & tides ☃").input_ids == encoder.tokenizer("Rice & tides ☃").input_ids

    def test_half_precision_is_saved_as_it_is_and_loads_in_full(
        self, tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path
    ) -> None:
        encoder = tiny_encoder(dtype="bfloat16")
        again = load(encoder.save_pretrained(tmp_path))
        assert again.describe()["dtype"] == "float32"
        half = load(tmp_path, dtype="bfloat16")
        assert half.encode(structured).tobytes() == encoder.encode(structured).tobytes()

    def test_settings_that_change_no_weights(self, saved: Path) -> None:
        encoder = load(saved, max_passages=3, passage_words=10, graph_kind="section", similarity="dot")
        assert encoder.segmenter.config.max_passages == 3
        assert encoder.describe()["graph_kind"] == "section"
        assert load(saved).describe()["graph_kind"] == "full"


class TestFolder:
    def test_contents(self, saved: Path) -> None:
        names = sorted(path.name for path in saved.iterdir())
        assert names == ["README.md", CONFIG_FILE, WEIGHTS_FILE, "tokenizer.json", "tokenizer_config.json"]
        modes = {path.stat().st_mode for path in saved.iterdir()}
        assert len(modes) == 1
        for path in saved.iterdir():
            # Zip archives and pickles begin with these bytes.
            assert not path.read_bytes().startswith((b"PK", b"\x80")), path.name

    def test_no_machine_paths(self, saved: Path, backbone_folder: BackboneFactory) -> None:
        folder = str(backbone_folder("bert").parent)
        for name in (CONFIG_FILE, "tokenizer_config.json", "README.md", "tokenizer.json"):
            text = (saved / name).read_text(encoding="utf-8")
            assert folder not in text
            assert str(saved) not in text
        assert json.loads((saved / CONFIG_FILE).read_text())["backbone"] == "tiny-bert"

    def test_card(self, saved: Path) -> None:
        card = (saved / "README.md").read_text(encoding="utf-8")
        assert card.startswith("---\nlibrary_name: graphdoc\n")
        assert "not trained to compare" in card and "| graph_layers | 2 |" in card and "| graph_kind | full |" in card
        config = DocumentConfig(encoder_config={"model_type": "bert"}, graph_layers=0, trained=True, max_passages=None)
        card = model_card(config, "plain")
        assert "| graph_layers | 0 |" in card and "| max_passages | null |" in card
        assert "not trained" not in card and "classes" not in card
        assert "| vector | 512 numbers |\n\n```python" in card
        card = model_card(DocumentConfig(labels=["rice & <b>koji</b>", "the\nsea", "a|b"]), "topics")
        assert "pipeline_tag: text-classification" in card and "encoder.predict([" in card
        assert r"| classes | one of 3: rice \& \<b\>koji\</b\>, the sea, a\|b |" in card
        labels = [f"class{number}" for number in range(MOST_CLASSES + 5)]
        card = model_card(DocumentConfig(labels=labels, multi_label=True), "many")
        assert f"any number of {MOST_CLASSES + 5}: class0, class1," in card
        assert f"class{MOST_CLASSES - 1} and 5 more |" in card

    @pytest.mark.parametrize(
        ("step", "kind"), [("weights", SafetensorError), ("tokenizer", OSError), ("card", KeyboardInterrupt)]
    )
    def test_an_interrupted_save_leaves_nothing(
        self, tiny_encoder: EncoderFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, kind: Any
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

    def test_a_target_that_is_a_file(self, tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        with pytest.raises(OutputError, match="file"):
            tiny_encoder().save_pretrained(tmp_path / "file")
        assert (tmp_path / "file").read_text() == "mine"


class TestForeignFiles:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("README.md", "# My notes\n\nlibrary_name: graphdoc\n"),
            (CONFIG_FILE, '{"model_type": "bert"}'),
            (WEIGHTS_FILE, "mine"),
        ],
    )
    def test_are_never_replaced(self, tiny_encoder: EncoderFactory, tmp_path: Path, name: str, content: str) -> None:
        (tmp_path / name).write_text(content)
        encoder = tiny_encoder()
        for updates in (None, trained_updates(encoder.model)):
            with pytest.raises(OutputError) as caught:
                save_checkpoint(encoder.model, encoder.tokenizer, tmp_path, name="one", updates=updates)
            assert str(tmp_path / name) in str(caught.value)
        assert [path.name for path in tmp_path.iterdir()] == [name]
        assert (tmp_path / name).read_text() == content

    def test_a_card_that_was_replaced(self, tiny_encoder: EncoderFactory, checkpoint: Path) -> None:
        before = {path.name: path.read_bytes() for path in checkpoint.iterdir()} | {"README.md": b"# Mine\n"}
        (checkpoint / "README.md").write_bytes(before["README.md"])
        with pytest.raises(OutputError, match=r"README\.md"):
            tiny_encoder(graph_layers=1).save_pretrained(checkpoint)
        assert {path.name: path.read_bytes() for path in checkpoint.iterdir()} == before


class TestSavingOver:
    def save(self, encoder: DocumentEncoder, folder: Path, kind: str) -> Path:
        updates = trained_updates(encoder.model) if kind == "updates" else None
        return save_checkpoint(encoder.model, encoder.tokenizer, folder, name="one", updates=updates)

    @pytest.mark.parametrize("kinds", [("whole", "updates"), ("updates", "whole"), ("whole", "whole")])
    def test_leaves_nothing_of_what_was_there(
        self, tiny_encoder: EncoderFactory, tmp_path: Path, kinds: tuple[str, str]
    ) -> None:
        first, second = kinds
        self.save(tiny_encoder("bert"), tmp_path / "over", first)
        self.save(tiny_encoder("bert"), tmp_path / "over", second)
        self.save(tiny_encoder("bert"), tmp_path / "fresh", second)
        files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("over", "fresh")]
        assert files[0] == files[1]

    def test_weights_beside_updates_are_refused(self, tiny_encoder: EncoderFactory, checkpoint: Path) -> None:
        self.save(tiny_encoder("bert"), checkpoint.with_name("updates"), "updates")
        shutil.copy(checkpoint.with_name("updates") / UPDATES_FILE, checkpoint)
        message = refusal(checkpoint)
        assert WEIGHTS_FILE in message
        assert UPDATES_FILE in message

    @pytest.mark.parametrize("kind", ["whole", "updates"])
    @pytest.mark.parametrize("moved", [0, 1, 3, 5])
    def test_interrupted_anywhere_never_loads_a_mix(
        self, tiny_encoder: EncoderFactory, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moved: int
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
            self.save(encoder, checkpoint, kind)
        except KeyboardInterrupt:
            if moved:
                assert "was interrupted" in refusal(checkpoint)
            else:
                assert load(checkpoint).model.config.graph_layers == 2
        monkeypatch.undo()
        self.save(encoder, checkpoint, "whole")
        assert load(checkpoint).model.config.graph_layers == 1
        assert sorted(path.name for path in checkpoint.iterdir()) == [
            "README.md", CONFIG_FILE, WEIGHTS_FILE, "tokenizer.json", TOKENIZER_FILE
        ]  # fmt: skip
