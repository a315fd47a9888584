"""What repeats in an index is left out of its documents, whatever the order in which they came."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collections_of_topics import LICENCE, sentences

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.segmentation import find_repeats


def document_of(number: int) -> Document:
    sections = [Section(sentences(number, 12), heading="About"), Section(LICENCE, heading="Licence")]
    return Document(f"d{number}", sections, metadata={"year": 1990 + number, "deep": {"a": (1, 2)}})


def rows_of(index: DocumentIndex) -> dict[str, dict[str, Any]]:
    rows = {row["key"]: row for batch in index.rows() for row in batch.to_pylist()}
    return dict(sorted(rows.items()))


def same(a: DocumentIndex, b: DocumentIndex) -> None:
    left, right = rows_of(a), rows_of(b)
    assert left.keys() == right.keys()
    for key, row in left.items():
        for name, value in row.items():
            other = right[key][name]
            if isinstance(value, list) and value and isinstance(value[0], float):
                np.testing.assert_allclose(value, other, atol=2e-3)
            elif not isinstance(value, bytes):
                assert value == other, (key, name)


@pytest.fixture
def make(encoder: DocumentEncoder, tmp_path: Path) -> Callable[..., DocumentIndex]:
    return lambda name, **options: DocumentIndex.create(tmp_path / name, encoder, **options)


def test_order_of_documents_makes_no_difference(make: Callable[..., DocumentIndex], encoder: DocumentEncoder) -> None:
    documents = [document_of(number) for number in range(6)]
    at_once, one_by_one = make("a"), make("b")
    report = at_once.update(documents)
    assert (report.added, report.rebuilt) == (6, 6)
    rebuilt = [one_by_one.update([document], maintain=True).rebuilt for document in documents[::-1]]
    # With the third there are three documents that have it.
    assert rebuilt == [0, 0, 3, 1, 1, 1]
    same(at_once, one_by_one)
    expected = encoder.without_repeats(find_repeats(documents)).encode(documents, normalize_embeddings=True)
    columns = ["id", "document_vector", "coverage"]
    rows = [row for batch in at_once.rows(columns, level="document") for row in batch.to_pylist()]
    for row in rows:
        number = int(row["id"][1:])
        np.testing.assert_allclose(row["document_vector"], expected[number], atol=1e-5)
        assert json.loads(row["coverage"])["left_out"]["repeated"] == len(LICENCE.strip())
    assert not any("Permission" in row["text"] for row in rows_of(at_once).values() if row["text"])
    # Nothing is left to do, and what has not changed is known as such.
    assert at_once.update(documents, maintain=True).unchanged == 6


def test_what_no_longer_repeats_counts_again(make: Callable[..., DocumentIndex]) -> None:
    index, fresh = make("a"), make("b")
    index.update([document_of(number) for number in range(4)])
    index.delete(["d0", "d1"], maintain=True)
    fresh.update([document_of(number) for number in (2, 3)])
    same(index, fresh)


def test_a_document_that_is_compared_has_the_passages_that_the_index_has(
    make: Callable[..., DocumentIndex], encoder: DocumentEncoder
) -> None:
    index = make("a", sentences=True)
    index.update([document_of(number) for number in range(4)])
    found = index.encoded("d1", sentences=True)
    assert {span.section for span in found.segmented.passages} == {0}
    assert found.sentences is not None and {span.section for span in found.sentences} == {0}
    assert encoder.compare(found, index.encoded("d2")).document <= 1
    assert not any(hit.id == "d1" and "Permission" in str(hit) for hit in index.search("permission granted").hits)


def test_an_index_can_keep_what_repeats(make: Callable[..., DocumentIndex]) -> None:
    index = make("a", repeats=True)
    # A field of this name is metadata there.
    documents = [replace(document_of(number), metadata={"repeated": "every spring"}) for number in range(4)]
    assert index.update(documents).rebuilt == 0 and "repeats" not in index.record
    assert {span.section for span in index.encoded("d1").segmented.passages} == {0, 1}
    hits = index.search("permission granted").hits
    assert hits and all(hit.metadata["repeated"] == "every spring" for hit in hits)
