from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.segmentation.segmenter import SegmentationConfig, Segmenter

DOCUMENTS = [
    Document("a", (Section("Rice is washed. It is steamed for long.", heading="Rice"), Section("Koji grows."))),
    Document("b", (Section("Tides rise and fall. " * 30),)),
]


def test_a_sentence_without_a_share_of_its_document_is_encoded_as_a_query_is(mini: DocumentEncoder) -> None:
    own = DocumentEncoder.from_pretrained("mini", device="cpu", sentence_document=0)
    found = own.encode(DOCUMENTS, level="sentence")
    assert [len(vectors) for vectors in found] == [3, 30]
    alone = own.encode_query(["Rice is washed.", "It is steamed for long.", "Koji grows."])
    np.testing.assert_allclose(found[0], alone, atol=1e-5)
    # Padding and neighbours change nothing.
    np.testing.assert_allclose(own.encode(DOCUMENTS[0], level="sentence"), found[0], atol=1e-5)


def test_all_sentences_are_encoded_whatever_the_limit_of_passages(mini: DocumentEncoder) -> None:
    limited = DocumentEncoder(mini.model, mini.tokenizer)
    limited.segmenter = Segmenter(mini.segmenter.tokenizer, SegmentationConfig(max_passages=1))
    assert len(limited.segment(DOCUMENTS[1]).passages) == 1
    assert len(limited.encode(limited.segment(DOCUMENTS[1]), level="sentence")) == 30


def test_vectors_are_those_of_a_comparison(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    encoder = tiny_encoder(structural_embeddings=True, readout="sections", graph_layers=0)
    for table in encoder.model.structural_embeddings.parameters():  # type: ignore[union-attr]
        torch.nn.init.normal_(table)
    compared = encoder.encode_levels(DOCUMENTS[0], sentences=True).sentence_vectors
    assert compared is not None
    np.testing.assert_allclose(encoder.encode(DOCUMENTS[0], level="sentence"), compared, atol=1e-5)
    assert encoder.vector_size("sentence") == compared.shape[1]


def test_a_folder_holds_the_place_of_every_sentence(mini: DocumentEncoder, tmp_path: Path) -> None:
    mini.encode_to_disk(DOCUMENTS, tmp_path / "vectors", level="sentence")
    (shard,) = (tmp_path / "vectors").glob("*.parquet")
    rows = pq.read_table(shard).to_pylist()
    assert [(row["id"], row["section"], row["sentence"], row["start"], row["end"]) for row in rows[:4]] == [
        ("a", 0, 0, 0, 15), ("a", 0, 1, 16, 39), ("a", 1, 2, 0, 11), ("b", 0, 0, 0, 20),
    ]  # fmt: skip
    expected = np.concatenate(mini.encode(DOCUMENTS, level="sentence"))
    np.testing.assert_allclose(np.array([row["vector"] for row in rows]), expected, atol=1e-5)


def test_a_sentence_has_the_place_of_its_passage(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    encoder = tiny_encoder(structural_embeddings=True, readout="sections", graph_layers=0)
    tables = encoder.model.structural_embeddings
    assert tables is not None
    torch.nn.init.normal_(tables.chunks)
    assert len(encoder.segment(DOCUMENTS[0]).passages) == 2
    in_second = encoder.encode(DOCUMENTS[0], level="sentence")[2]
    alone = Document("c", (Section("Koji grows."),))
    assert np.abs(encoder.encode(alone, level="sentence")[0] - in_second).max() > 1e-3
    with torch.no_grad():
        tables.chunks[0] = tables.chunks[1]
    np.testing.assert_allclose(encoder.encode(alone, level="sentence")[0], in_second, atol=1e-5)


def test_vectors_that_are_no_numbers_are_refused(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    encoder = tiny_encoder()
    with torch.no_grad():
        next(encoder.model.passage_encoder.parameters()).fill_(float("nan"))
    for level in ("document", "sentence"):
        with pytest.raises(ModelError):
            encoder.encode(DOCUMENTS, level=level)
