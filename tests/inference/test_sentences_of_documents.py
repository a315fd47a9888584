"""Sentences with a share of their document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor
from typed import Encoders, Patch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError, OutputError
from graphdoc.inference.levels import passage_means
from graphdoc.inference.pipeline import EncodingPipeline
from graphdoc.retrieval.index import DocumentIndex
from graphdoc.retrieval.sentences import stored_sentences
from graphdoc.retrieval.table import SENTENCE_COLUMNS
from graphdoc.segmentation.segmenter import SegmentationConfig, Segmenter
from graphdoc.segmentation.spans import SegmentedDocument
from graphdoc.vectors.folder import Manifest

Floats = npt.NDArray[Any]
SHARE = 0.6
DOCUMENTS = [
    Document("koji", (Section("Rice is washed. It is steamed. " * 9, heading="Rice"), Section("Koji grows.")), "Koji"),
    Document("tides", (Section("The moon pulls the sea. It rises twice a day. " * 12),), title="Tides"),
    Document("short", (Section("Rice is washed."),)),
]


def unit(vectors: Floats) -> Floats:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def blend(sentences: Floats, whole: Floats, share: float = SHARE) -> Floats:
    return unit(unit(sentences) + share * unit(whole))


@pytest.fixture(scope="module")
def mini_with(mini: DocumentEncoder) -> Encoders:
    """Makes the encoder that is shipped with other settings: ``mini_with(sentence_document=0)``."""
    return partial(DocumentEncoder.from_pretrained, "mini", device="cpu", dtype="float32")


@pytest.mark.parametrize(
    "settings",
    [
        {"graph_layers": 0, "readout": "mean"},
        {"projection_size": None, "normalize_passages": True, "readout": "initial_mean"},
        {"graph_layers": 2, "readout": "document_node"},
        {"structural_embeddings": True, "readout": "sections", "graph_layers": 0},
    ],
)
def test_a_sentence_has_its_share_of_the_mean_of_the_passages(tiny_encoder: Encoders, settings: dict[str, Any]) -> None:
    plain, encoder = tiny_encoder(**settings), tiny_encoder(**settings, sentence_document=SHARE)
    encoder.model.load_state_dict(plain.model.state_dict())
    for document in DOCUMENTS:
        alone, found = (one.encode(document, level="sentence") for one in (plain, encoder))
        initial = plain.model.initial_passages(plain.run([plain.segment(document)]).passage_vectors).detach().numpy()
        np.testing.assert_allclose(found, blend(alone, initial.mean(axis=0)), atol=1e-6)
        # A document of one sentence is that sentence.
        assert np.allclose(found, unit(alone), atol=1e-6) is (document.id == "short")
        for level in ("document", "section", "passage"):
            assert np.array_equal(encoder.encode(document, level=level), plain.encode(document, level=level))


def test_words_are_added_too(mini_with: Encoders) -> None:
    plain, encoder = mini_with(sentence_document=0), mini_with(sentence_document=SHARE)
    assert plain.lexical is not None
    width = plain.model.config.node_size
    for document in DOCUMENTS:
        alone, found, whole = (
            plain.encode(document, level="sentence"),
            encoder.encode(document, level="sentence"),
            plain.encode(document),
        )
        passages = plain.encode(document, level="passage")[:, :width]
        np.testing.assert_allclose(found[:, :width], blend(alone[:, :width], unit(passages).mean(axis=0)), atol=1e-6)
        np.testing.assert_allclose(found[:, width:], alone[:, width:] + SHARE * whole[width:], atol=1e-6)
    unknown = encoder.encode(Document("none", (Section("Zzqx vvkp. Qqvx."),)), level="sentence")
    assert np.isfinite(unknown).all() and not unknown[:, width:].any()


def test_neighbours_and_windows_change_nothing(tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder(sentence_document=SHARE)
    many = [replace(DOCUMENTS[number % 3], id=str(number)) for number in range(90)]
    for workers in (0, 1):
        found = [vectors.numpy() for _, vectors in encoder.stream(iter(many), level="sentence", workers=workers)]
        assert len(found) == 90
        for number in (0, 1, 2, 64, 89):
            np.testing.assert_allclose(found[number], encoder.encode(many[number], level="sentence"), atol=1e-5)


def test_comparisons_and_indexes_have_the_same(tiny_encoder: Encoders, tmp_path: Path, monkeypatch: Patch) -> None:
    encoder = tiny_encoder(sentence_document=SHARE)
    expected = encoder.encode(DOCUMENTS, level="sentence")
    for document, own in zip(DOCUMENTS, expected, strict=True):
        compared = encoder.encode_levels(document, sentences=True).sentence_vectors
        assert compared is not None
        np.testing.assert_allclose(compared, own, atol=1e-5)
    known: list[bool] = []

    def watched(pipeline: EncodingPipeline, passages: Sequence[SegmentedDocument], *options: Any) -> Tensor:
        known.extend(one.passage_vectors is not None for one in passages)
        return passage_means(pipeline, passages, *options)

    monkeypatch.setattr("graphdoc.inference.levels.passage_means", watched)
    index = DocumentIndex.create(tmp_path / "index", encoder, sentences=True)
    index.update(DOCUMENTS)
    # An index has encoded the passages, and encodes none of them again for their sentences.
    assert known == [True] * len(DOCUMENTS)
    (rows,) = index.rows(["id", *SENTENCE_COLUMNS], level="document")
    ids, sentences, counts = stored_sentences(rows)
    kept = dict(zip(ids, np.split(sentences.vectors, np.cumsum(counts)[:-1]), strict=True))
    for document, own in zip(DOCUMENTS, expected, strict=True):
        np.testing.assert_allclose(kept[document.id], unit(own), atol=1e-3)
    hits = index.search(DOCUMENTS[0], by="sentences")
    scores = encoder.compare(DOCUMENTS[0], DOCUMENTS[1], sentences=True).sentence_scores
    assert scores is not None and {hit.id for hit in hits} == {"tides", "short"}
    assert {hit.id: hit.score for hit in hits}["tides"] == pytest.approx(scores["sentences"], abs=2e-3)


def test_subtopics_are_those_of_the_sentences_alone(tiny_encoder: Encoders) -> None:
    encoder, plain = (tiny_encoder(sentence_document=one) for one in (SHARE, 0))
    found, expected = (one.compare(*DOCUMENTS[:2], sentences=True, subtopics="vectors") for one in (encoder, plain))
    assert found.subtopics is not None and expected.subtopics is not None
    assert found.subtopics.to_dict() == expected.subtopics.to_dict()
    assert not np.allclose(found.sentences, expected.sentences, atol=1e-3)


def test_what_depends_on_it_names_it(tiny_encoder: Encoders, tmp_path: Path) -> None:
    encoder, plain = (tiny_encoder(sentence_document=one) for one in (SHARE, 0))
    assert encoder.describe()["sentence_document"] == SHARE and "sentence_document" not in plain.describe()
    for level, is_named in (("document", False), ("passage", False), ("sentence", True)):
        encoder.encode_to_disk(DOCUMENTS, tmp_path / level, level=level)  # type: ignore[arg-type]
        assert ("sentence_document" in Manifest.read(tmp_path / level).model) is is_named
    plain.encode_to_disk(DOCUMENTS, tmp_path / "document", level="document")
    with pytest.raises(OutputError, match=r"sentence_document was 0\.6"):
        plain.encode_to_disk(DOCUMENTS, tmp_path / "sentence", level="sentence")
    DocumentIndex.create(tmp_path / "index", encoder, sentences=True).update(DOCUMENTS)
    with pytest.raises(ModelError, match=r"sentence_document was 0\.6"):
        DocumentIndex.open(tmp_path / "index", plain)
    for one, other in ((encoder, plain), (plain, encoder)):
        with pytest.raises(ModelError, match="sentence_document"):
            other.compare(one.encode_levels(DOCUMENTS[0], sentences=True), DOCUMENTS[1], sentences=True)


PAIR = [
    Document("a", (Section("Rice is washed. It is steamed for long.", heading="Rice"), Section("Koji grows."))),
    Document("b", (Section("Tides rise and fall. " * 30),)),
]


def test_a_sentence_without_a_share_of_its_document_is_encoded_as_a_query_is(mini: DocumentEncoder) -> None:
    own = DocumentEncoder.from_pretrained("mini", device="cpu", sentence_document=0)
    found = own.encode(PAIR, level="sentence")
    assert [len(vectors) for vectors in found] == [3, 30]
    alone = own.encode_query(["Rice is washed.", "It is steamed for long.", "Koji grows."])
    np.testing.assert_allclose(found[0], alone, atol=1e-5)
    # Padding and neighbours change nothing.
    np.testing.assert_allclose(own.encode(PAIR[0], level="sentence"), found[0], atol=1e-5)
    # All sentences are encoded whatever the limit of passages.
    own.segmenter = Segmenter(own.segmenter.tokenizer, SegmentationConfig(max_passages=1))
    segmented = own.segment(PAIR[1])
    assert len(segmented.passages) == 1 and len(own.encode(segmented, level="sentence")) == 30


def test_a_folder_holds_the_place_of_every_sentence(mini: DocumentEncoder, tmp_path: Path) -> None:
    mini.encode_to_disk(PAIR, tmp_path / "vectors", level="sentence")
    (shard,) = (tmp_path / "vectors").glob("*.parquet")
    rows = pq.read_table(shard).to_pylist()
    assert [(row["id"], row["section"], row["sentence"], row["start"], row["end"]) for row in rows[:4]] == [
        ("a", 0, 0, 0, 15), ("a", 0, 1, 16, 39), ("a", 1, 2, 0, 11), ("b", 0, 0, 0, 20),
    ]  # fmt: skip
    expected = np.concatenate(mini.encode(PAIR, level="sentence"))
    np.testing.assert_allclose(np.array([row["vector"] for row in rows]), expected, atol=1e-5)


def test_a_sentence_has_the_place_of_its_passage(tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder(structural_embeddings=True, readout="sections", graph_layers=0)
    tables = encoder.model.structural_embeddings
    assert tables is not None
    torch.nn.init.normal_(tables.chunks)
    assert len(encoder.segment(PAIR[0]).passages) == 2
    in_second = encoder.encode(PAIR[0], level="sentence")[2]
    alone = Document("c", (Section("Koji grows."),))
    compared = encoder.encode_levels(PAIR[0], sentences=True).sentence_vectors
    np.testing.assert_allclose(encoder.encode(PAIR[0], level="sentence"), compared, atol=1e-5)
    assert np.abs(encoder.encode(alone, level="sentence")[0] - in_second).max() > 1e-3
    with torch.no_grad():
        tables.chunks[0] = tables.chunks[1]
    np.testing.assert_allclose(encoder.encode(alone, level="sentence")[0], in_second, atol=1e-5)
