"""Sentences in an index: what is kept, and that changes keep them true."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from typed import Documents, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.retrieval.sentences import stored_sentences
from graphdoc.retrieval.table import SENTENCE_COLUMNS
from graphdoc.segmentation.segmenter import paragraphs_of


def kept(index: DocumentIndex) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Vectors and places of the sentences of every document."""
    rows = index.rows(["id", *SENTENCE_COLUMNS], level="document")
    found = {}
    for batch in rows:
        ids, stored, counts = stored_sentences(batch)
        ends = np.cumsum(counts)[:-1]
        for id, *own in zip(ids, np.split(stored.vectors, ends), np.split(stored.places, ends), strict=True):
            found[id] = tuple(own)
    return found


@pytest.fixture
def sentences(place: str, encoder: DocumentEncoder, documents: Documents) -> DocumentIndex:
    """An index of the four documents with their sentences."""
    made = DocumentIndex.create(place, encoder, sentences=True)
    made.update(documents)
    return made


def test_every_sentence_is_kept(
    sentences: DocumentIndex, place: str, encoder: DocumentEncoder, documents: Documents
) -> None:
    opened = DocumentIndex.open(place, encoder)
    found = kept(opened)
    assert opened.paragraph == "section" and sorted(found) == sorted(document.id for document in documents)
    for segmented, vectors in encoder.stream(documents, level="sentence"):
        own, places = found[segmented.document.id]
        np.testing.assert_allclose(own, (vectors / vectors.norm(dim=1, keepdim=True)).numpy(), atol=1e-3)
        spans = [(one.section, one.start, one.end) for one in segmented.passages]
        assert [tuple(row) for row in places[:, :3].tolist()] == spans
        assert places[:, 3].tolist() == paragraphs_of(segmented, "section", encoder.segmenter).tolist()


def test_only_what_changed_is_encoded(sentences: DocumentIndex, documents: Documents) -> None:
    before = kept(sentences)
    report = sentences.update([*documents[:1], Document("rice", [Section("Rice is washed. It is steamed.")])])
    assert (report.unchanged, report.replaced, report.encoded_sentences) == (1, 1, 2)
    after = kept(sentences)
    assert len(after["rice"][1]) == 2
    for id in ("tides", "marsh", "lathe"):
        np.testing.assert_array_equal(before[id][0], after[id][0])
    sentences.delete(["rice", "tides"], maintain=True)
    assert sorted(kept(sentences)) == ["lathe", "marsh"]


def test_an_interrupted_update_leaves_whole_documents(
    place: str, encoder: DocumentEncoder, documents: Documents, monkeypatch: Patch
) -> None:
    index = DocumentIndex.create(place, encoder, sentences=True)
    index.update(documents[:2])

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("graphdoc.retrieval.updating.encode_sentences", Mock(side_effect=KeyboardInterrupt))
        index.update(documents)
    assert sorted(kept(index)) == sorted(document.id for document in documents[:2])
    report = index.update(documents)
    assert (report.unchanged, report.added) == (2, 2) and len(kept(index)) == 4


def test_an_index_without_sentences_has_no_columns_for_them(
    tmp_path: Path, encoder: DocumentEncoder, index: DocumentIndex, documents: Documents
) -> None:
    by_lines = DocumentIndex.create(tmp_path / "lines", encoder, sentences="blank_line")
    by_lines.update(Document("one", [Section("Rice is washed.\n\nRice is steamed. It cools.")]))
    assert by_lines.paragraph == "blank_line" and kept(by_lines)["one"][1][:, 3].tolist() == [0, 1, 1]
    assert index.paragraph is None and not set(SENTENCE_COLUMNS) & set(index.columns)
    changed = Document("rice", documents[1].sections[:2], metadata={"sentence_vectors": "a field"})
    assert index.update([changed]).encoded_sentences == 0
    assert [hit.id for hit in index.search("rice", where="sentence_vectors = 'a field'")] == ["rice"]
