from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_loading import load, refusal

from graphdoc.checkpoints.contents import UPDATES_FILE, WEIGHTS_FILE
from graphdoc.checkpoints.save import model_card, save_checkpoint
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError, SettingsError
from graphdoc.settings.run import ModelSettings
from graphdoc.training.optimizer import prepare_tuning, trained_updates

EncoderFactory = Callable[..., DocumentEncoder]
MEAN = {"readout": "mean", "graph_layers": 0, "projection_size": None, "pooling": "mean"}


def centred(encoder: DocumentEncoder, *, seed: int = 1) -> DocumentEncoder:
    centre = 0.3 * torch.randn(encoder.model.config.node_size, generator=torch.Generator().manual_seed(seed))
    encoder.model.set_centre(centre, ["Wikipedia | 2007"])
    return encoder


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def test_it_is_taken_off_passages_of_unit_length_at_every_level(
    tiny_encoder: EncoderFactory, structured: list[Document]
) -> None:
    plain, encoder = tiny_encoder("bert", **MEAN), centred(tiny_encoder("bert", **MEAN))
    assert encoder.model.centre is not None
    centre = encoder.model.centre.numpy()

    def expected(vectors: np.ndarray) -> np.ndarray:
        return unit(unit(vectors) - centre)

    for document in structured:
        passages = expected(plain.encode(document, level="passage"))
        np.testing.assert_allclose(encoder.encode(document, level="passage"), passages, atol=1e-5)
        np.testing.assert_allclose(encoder.encode(document), passages.mean(axis=0), atol=1e-5)
        sections = np.array([span.section for span in encoder.segment(document).passages])
        means = [passages[sections == number].mean(axis=0) for number in np.unique(sections)]
        np.testing.assert_allclose(encoder.encode(document, level="section"), means, atol=1e-5)
        sentences = expected(plain.encode(document, level="sentence"))
        np.testing.assert_allclose(encoder.encode(document, level="sentence"), sentences, atol=1e-5)
    queries = ["Rice is steamed.", "The tide came twice."]
    np.testing.assert_allclose(
        encoder.encode_query(queries), [expected(vector) for vector in plain.encode_query(queries)], atol=1e-5
    )


@pytest.mark.parametrize(("readout", "layers"), [("mean", 0), ("document_node", 2), ("sections", 2)])
def test_contributions_add_up_to_the_score(
    tiny_encoder: EncoderFactory, structured: list[Document], readout: str, layers: int
) -> None:
    encoder = centred(tiny_encoder("bert", readout=readout, graph_layers=layers))
    comparison = encoder.compare(structured[0], structured[1])
    assert comparison.passage_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)
    assert comparison.section_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)


def test_it_is_saved_and_loaded_and_can_be_left_out(
    tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path
) -> None:
    encoder = centred(tiny_encoder("bert"))
    encoder.save_pretrained(tmp_path)
    again, without = load(tmp_path), load(tmp_path, centre=None)
    assert torch.equal(again.model.centre, encoder.model.centre)
    assert again.describe()["centre"] == ["Wikipedia | 2007"]
    assert np.array_equal(again.encode(structured), encoder.encode(structured))
    assert "centre" not in without.describe()
    assert np.array_equal(without.encode(structured), tiny_encoder("bert").encode(structured))
    assert "Wikipedia \\| 2007" in model_card(encoder.model.config, "name")


def test_a_file_of_updates_has_it(tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path) -> None:
    encoder = centred(tiny_encoder("bert"))
    prepare_tuning(encoder.model, "lora", 2)
    updates = trained_updates(encoder.model)
    save_checkpoint(encoder.model, encoder.tokenizer, tmp_path, name="updates", updates=updates)
    assert (tmp_path / UPDATES_FILE).exists() and torch.equal(updates["centre"], encoder.model.centre)


def test_asked_for_where_there_is_none(tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
    tiny_encoder("bert").save_pretrained(tmp_path)
    assert (tmp_path / WEIGHTS_FILE).exists()
    message = refusal(tmp_path, centre=["mine"])
    assert "has no centre" in message and "graphdoc fit" in message
    with pytest.raises(ModelError, match="centre"):
        DocumentEncoder.from_pretrained("mini", centre=["mine"], device="cpu")
    with pytest.raises(SettingsError, match=r"settings\.centre"):
        ModelSettings(settings={"centre": ["mine"]})
