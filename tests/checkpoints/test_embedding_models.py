from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_loading import refusal
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder

TEXTS = ["Rice is steamed over water.", "Tides rise twice a day, and fall.", "A mould grows."]
PROMPTS = {"query": "query: ", "document": "passage: "}


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def model(tmp_path: Path, backbone_folder: Callable[[str], Path]) -> Callable[..., Path]:
    """Write the folder of an embedding model around a tiny encoder."""

    def make(
        pooling: dict[str, Any],
        *,
        dense: int = 0,
        normalized: bool = True,
        prompts: Any = None,
        limit: int | None = None,
    ) -> Path:
        folder = tmp_path / "embedding-model"
        shutil.copytree(backbone_folder("bert"), folder)
        kinds = ["Transformer", "Pooling", *(["Dense"] if dense else []), *(["Normalize"] if normalized else [])]
        modules = [
            {
                "idx": number,
                "path": f"{number}_{kind}" if number else "",
                "type": f"sentence_transformers.models.{kind}",
            }
            for number, kind in enumerate(kinds)
        ]
        write(folder / "modules.json", modules)
        write(folder / "1_Pooling" / "config.json", pooling)
        write(folder / "config_sentence_transformers.json", {"prompts": prompts or {}})
        write(folder / "sentence_bert_config.json", {"max_seq_length": limit} if limit else {})
        if dense:
            size = json.loads((folder / "config.json").read_text())["hidden_size"]
            sizes = {"in_features": size, "out_features": dense, "bias": True}
            write(
                folder / "2_Dense" / "config.json",
                {**sizes, "activation_function": "torch.nn.modules.activation.Tanh"},
            )
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
    model: Callable[..., Path],
    tmp_path: Path,
    written: dict[str, Any],
    pooling: str,
    dense: int,
    normalized: bool,
    prompts: Any,
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
    saved = encoder.save_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(DocumentEncoder.from_pretrained(saved, device="cpu").encode(TEXTS), expected, atol=1e-5)


def test_an_untrained_graph_takes_the_pooling_of_the_model(model: Callable[..., Path]) -> None:
    folder = model({"pooling_mode": "mean"})
    encoder = DocumentEncoder.from_backbone(folder, device="cpu", projection_size=None)
    assert encoder.model.config.pooling == "mean" and encoder.model.config.graph_layers == 2
    assert DocumentEncoder.from_backbone(folder, device="cpu", pooling="cls").model.config.pooling == "cls"


def test_what_cannot_be_read_is_named(model: Callable[..., Path]) -> None:
    folder = model({"pooling_mode": "cls"}, dense=8, prompts=PROMPTS)
    modules = json.loads((folder / "modules.json").read_text())
    dense = json.loads((folder / "2_Dense" / "config.json").read_text())
    wrong: list[tuple[str, Any, str]] = [
        ("modules.json", "[", "modules.json"),
        ("modules.json", {"idx": 0}, "modules.json"),
        ("modules.json", [*modules, {"type": "custom.code.Whitening", "path": "4_W"}], "Whitening"),
        (
            "modules.json",
            [{**modules[0], "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"}],
            "MLM",
        ),
        ("modules.json", [modules[0], {**modules[1], "path": "../elsewhere"}], "../elsewhere"),
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}, "weightedmean"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, "max_tokens"),
        ("1_Pooling/config.json", {"pooling_mode": "mean", "include_prompt": False}, "prompt"),
        ("2_Dense/config.json", {**dense, "activation_function": "torch.nn.modules.activation.ReLU"}, "tanh"),
    ]
    for file, content, named in wrong:
        kept = (folder / file).read_text()
        (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
        assert named in refusal(folder), (file, content)
        (folder / file).write_text(kept)
    assert "projection" in refusal(model_without_dense(folder), projection_size=4)
    (folder / "2_Dense" / "model.safetensors").write_bytes(b"damaged")
    assert "2_Dense" in refusal(folder)


def model_without_dense(folder: Path) -> Path:
    other = folder.with_name("plain-model")
    shutil.copytree(folder, other)
    modules = [one for one in json.loads((other / "modules.json").read_text()) if not one["type"].endswith("Dense")]
    write(other / "modules.json", modules)
    return other
