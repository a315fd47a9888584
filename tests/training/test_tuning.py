from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from corpus_examples import SettingsFactory

from graphdoc.checkpoints.save import save_checkpoint
from graphdoc.corpus.corpus import prepare_corpus
from graphdoc.corpus.parts import prepare_passage_vectors
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.segmentation.segmenter import Segmenter
from graphdoc.training.optimizer import merged_weights, prepare_tuning, trained_updates, trained_weights

TABLES = {"structural_embeddings.sections", "structural_embeddings.chunks"}


@pytest.fixture
def encoder(tiny_encoder: Callable[..., DocumentEncoder]) -> DocumentEncoder:
    """CoLDE in small."""
    settings = {"projection_size": None, "graph_layers": 0, "section_lstm_size": 6, "section_projection_size": 5}
    return tiny_encoder("bert", structural_embeddings=True, readout="sections", **settings)


@pytest.mark.parametrize(("tune", "is_trained"), [("full", True), ("lora", True), ("frozen", False)])
def test_structural_embeddings_are_trained_with_the_encoder(encoder: Any, tune: str, is_trained: bool) -> None:
    if tune == "lora":
        pytest.importorskip("peft")
    prepare_tuning(encoder.model, tune)  # type: ignore[arg-type]
    assert (trained_weights(encoder.model).keys() >= TABLES) == is_trained
    assert encoder.model.trains_passage_vectors == is_trained
    assert "readout.lstm.weight_ih_l0" in trained_weights(encoder.model)


@pytest.mark.parametrize("tune", ["lora", "frozen"])
def test_updates_hold_all_parts_of_colde(
    encoder: DocumentEncoder,
    tune: str,
    backbone_folder: Callable[[str], Path],
    random_document: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if tune == "lora":
        pytest.importorskip("peft")
    model = encoder.model
    prepare_tuning(model, tune)  # type: ignore[arg-type]
    batch = GraphBatch.from_documents(
        [random_document([0, 0, 1]), random_document([0, 1, 2], seed=1)], "full", split=True
    )
    before = {name: weight.detach().clone() for name, weight in trained_weights(model).items()}
    optimizer = torch.optim.Adam(trained_weights(model).values(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        model(batch).sections.mul(torch.randn(5, 5)).sum().backward()
        optimizer.step()
    moved = {name for name, weight in trained_weights(model).items() if not torch.equal(weight, before[name])}
    # A shift of all keys changes no softmax.
    assert moved >= before.keys() - {"readout.attention.key.bias"}
    assert (moved >= TABLES) == (tune == "lora")

    save_checkpoint(model, encoder.tokenizer, tmp_path / "updates", name="updates", updates=trained_updates(model))
    save_checkpoint(model, encoder.tokenizer, tmp_path / "whole", name="whole", weights=merged_weights(model))
    # A backbone that was a folder is remembered by its name.
    monkeypatch.chdir(backbone_folder("bert").parent)
    with torch.no_grad():
        expected = model.eval()(batch)
        for folder in ("updates", "whole"):
            found = DocumentEncoder.from_pretrained(tmp_path / folder, device="cpu").model(batch)
            torch.testing.assert_close(found.sections, expected.sections, atol=1e-5, rtol=1e-5)


def test_a_frozen_encoder_has_no_lasting_vectors_with_structural_embeddings(
    encoder: DocumentEncoder, settings: SettingsFactory, segmenter: Segmenter
) -> None:
    corpus = prepare_corpus(settings(), segmenter)
    with pytest.raises(ModelError, match="structural_embeddings change passage vectors"):
        prepare_passage_vectors(corpus, encoder.model)
