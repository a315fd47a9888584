from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_loading import refusal
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    GPT2Config,
    GPT2Model,
    PreTrainedConfig,
    PreTrainedModel,
    T5Config,
)
from typed import Backbones, Encoders, Log, Patch

from graphdoc.checkpoints.backbones import load_language_model_head
from graphdoc.checkpoints.contents import CONFIG_FILE, WEIGHTS_FILE, token_limit
from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.modeling.heads import NewHead, PretrainedHead

EncoderConfigFactory = Callable[..., PreTrainedConfig]


def test_weights_are_those_of_the_backbone(backbone: Path) -> None:
    pretrained = load_file(backbone / WEIGHTS_FILE)
    encoder = DocumentEncoder.from_backbone(backbone, device="cpu")
    weights = encoder.model.passage_encoder.transformer.state_dict()
    assert all(torch.equal(value, pretrained[key]) for key, value in weights.items())
    # A configuration may ask for plain tuples.
    values = json.loads((backbone / CONFIG_FILE).read_text())
    (backbone / CONFIG_FILE).write_text(json.dumps({**values, "return_dict": False}))
    again = DocumentEncoder.from_backbone(backbone, device="cpu")
    assert (again.encode("Rice is steamed.") == encoder.encode("Rice is steamed.")).all()


def test_the_passage_limit_is_the_backbones(encoder_name: str, tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder(encoder_name)
    limit = token_limit(encoder.model.config.encoder_config)
    assert limit == (78 if "roberta" in encoder_name else 80)
    assert encoder.segmenter.config.max_tokens == limit
    vectors = encoder.encode("word-" * 400, level="passage")
    assert len(vectors) > 1
    assert np.isfinite(vectors).all()


def test_what_is_no_backbone(saved: Path, tmp_path: Path) -> None:
    GPT2Model(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=20)).save_pretrained(tmp_path / "gpt2")
    T5Config().save_pretrained(tmp_path / "t5")
    for folder, named in ((saved, "from_pretrained"), (tmp_path / "gpt2", "gpt2"), (tmp_path / "t5", "t5")):
        with pytest.raises(ModelError, match=named):
            DocumentEncoder.from_backbone(folder)


@pytest.mark.parametrize("broken", ["tokenizer.json", WEIGHTS_FILE, CONFIG_FILE, "cut short", "a layer"])
def test_backbones_that_are_not_whole(backbone: Path, broken: str) -> None:
    named = str(backbone)
    if broken == "cut short":
        os.truncate(backbone / WEIGHTS_FILE, 500)
    elif broken == "a layer":
        weights = load_file(backbone / WEIGHTS_FILE)
        named = "encoder.layer.1."
        save_file({key: value for key, value in weights.items() if named not in key}, backbone / WEIGHTS_FILE)
    else:
        (backbone / broken).unlink()
    with pytest.raises(ModelError) as caught:
        DocumentEncoder.from_backbone(backbone)
    assert named in str(caught.value) and "\n" not in str(caught.value)


def language_model(config: PreTrainedConfig, folder: Path, without: tuple[str, ...] = ()) -> PreTrainedModel:
    """Saves a random language model as the hub would give it, and gives it; some weights are not in the file."""
    # Building a model changes its configuration.
    model: PreTrainedModel = AutoModelForMaskedLM.from_config(deepcopy(config)).eval()
    for name, weight in model.named_parameters():
        if "bias" in name:
            torch.nn.init.normal_(weight)
    model.save_pretrained(folder)
    path = folder / WEIGHTS_FILE
    kept = {name: weight for name, weight in load_file(path).items() if not name.startswith(without)}
    save_file(kept, path, {"format": "pt"})
    return model


def model_on(config: PreTrainedConfig, trained: PreTrainedModel) -> DocumentModel:
    model = DocumentModel(DocumentConfig(encoder_config=config, projection_size=8)).eval()
    model.passage_encoder.transformer.load_state_dict(trained.base_model.state_dict())
    return model


def test_logits_at_masked_places_are_those_of_the_language_model(
    tiny_encoder_config: EncoderConfigFactory, encoder_name: str, tmp_path: Path
) -> None:
    config = tiny_encoder_config(encoder_name)
    whole = language_model(config, tmp_path)
    model = model_on(config, whole)
    transformer = model.passage_encoder.transformer
    ids = torch.randint(4, 100, (3, 9))
    places = torch.tensor([0, 0, 2]), torch.tensor([1, 5, 7])
    embeddings = transformer.get_input_embeddings().weight
    for backbone in (None, str(tmp_path)):
        head = load_language_model_head(transformer, backbone)
        assert any(weight is embeddings for weight in head.parameters())
        model.training_parts["language_model"] = head
        names = {name for name, _ in model.named_parameters() if name.startswith("training_parts.")}
        own = sum(weight.numel() for name, weight in model.named_parameters() if name in names)
        # Two square layers and a bias; no second table.
        assert 24 * 24 < own < 2 * 24 * 24 + 100
    assert isinstance(head, PretrainedHead)
    with torch.no_grad():
        tokens = model.passage_encoder.tokens(ids, torch.ones_like(ids))
        logits, expected = head(tokens[places]), whole(ids).logits[places]
        assert head(tokens[:0, 0]).shape == (0, 100)
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
    assert logits.std() > 0.01


def test_a_language_model_loses_its_head_and_a_table_of_its_own_is_kept(
    tiny_encoder_config: EncoderConfigFactory, backbone: Path, tmp_path: Path
) -> None:
    config = tiny_encoder_config("roberta", tie_word_embeddings=False, vocab_size=400)
    whole = language_model(config, backbone)
    head = load_language_model_head(model_on(config, whole).passage_encoder.transformer, str(backbone))
    assert isinstance(head, PretrainedHead)
    tokens = torch.randn(2, 24)
    torch.testing.assert_close(head(tokens), whole.lm_head(tokens))
    loaded = DocumentEncoder.from_backbone(backbone, device="cpu").model.passage_encoder.transformer.state_dict()
    assert all(torch.equal(value, whole.base_model.state_dict()[key]) for key, value in loaded.items())


@pytest.mark.parametrize("case", ["encoder alone", "nowhere", "another model", "another width"])
def test_a_new_head_comes_with_a_warning(
    tiny_encoder_config: EncoderConfigFactory, tmp_path: Path, caplog: Log, case: str
) -> None:
    config = tiny_encoder_config("roberta")
    model = DocumentModel(DocumentConfig(encoder_config=config, projection_size=8))
    backbone = str(tmp_path / "nowhere") if case == "nowhere" else str(tmp_path)
    match case:
        case "encoder alone":
            language_model(config, tmp_path, ("lm_head",))
        case "another model":
            language_model(tiny_encoder_config("bert"), tmp_path)
        case "another width":
            language_model(tiny_encoder_config("roberta", hidden_size=16), tmp_path)
    with caplog.at_level(logging.WARNING, "graphdoc"):
        head = load_language_model_head(model.passage_encoder.transformer, backbone)

    assert isinstance(head, NewHead)
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    logits = head(torch.randn(5, 24))
    assert logits.shape == (5, 100)
    logits.sum().backward()
    weight: Any = model.passage_encoder.transformer.get_input_embeddings().weight
    assert float(weight.grad.abs().max()) > 0


TEXTS = ["Rice is steamed over water.", "Tides rise twice a day, and fall.", "A mould grows."]
PROMPTS = {"query": "query: ", "document": "passage: "}


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def model(tmp_path: Path, backbone_folder: Backbones) -> Callable[..., Path]:
    """Write the folder of an embedding model around a tiny encoder."""

    def make(
        pooling: dict[str, Any], *, dense: int = 0, normalized: bool = True, prompts: Any = None, limit: int = 0
    ) -> Path:
        folder = tmp_path / "embedding-model"
        shutil.copytree(backbone_folder("bert"), folder)
        kinds = ["Transformer", "Pooling", *(["Dense"] if dense else []), *(["Normalize"] if normalized else [])]
        modules = [
            {"idx": n, "path": f"{n}_{kind}" if n else "", "type": f"sentence_transformers.models.{kind}"}
            for n, kind in enumerate(kinds)
        ]
        write(folder / "modules.json", modules)
        write(folder / "1_Pooling" / "config.json", pooling)
        write(folder / "config_sentence_transformers.json", {"prompts": prompts or {}})
        write(folder / "sentence_bert_config.json", {"max_seq_length": limit} if limit else {})
        if dense:
            size = json.loads((folder / "config.json").read_text())["hidden_size"]
            sizes = {"in_features": size, "out_features": dense, "bias": True}
            tanh = {"activation_function": "torch.nn.modules.activation.Tanh"}
            write(folder / "2_Dense" / "config.json", {**sizes, **tanh})
            torch.manual_seed(0)
            weights = {"linear.weight": torch.randn(dense, size), "linear.bias": torch.randn(dense)}
            save_file(weights, folder / "2_Dense" / "model.safetensors")
        return folder

    return make


def by_hand(folder: Path, texts: list[str], pooling: str, *, dense: int, normalized: bool) -> np.ndarray:
    """The vectors of texts, each by itself and without padding."""
    tokenizer, transformer = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        with torch.no_grad():
            hidden = transformer(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        row = {"cls": hidden[0], "mean": hidden.mean(dim=0), "last": hidden[-1]}[pooling]
        if dense:
            weights = load_file(folder / "2_Dense" / "model.safetensors")
            row = torch.tanh(weights["linear.weight"] @ row + weights["linear.bias"])
        rows.append(normalize(row, dim=0) if normalized else row)
    return torch.stack(rows).numpy()


@pytest.mark.parametrize(
    ("written", "pooling", "dense", "normalized", "prompts"),
    [
        ({"pooling_mode": "cls"}, "cls", 0, True, None),
        ({"pooling_mode": "mean"}, "mean", 8, False, PROMPTS),
        ({"pooling_mode": "lasttoken"}, "last", 8, True, {"query": "query: ", "passage": "passage: "}),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean", 0, False, None),
    ],
)
def test_passage_vectors_are_those_of_the_model(
    model: Callable[..., Path], tmp_path: Path, written: Any, pooling: str, dense: int, normalized: bool, prompts: Any
) -> None:
    folder = model(written, dense=dense, normalized=normalized, prompts=prompts, limit=40)
    encoder = DocumentEncoder.from_pretrained(folder, device="cpu")
    assert encoder.name == "embedding-model" and encoder.model.config.passage_tokens == 40
    sizes = {"dense": dense, "normalized": normalized}
    document, query = ("passage: ", "query: ") if prompts else ("", "")
    expected = by_hand(folder, [document + text for text in TEXTS], pooling, **sizes)
    for level in ("passage", "sentence"):
        found = np.concatenate(encoder.encode(TEXTS, level=level))  # type: ignore[call-overload]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    asked = by_hand(folder, [query + text for text in TEXTS], pooling, **sizes)
    np.testing.assert_allclose(encoder.encode_query(TEXTS), asked, atol=1e-5)
    # A prompt is no part of a passage: where it stands and how long it is does not change.
    plain = DocumentEncoder.from_pretrained(folder, device="cpu", document_prompt="")
    (passage,), (other,) = (one.segment(Document.from_text(TEXTS[1])).passages for one in (encoder, plain))
    assert passage == other and (passage.start, passage.end) == (0, len(TEXTS[1]))
    two = encoder.encode(Document("two", (Section(TEXTS[0]), Section(TEXTS[1]))))
    np.testing.assert_allclose(two, expected[:2].mean(axis=0), atol=1e-5)
    assert DocumentEncoder.from_backbone(folder, device="cpu", projection_size=None).model.config.pooling == pooling
    saved = encoder.save_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(DocumentEncoder.from_pretrained(saved, device="cpu").encode(TEXTS), expected, atol=1e-5)


def test_a_bare_name_is_looked_for_as_by_sentence_transformers(
    model: Callable[..., Path], tmp_path: Path, monkeypatch: Patch
) -> None:
    folder = model({"pooling_mode": "mean"}, dense=8)
    for name in ("sentence-transformers--tiny", "bert-base-uncased"):
        stored = tmp_path / "hub" / f"models--{name}"
        shutil.copytree(folder, stored / "snapshots" / ("0" * 40))
        (stored / "refs").mkdir()
        (stored / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    whole = DocumentEncoder.from_pretrained("sentence-transformers/tiny", device="cpu")
    assert DocumentEncoder.from_pretrained("tiny", device="cpu").describe() == whole.describe()
    assert DocumentEncoder.from_backbone("tiny", device="cpu", projection_size=None).model.config.pooling == "mean"
    # A name that is older than organizations, and the name of a folder.
    assert DocumentEncoder.from_pretrained("bert-base-uncased", device="cpu").name == "bert-base-uncased"
    assert "sentence-transformers/tinny" in refusal("tinny")
    monkeypatch.chdir(folder.parent)
    assert DocumentEncoder.from_pretrained(folder.name, device="cpu").hidden_size == 8


def test_what_cannot_be_read_is_named(model: Callable[..., Path]) -> None:
    folder = model({"pooling_mode": "cls"}, dense=8, prompts=PROMPTS)
    modules = json.loads((folder / "modules.json").read_text())
    dense = json.loads((folder / "2_Dense" / "config.json").read_text())
    wrong: list[tuple[str, Any, str]] = [
        ("modules.json", "[", "modules.json"),
        ("modules.json", {"idx": 0}, "modules.json"),
        ("modules.json", [*modules, {"type": "custom.code.Whitening", "path": "4_W"}], "Whitening"),
        ("modules.json", [{**modules[0], "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"}], "MLM"),
        ("modules.json", [{**modules[0], "type": "custom_code.Transformer"}, *modules[1:]], "custom_code.Transformer"),
        ("modules.json", [{**modules[0], "path": "0_Transformer"}, *modules[1:]], "0_Transformer"),
        ("modules.json", [modules[0], {"type": "pylate.models.Dense.Dense", "path": "1_Dense"}], "late interaction"),
        ("config_sentence_transformers.json", {"truncate_dim": 4}, "truncate_dim"),
        ("modules.json", [modules[0], {**modules[1], "path": "../elsewhere"}], "../elsewhere"),
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}, "weightedmean"),
        ("1_Pooling/config.json", {}, "1_Pooling/config.json"),
        ("config.json", {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}, "custom code"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, "max_tokens"),
        ("1_Pooling/config.json", {"pooling_mode": "mean", "include_prompt": False}, "prompt"),
        ("2_Dense/config.json", {**dense, "activation_function": "torch.nn.modules.activation.ReLU"}, "tanh"),
    ]
    for file, content, named in wrong:
        kept = (folder / file).read_text()
        (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
        assert named in refusal(folder), (file, content)
        (folder / file).write_text(kept)
    write(folder / "modules.json", [one for one in modules if "Dense" not in one["type"]])
    assert "projection" in refusal(folder, projection_size=4)
    write(folder / "modules.json", modules)
    (folder / "2_Dense" / "model.safetensors").write_bytes(b"damaged")
    assert "2_Dense" in refusal(folder)
