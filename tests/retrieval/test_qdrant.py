"""What is particular to Qdrant: servers, changes that readers see at once, and filters."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import RetrievalError, SettingsError

pytest.importorskip("qdrant_edge", reason="needs the extra graphdoc[qdrant]")

from qdrant_stand_in import KEY, qdrant_stand_in

from graphdoc.retrieval.qdrant_filters import Filters
from graphdoc.retrieval.qdrant_points import FolderPoints

# The stand-in is on this machine.
pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Host and port of a server."""
    pytest.importorskip("qdrant_client", reason="needs the extra graphdoc[qdrant]")
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    with qdrant_stand_in(tmp_path / "server") as address:
        yield address


def test_a_collection_of_a_server_answers_like_a_folder(
    server: str, tmp_path: Path, encoder: DocumentEncoder, documents: list[Document]
) -> None:
    place = f"qdrant://{server}/papers"
    assert not DocumentIndex.exists(place)
    indexes = [DocumentIndex.create(one, encoder) for one in (f"qdrant:{tmp_path / 'index'}", place)]
    for index in indexes:
        index.update(documents)
        assert index.update([replace(documents[0], title="Changed")]).replaced == 1
        assert index.delete("rice") == 1
        index.maintain()
    there = indexes[1]
    for query, where in (
        ("spring tides sea sea", None),
        (documents[2], "title LIKE '%e' AND year < 2050"),
        ("a", None),
    ):
        ours, theirs = (one.search(query, where=where).to_dict(explain=True) for one in indexes)  # type: ignore[arg-type]
        assert ours["hits"] == theirs["hits"] and (ours["hits"] or query == "a")
    rows = [{row["key"]: row for batch in one.rows() for row in batch.to_pylist()} for one in indexes]
    assert rows[0] == rows[1] and len(rows[0]) > 10
    again = DocumentIndex.open(f"qdrant:http://{server}/papers", encoder)
    again.update(documents)
    assert len(there) == 4 and there.document("rice") == documents[1]


def test_servers_that_cannot_be_used(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RetrievalError, match="graphdoc index"):
        DocumentIndex.open(f"qdrant://{server}/nothing")
    for wrong in (f"qdrant://{server}", f"qdrant:ftp://{server}/x", "qdrant:///x"):
        with pytest.raises(RetrievalError, match="host:6333/collection"):
            DocumentIndex.open(wrong)
    monkeypatch.setenv("QDRANT_API_KEY", "wrong")
    with pytest.raises(RetrievalError, match="QDRANT_API_KEY") as error:
        DocumentIndex.open(f"qdrant://{server}/papers")
    assert "\n" not in str(error.value)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(RetrievalError, match="does not answer") as error:
            DocumentIndex.open(f"qdrant://127.0.0.1:{silent.getsockname()[1]}/papers")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("step", ["upsert", "set_payload", "_commit"])
def test_a_change_that_is_cut_short_is_not_seen_and_is_undone(
    tmp_path: Path, encoder: DocumentEncoder, documents: list[Document], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    index = DocumentIndex.create(f"qdrant:{tmp_path / 'index'}", encoder)
    index.update(documents, maintain=True)
    before = {row["key"]: row for batch in index.rows() for row in batch.to_pylist()}
    engine: Any = index._engine

    def cut(*arguments: object, **settings: object) -> None:
        monkeypatch.undo()
        if step != "_commit":
            work(*arguments, **settings)
        raise KeyboardInterrupt

    target = engine if step == "_commit" else engine._points
    work = getattr(target, step)
    changed = [replace(documents[0], sections=(Section("Quartz."),)), Document("new", [Section("Quartz.")])]
    # The first change of columns is for what a writer before may have left.
    engine._undo()
    monkeypatch.setattr(engine, "_undo", lambda: None)
    monkeypatch.setattr(target, step, cut)
    with pytest.raises(KeyboardInterrupt):
        index.update(changed)
    again = DocumentIndex.open(index.place, encoder)
    assert {row["key"]: row for batch in again.rows() for row in batch.to_pylist()} == before
    assert not again.search("quartz", by="words").hits and again.state().documents == 4
    again.update(changed[1:], maintain=True)
    assert len(again) == 5 and again.document("tides") == documents[0]
    assert engine._points.count({}) == again.state().rows + 1


def test_filters_mean_what_they_mean_in_sql(tmp_path: Path, encoder: DocumentEncoder) -> None:
    values: list[dict[str, Any]] = [
        {"year": 1990, "price": 1.5, "is_new": True, "date": "1990-02-03", "tags": ["a", "b"]},
        {"year": 2000, "price": 2.0, "is_new": False, "date": "2000-02-03"},
        {"title": "none"},
    ]
    index = {
        engine: DocumentIndex.create(f"{engine}:{tmp_path / engine}", encoder) for engine in ("lancedb", "qdrant")
    }
    for one in index.values():
        one.update([Document(str(place), [Section("A text.")], metadata=own) for place, own in enumerate(values)])
    for where in (
        "year = 1990", "year != 1990", "NOT year = 1990", "year IS NULL", "year IS NOT NULL",
        "NOT (year > 1995 OR is_new)",
        "year IN (1990, 1995)", "year NOT IN (1990)", "year BETWEEN 1990 AND 1999", "NOT year BETWEEN 1990 AND 1999",
        "price = 1.5", "price <= 2", "is_new", "NOT is_new", "is_new = false", "is_new IS NOT TRUE OR year > 1",
        "1 = 1",
        "date >= '1995-01-01'", "date LIKE '%-02-03'", "date NOT LIKE '19%'", "id IN ('0', '2')", "id < '1'",
        "array_has(tags, 'b')", "NOT array_has(tags, 'b')", "2000 <= year", "(year = 1990) AND (price > 1 OR 1 = 2)",
        "'a' = 'b'", "price > -3", "level = 'passage'", "year = 1990 OR id = '1' AND year = 3",
    ):  # fmt: skip
        found = [
            sorted(str(row["key"]) for batch in one.rows(where=where) for row in batch.to_pylist())
            for one in index.values()
        ]
        assert found[0] == found[1], where
    filters = Filters(index["qdrant"]._engine.schema, ["passage_vector"], lambda column: [])
    for wrong in ("text = 'x'", "text LIKE '%x%'", "year = id", "lower(id) = 'x'", "tags = 'a'",
                  "array_has(year, 'a')", "id = 3", "is_new > 3", "'a' = 3",
                  "year = 1e400", f"year IN (1990, {10**20})", f"year BETWEEN 1 AND {2**63}", f"price > -{'9' * 5000}",
                  "price = 1e400",
                  "(" * 3000 + "year = 1" + ")" * 3000):  # fmt: skip
        with pytest.raises(SettingsError) as error:
            filters.of(wrong)
        assert "\n" not in str(error.value)


def test_a_folder_is_for_one_process(
    tmp_path: Path, encoder: DocumentEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = DocumentIndex.create(f"qdrant:{tmp_path / 'index'}", encoder)
    points: Any = index._engine._points  # type: ignore[attr-defined]
    assert FolderPoints.open(tmp_path / "index" / "documents.qdrant", "") is points
    monkeypatch.setattr(points, "_process", 1)
    with pytest.raises(RetrievalError, match="spawn"):
        len(index)
    # Another process does not share what this one has open.
    FolderPoints._open.clear()
    with pytest.raises(RetrievalError, match="another process has it open"):
        DocumentIndex.open(index.place)


def test_words_that_count_more_often_score_as_in_the_other_engine(tmp_path: Path, encoder: DocumentEncoder) -> None:
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(80)]
    shares = 1 / np.arange(1, 81)
    documents = [
        Document.from_text(
            " ".join(random.choice(words, random.integers(20, 80), p=shares / shares.sum())), id=f"d{n}"
        )
        for n in range(60)
    ]
    asked = Document.from_text(" ".join(random.choice(words, 400, p=shares / shares.sum())), id="asked")
    found = []
    for place in (str(tmp_path / "lance.index"), f"qdrant:{tmp_path / 'qdrant'}"):
        index = DocumentIndex.create(place, encoder)
        index.update(documents)
        hits = index.search(asked, 5, by="words", words_unit="document", depth=5)
        found.append({hit.id: hit.score for hit in hits})
        for hit in hits:
            assert sum(part.part for part in hit.explain().words) == pytest.approx(hit.score, rel=1e-4)
    # Terms of several counts, and rows beyond those that a search fetches.
    assert len(found[0]) == 5 and found[1] == pytest.approx(found[0], rel=1e-4)
