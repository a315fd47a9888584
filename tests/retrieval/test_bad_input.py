"""What people give by mistake, and what others do to an index: one line with the fix, or a documented result."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import DocumentError, GraphdocError, RetrievalError, SettingsError
from graphdoc.retrieval.connection import wait_for
from graphdoc.retrieval.filters import MOST_FIELDS


def one_line_of(error: pytest.ExceptionInfo[GraphdocError]) -> str:
    text = str(error.value)
    assert "\n" not in text and ".rs:" not in text and "/registry/" not in text
    return text


@pytest.mark.parametrize("by", ["hybrid", "words", "vectors"])
def test_odd_queries(read_index: DocumentIndex, by: Any) -> None:
    for empty in ("", " \u3000\n"):
        with pytest.raises(SettingsError, match="empty"):
            read_index.search(empty, by=by)
    for odd in ("the of and", "?! ---", "潮汐は一日に Приливы", "tides\0 rise", "tides \ud800", 'a\' OR "1" +(:^2~'):
        found = read_index.search(odd, by=by)
        assert len({hit.id for hit in found}) == len(found) <= len(read_index)
        json.dumps(found.to_dict(explain=True), allow_nan=False)
    assert not read_index.search("the of and", by="words").hits
    long = read_index.search(" ".join(f"word{number}" for number in range(20_000)) + " tides", by=by)
    assert any("19,001" in warning for warning in long.warnings)
    assert len(read_index.search("tides", k=1_000, by=by)) <= len(read_index)
    with pytest.raises(SettingsError, match=f"k={2**70}"):
        read_index.search("tides", k=2**70, by=by)


def test_small_indexes(place: str, encoder: DocumentEncoder, documents: list[Document]) -> None:
    index = DocumentIndex.create(place, encoder)
    assert index.update([]).changed == 0
    index.maintain()
    for query in ("tides", documents[0]):
        assert "the index is empty" in index.search(query).warnings  # type: ignore[arg-type]
    index.update(documents[:1])
    assert [hit.id for hit in index.search("tides")] == [documents[0].id]
    assert not index.search(documents[0]).hits


@pytest.mark.parametrize(
    "id", ["a'\"\\;%_\n\t\x1f\x7f\u202e.", "i" * 10_000, "nul\0nul", "half\ud800", "😀" * 50, "a\x1fpassage\x1f000001"]
)
def test_odd_ids(place: str, encoder: DocumentEncoder, id: str) -> None:
    index = DocumentIndex.create(place, encoder)
    made = Document(id, [Section("Tides rise.")])
    index.update([made])
    assert id in index and index.document(id) == made
    (hit,) = index.search("tides")
    assert hit.id == made.id and hit.explain().words
    assert index.update([replace(made, title="Other")]).replaced == 1
    assert index.delete(id) == 1 and not len(index)


def test_ids_that_are_no_text(index: DocumentIndex) -> None:
    for call in (index.delete, index.document):
        for wrong in (3, None):
            with pytest.raises(SettingsError, match=str(wrong)):
                call(wrong)  # type: ignore[operator]
    assert index.delete("nowhere") == 0


def test_odd_metadata(place: str, encoder: DocumentEncoder) -> None:
    index = DocumentIndex.create(place, encoder)
    text = [Section("Some text. Some text.")] * 3

    def made(id: str, **metadata: Any) -> Document:
        return Document(id, text, metadata=metadata)

    odd = made("odd", a=math.nan, b=math.inf, c=2**63, d="half \ud800", e=["\ud800"], f=1.0, **{"k\ud800": "x", "": 2})
    index.update([odd, made("list", tags=["x"]), made("huge", f=2**80)])
    assert index.document("odd").metadata["d"] == odd.metadata["d"] and index.document("huge").metadata["f"] == 2**80
    assert [hit.id for hit in index.search("text", where="f = 1.0")] == ["odd"]
    before = index.columns
    many = {f"field{number}": number for number in range(100_000)}
    for wrong, key in (
        (made("many", **many), f"{MOST_FIELDS:,}"),
        (made("misfit", tags=3), "tags"),
    ):
        with pytest.raises(DocumentError, match=key) as error:
            index.update([wrong])
        assert wrong.id in one_line_of(error)
        assert index.update([wrong], on_error="skip").skipped
    assert index.columns == before and len(index) == 3


def test_a_hit_whose_document_is_gone_cannot_be_explained(index: DocumentIndex, documents: list[Document]) -> None:
    found = [hit for by in ("words", "vectors") for hit in index.search("tides rice", by=by)]  # type: ignore[arg-type]
    index.delete("tides")
    index.update([replace(documents[1], title="Changed")])
    for hit in found:
        if hit.id in ("tides", "rice"):
            with pytest.raises(RetrievalError, match="search again") as error:
                hit.explain()
            assert hit.id in one_line_of(error)
        else:
            hit.explain()


@pytest.mark.parametrize("part", ["data", "_versions", "_indices"])
@pytest.mark.parametrize("how", ["missing", "empty"])
def test_a_damaged_index(index: DocumentIndex, encoder: DocumentEncoder, part: str, how: str) -> None:
    index.maintain()
    for path in (Path(index.place) / "documents.lance" / part).rglob("*"):
        if path.is_file() and how == "missing":
            path.unlink()
        elif path.is_file():
            path.write_bytes(b"")
    with pytest.raises(RetrievalError) as error:
        again = DocumentIndex.open(index.place, encoder)
        again.search("tides")
        list(again.rows())
    assert index.place in one_line_of(error)


@pytest.mark.parametrize("missing", ["_versions", "_versions/*.manifest"])
def test_what_is_left_of_an_index_is_not_overwritten(
    index: DocumentIndex, encoder: DocumentEncoder, documents: list[Document], missing: str
) -> None:
    table, copy = Path(index.place) / "documents.lance", Path(index.place).with_name("copy")
    shutil.copytree(table, copy)
    for path in table.glob(missing):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert DocumentIndex.exists(index.place)
    with pytest.raises(RetrievalError) as opened:
        DocumentIndex.open(index.place, encoder)
    with pytest.raises(RetrievalError) as made:
        DocumentIndex.create(index.place, encoder)
    assert all(index.place in one_line_of(error) for error in (opened, made))
    shutil.copytree(copy, table, dirs_exist_ok=True)
    again = DocumentIndex.open(index.place, encoder)
    assert [again.document(document.id) for document in documents] == documents


@pytest.mark.parametrize("size", [0, 50, None])
def test_a_version_that_is_cut_short_or_missing_is_named_and_the_one_before_it_read(
    index: DocumentIndex,
    encoder: DocumentEncoder,
    documents: list[Document],
    size: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    index.update([replace(documents[0], title="Changed")], maintain=False)
    newest = min((Path(index.place) / "documents.lance" / "_versions").glob("*.manifest"))
    newest.unlink() if size is None else newest.write_bytes(newest.read_bytes()[:size])
    again = DocumentIndex.open(index.place, encoder)
    assert index.place in caplog.text and again.document("tides") == documents[0]
    report = again.update([replace(documents[0], title="Changed")])
    assert report.replaced == 1 and len(again) == 4
    caplog.clear()
    assert DocumentIndex.open(index.place, encoder).document("tides").title == "Changed"
    assert not caplog.text


@pytest.mark.parametrize("size", [50, None])
def test_an_index_of_which_several_versions_are_missing_is_refused(
    index: DocumentIndex, encoder: DocumentEncoder, documents: list[Document], size: int | None
) -> None:
    newest = sorted((Path(index.place) / "documents.lance" / "_versions").glob("*.manifest"))[:2]
    for path in newest:
        path.unlink() if size is None else path.write_bytes(path.read_bytes()[:size])
    before = sorted(Path(index.place).rglob("*"))
    with pytest.raises(RetrievalError) as error:
        DocumentIndex.open(index.place, encoder).update(documents)
    assert index.place in one_line_of(error) and sorted(Path(index.place).rglob("*")) == before


def test_a_making_that_was_cut_short_is_made_again(tmp_path: Path, encoder: DocumentEncoder) -> None:
    place = tmp_path / "index"
    (place / "documents.lance" / "_versions").mkdir(parents=True)
    (place / "documents.lance" / "_transactions").mkdir()
    assert not DocumentIndex.exists(place)
    with pytest.raises(RetrievalError, match="graphdoc index"):
        DocumentIndex.open(place, encoder)
    index = DocumentIndex.create(place, encoder)
    for column in ("text", "key"):
        wait_for(index._store._table.drop_index(f"{column}_idx"))  # type: ignore[attr-defined]
    again = DocumentIndex.open(place, encoder)
    again.update([Document("a", [Section("Tides rise.")])])
    assert [hit.id for hit in again.search("tides", by="words")] == ["a"]


def test_an_index_of_a_newer_version(tmp_path: Path, read_index: DocumentIndex) -> None:
    import lancedb

    store: Any = read_index._store
    record = {**store.record, "format_version": 99, "words": {"future": 1}}
    schema = store.schema.with_metadata({b"graphdoc": json.dumps(record)})
    lancedb.connect(str(tmp_path / "newer")).create_table("documents", schema=schema)
    with pytest.raises(RetrievalError, match="99"):
        DocumentIndex.open(tmp_path / "newer")


def test_places_that_cannot_be(tmp_path: Path, encoder: DocumentEncoder) -> None:
    for place in (str(tmp_path / ("a" * 300)), str(tmp_path / "a\0b"), str(tmp_path / "a\ud800")):
        for call in (lambda place: DocumentIndex.create(place, encoder), DocumentIndex.open):
            with pytest.raises(RetrievalError) as error:
                call(place)
            one_line_of(error)
        assert not DocumentIndex.exists(place)
    with pytest.raises(RetrievalError, match="s3://bucket/index"):
        DocumentIndex.create("foo://x/y", encoder)


def test_what_the_store_refuses_at_once_is_one_line_too(read_index: DocumentIndex) -> None:
    half = "title = '\ud800'"
    store = read_index._store
    vector = np.ones(store.schema.field("passage_vector").type.list_size, np.float32)
    for work in (
        lambda: list(store.batches(["id"], half)),
        lambda: store.select(["id"], half),
        lambda: store.by_words("tides", "text", 3, half),
        lambda: store.by_vector(vector, "passage_vector", 3, half),
    ):
        with pytest.raises(SettingsError, match="surrogate") as error:
            work()
        one_line_of(error)
