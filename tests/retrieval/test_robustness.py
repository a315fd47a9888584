"""What happens to an index from outside (kills, damage, other writers, forks, full disks) and by mistakes."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from forked import PATIENCE, run
from typed import Documents, Encoders, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import DocumentError, GraphdocError, ModelError, OutputError, RetrievalError, SettingsError
from graphdoc.retrieval.table import MOST_FIELDS
from graphdoc.runtime import files
from graphdoc.runtime.files import FolderLock

JOB = Path(__file__).parents[1] / "support" / "index_job.py"


@pytest.mark.parametrize("kills", [2, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_lose_nothing_acknowledged(place: str, tmp_path: Path, encoder: DocumentEncoder, kills: int) -> None:
    checkpoint = encoder.save_pretrained(tmp_path / "model")
    # On a busy machine a kill and its check take half a minute.
    result = json.loads(run(JOB, checkpoint, place, 0, kills, patience=PATIENCE + 60 * kills).stdout.splitlines()[-1])
    print(result)
    assert result["kills"] >= kills and result["acknowledged"] and result["cut_short"]


def test_a_second_writer_of_a_folder_is_refused(index: DocumentIndex, documents: Documents, monkeypatch: Patch) -> None:
    monkeypatch.setattr(files, "LONGEST_WAIT_SECONDS", 0.05)
    changed = [replace(documents[0], title="Changed")]
    with FolderLock(Path(index.path), "an update"):
        for write in (lambda: index.update(changed), lambda: index.delete("rice"), index.maintain):
            with pytest.raises(OutputError, match=index.path):
                write()
        # Readers go on.
        assert [index.document(one.id) for one in documents] == documents
    assert index.update(changed).replaced == 1 and index.document("tides").title == "Changed"


def test_a_reader_sees_what_others_have_changed(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents, tiny_encoder: Callable[..., Any]
) -> None:
    reader = DocumentIndex.open(index.path, encoder)
    index.delete("rice")
    for read in (reader.document, reader.encoded):
        with pytest.raises(RetrievalError, match="rice"):
            read("rice")
    index.update([documents[1]])
    assert "rice" in reader
    index.delete("rice")
    assert "rice" not in reader
    index.update([replace(documents[0], title="Changed", metadata={"new": 1})])
    assert "new" in reader.columns
    assert reader.document("tides").title == reader.encoded("tides").segmented.document.title == "Changed"
    # Another model has made it anew.
    shutil.rmtree(index.path)
    DocumentIndex.create(index.path, tiny_encoder("roberta", graph_layers=0, readout="mean")).update(documents)
    with pytest.raises(RetrievalError, match="again"):
        reader.search("tides", by="words")


def test_readers_see_whole_documents_while_one_writes_and_maintains(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents
) -> None:
    long = replace(documents[0], sections=documents[0].sections * 3)
    counts = {len(encoder.segment(one).passages) for one in (documents[0], long)}
    reader = DocumentIndex.open(index.path, encoder)
    seen: list[tuple[int, bool]] = []
    failed: list[BaseException] = []
    over = threading.Event()

    def read() -> None:
        try:
            while not over.is_set() or len(seen) < 3:
                hits = [hit.id for hit in reader.search("tides rise at new moon", by="words")]
                seen.append(
                    (len(reader._store.select(["number"], "level = 'passage'", ids=["tides"])), "tides" in hits)
                )
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for one in (long, documents[0], long, documents[0]):
        index.update([one], maintain=True)
    over.set()
    thread.join()
    assert not failed and len(counts) == 2 and all(found in counts and is_hit for found, is_hit in seen)


@pytest.mark.parametrize(("part", "how"), [("data", "missing"), ("_indices", "empty")])
def test_a_damaged_index(index: DocumentIndex, encoder: DocumentEncoder, part: str, how: str) -> None:
    index.maintain()
    for path in (Path(index.path) / "documents.lance" / part).rglob("*"):
        if path.is_file() and how == "missing":
            path.unlink()
        elif path.is_file():
            path.write_bytes(b"")
    with pytest.raises(RetrievalError) as error:
        again = DocumentIndex.open(index.path, encoder)
        again.search("tides")
        list(again.rows())
    assert index.path in str(error.value)


@pytest.mark.parametrize("missing", ["_versions", "_versions/*.manifest"])
def test_what_is_left_of_an_index_is_not_overwritten(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents, missing: str
) -> None:
    table, copy = Path(index.path) / "documents.lance", Path(index.path).with_name("copy")
    shutil.copytree(table, copy)
    for path in table.glob(missing):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert DocumentIndex.exists(index.path)
    with pytest.raises(RetrievalError) as opened:
        DocumentIndex.open(index.path, encoder)
    with pytest.raises(RetrievalError) as made:
        DocumentIndex.create(index.path, encoder)
    assert all(index.path in str(error.value) for error in (opened, made))
    shutil.copytree(copy, table, dirs_exist_ok=True)
    again = DocumentIndex.open(index.path, encoder)
    assert [again.document(document.id) for document in documents] == documents


def test_a_making_that_was_cut_short_is_made_again(tmp_path: Path, encoder: DocumentEncoder) -> None:
    place = tmp_path / "index"
    (place / "documents.lance" / "_versions").mkdir(parents=True)
    (place / "documents.lance" / "_transactions").mkdir()
    assert not DocumentIndex.exists(place)
    with pytest.raises(RetrievalError, match="graphdoc index"):
        DocumentIndex.open(place, encoder)
    index = DocumentIndex.create(place, encoder)
    for column in ("text", "key"):
        index._store._do(lambda name=f"{column}_idx": index._store._table.drop_index(name))
    again = DocumentIndex.open(place, encoder)
    again.update([Document("a", [Section("Tides rise.")])])
    assert [hit.id for hit in again.search("tides", by="words")] == ["a"]


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Nobody may write into a folder; who may do everything becomes somebody who may not."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_folder_that_may_not_be_written(encoder: DocumentEncoder, documents: Documents) -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        index = DocumentIndex.create(f"{name}/index", encoder)
        index.update(documents[:2])
        (Path(index.path) / ".lock").unlink(missing_ok=True)
        (Path(name) / "other").mkdir()
        with without_rights(Path(name)):
            assert index.search("tides", by="words")[0].id == "tides"
            for write in (lambda: index.update(documents), lambda: DocumentIndex.create(f"{name}/other", encoder)):
                with pytest.raises(GraphdocError, match="written") as error:
                    write()
                assert name in str(error.value)
        index.update(documents)
        assert len(index) == 4


def test_a_full_disk_loses_nothing(index: DocumentIndex, encoder: DocumentEncoder, documents: Documents) -> None:
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    more = [Document(f"more {number}", [Section(f"Quartz number {number}. " * 400)]) for number in range(3)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(RetrievalError, match="nothing is lost") as error:
            index.update(more)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert "\n" not in str(error.value) and index.path in str(error.value)
    for one in (index, DocumentIndex.open(index.path, encoder)):
        # What was not acknowledged may be there, but as a whole.
        assert [one.document(document.id) for document in documents] == documents and len(one) in (4, 7)
    report = index.update(more)
    assert report.added + report.unchanged == 3 and len(index) == 7


@pytest.mark.filterwarnings("ignore:lancedb fork support is experimental")
def test_a_forked_worker_is_sent_away(read_index: DocumentIndex) -> None:
    expected = [hit.id for hit in read_index.search("spring tides", by="words")]
    worker = os.fork()
    if not worker:
        status = 1
        try:
            read_index.search("spring tides", by="words")
        except RetrievalError as error:
            status = 0 if read_index.path in str(error) and "spawn" in str(error) else 2
        finally:
            os._exit(status)
    assert expected and os.waitpid(worker, 0)[1] == 0
    assert [hit.id for hit in read_index.search("spring tides", by="words")] == expected


SOURCE = Document("new", [Section("The sea floods a marsh.")])
Call = Callable[[], object]


@pytest.mark.parametrize(
    ("query", "settings", "named"),
    [
        ("", {}, "empty"), (" \u3000\n", {"by": "words"}, "empty"), (3, {}, "3 (int)"), ("a", {"top_k": 0}, "top_k=0"),
        ("a", {"top_k": 2**70}, f"top_k={2**70}"), ("a", {"by": "magic"}, "magic"), ("a", {"fusion": "sum"}, "sum"),
        ("a", {"weight": 2}, "weight=2"), ("a", {"passages": -1}, "passages=-1"),
        ("a", {"words_level": "word"}, "word"), ("a", {"by": "sentences"}, "Document"),
        (SOURCE, {"by": "sentences", "pool": 0}, "pool=0"), (SOURCE, {"by": "flat", "direction": "up"}, "up"),
        (SOURCE, {"by": "flat", "normalization": "z"}, "'z'"),
        ("a", {"where": "yaer = 3"}, "yaer"),
    ],
)  # fmt: skip
def test_searches(read_index: DocumentIndex, query: Any, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_index.search(query, **settings)
    assert named in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("by", ["hybrid", "words", "vectors"])
def test_odd_queries(read_index: DocumentIndex, by: Any) -> None:
    for odd in ("the of and", "?! ---", "潮汐は一日に Приливы", "tides\0 rise", "tides \ud800", 'a\' OR "1" +(:^2~'):
        found = read_index.search(odd, by=by)
        assert len({hit.id for hit in found}) == len(found) <= len(read_index)
        json.dumps(found.to_dict(explain=True), allow_nan=False)
    for nothing in ("the of and", "xylophonist"):
        found = read_index.search(nothing, by="words")
        assert not found.hits and found.warnings
    long = read_index.search(" ".join(f"word{number}" for number in range(20_000)) + " tides" * 99, by=by)
    assert by == "vectors" or any("tid" in word.term for hit in long for word in hit.explain().words[:1])
    assert len(read_index.search("tides", top_k=1_000, by=by)) <= len(read_index)


def test_small_indexes(place: str, encoder: DocumentEncoder, documents: Documents) -> None:
    index = DocumentIndex.create(place, encoder)
    assert index.update([]).changed == 0
    index.maintain()
    for query in ("tides", documents[0]):
        assert "the index is empty" in index.search(query).warnings
    index.update(documents[:1])
    assert [hit.id for hit in index.search("tides")] == [documents[0].id] and not index.search(documents[0]).hits


@pytest.mark.parametrize(
    "id", ["a'\"\\;%_\n\t\x7f\u202e.", "i" * 10_000, "nul\0nul half\ud800", "a\x1fpassage\x1f000001"]
)
def test_odd_ids(place: str, encoder: DocumentEncoder, id: str) -> None:
    index = DocumentIndex.create(place, encoder)
    made, other = Document(id, [Section("Tides rise.")]), Document("a", [Section("Rice.")])
    index.update([made, other])
    assert id in index and index.document(id) == made
    hit = index.search("tides", by="words")[0]
    assert hit.id == made.id and hit.explain().words
    assert index.update([replace(made, title="Other")]).replaced == 1
    assert index.delete(id) == 1 and len(index) == 1 and "a" in index


def test_documents_that_cannot_be_indexed(index: DocumentIndex, documents: Documents) -> None:
    text = [Section("Some text.")]
    empty, twice = Document("empty", [Section("  ")]), replace(documents[0], id="new")
    misfit = Document("misfit", text, metadata={"width": 2, "year": "unknown"})
    many = Document("many", text, metadata={f"field{number}": number for number in range(MOST_FIELDS + 1)})
    before = index.columns
    for wrong, named in (
        ([empty], "empty"), ([twice, twice], "new"), ([misfit], "year"), ([3], "3"), ([many], f"{MOST_FIELDS:,}"),
        ([Document("list", text, metadata={"tags": 3})], "tags"),
        ([Document("large", text, metadata={"year": 1e20})], "year"),
    ):  # fmt: skip
        with pytest.raises(DocumentError, match=named):
            index.update(wrong)
    report = index.update([empty, twice, misfit, twice, many, 3], on_error="skip")
    # What came before a mistake is kept.
    assert (report.added, report.unchanged) == (0, 1) and len(report.skipped) == 5
    assert "new" in index and "misfit" not in index and index.columns == before
    # What one that was skipped has is no column yet.
    index.update([misfit, replace(twice, id="newer", metadata={"width": 3})], on_error="skip")
    assert [hit.id for hit in index.search("tides", where="width = 3")] == ["newer"]


def test_types_of_metadata(place: str, encoder: DocumentEncoder) -> None:
    index, text = DocumentIndex.create(place, encoder), [Section("Some text.")]
    plain = {"Year of print": 1990, "id": "x", "share": 0.5, "is_new": True}
    deep = {"none": None, "list": [1, 2], "deep": {"a": 1}, "huge": 2**63, "nan": math.nan, "infinite": -math.inf}
    odd = {"half": "half \ud800", "halves": ["\ud800"], "k\ud800": "x", "": 2}
    index.update([Document("a", text, metadata={**plain, **deep, **odd})])
    assert not set(deep) & set(index.fields) and "" in index.fields
    later = {"Year of print": 2001.0, "added": "later", "share": 1, "is_new": math.nan, "huge": 2**63 - 1}
    index.update([Document("b", text, metadata=later)])
    hits = index.search("text", by="words")
    metadata = {hit.id: hit.metadata for hit in hits}
    assert plain.items() <= metadata["a"].items()
    assert metadata["b"] == {"Year of print": 2001, "added": "later", "share": 1.0, "huge": 2**63 - 1}
    json.loads(hits.to_json(f"{place}.json").read_text(), parse_constant=pytest.fail)
    kept = index.document("a").metadata
    assert kept["huge"] == 2**63 and math.isnan(kept["nan"]) and kept["half"] == "half \ud800"
    for where, id in (("is_new", "a"), ("share = 0.5", "a"), (f"huge = {2**63 - 1}", "b")):
        assert [hit.id for hit in index.search("text", where=where)] == [id]


def test_a_hit_whose_document_is_gone_cannot_be_explained(index: DocumentIndex, documents: Documents) -> None:
    found = [hit for by in ("words", "vectors") for hit in index.search("tides rice", by=by)]
    index.delete("tides")
    index.update([replace(documents[1], title="Changed")])
    for hit in found:
        if hit.id in ("tides", "rice"):
            with pytest.raises(RetrievalError, match=hit.id):
                hit.explain()
        else:
            hit.explain()


def test_places(tmp_path: Path, index: DocumentIndex, encoder: DocumentEncoder, tiny_encoder: Encoders) -> None:
    record = json.dumps({**index.record, "format_version": 99, "words": {"future": 1}})
    newer = index._store.schema.with_metadata({b"graphdoc": record})
    lancedb = pytest.importorskip("lancedb")
    lancedb.connect(str(tmp_path / "newer")).create_table("documents", schema=newer)
    lancedb.connect(str(tmp_path / "foreign")).create_table("documents", [{"a": 1}])
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    same = {"graph_layers": 2, "readout": "document_node", "similarity": "cosine"}
    shallow, reseeded = tiny_encoder("roberta", **same | {"graph_layers": 1}), tiny_encoder("roberta", **same, seed=5)
    calls: list[tuple[Call, type[GraphdocError], str]] = [
        (lambda: index.document(3), SettingsError, "3 (int)"),
        (lambda: index.delete([None]), SettingsError, "None"),
        (lambda: index.document("nowhere"), RetrievalError, "nowhere"),
        (lambda: DocumentIndex.create(tmp_path / "x", encoder, sentences="chapter"), SettingsError, "chapter"),
        (lambda: DocumentIndex.open(index.path, shallow), ModelError, "graph_layers was 2, now 1"),
        (lambda: DocumentIndex.open(index.path, reseeded), ModelError, "weights"),
        (lambda: DocumentIndex.open(index.path, encoder, max_passages=3), ModelError, "max_passages was 1000, now 3"),
        (lambda: DocumentIndex.open(DocumentIndex.create(tmp_path / "own", shallow).path).encoder, ModelError, "tiny"),
    ]
    for name, named in (("newer", "99"), ("foreign", "foreign"), ("missing", "missing"), ("file", "file")):
        calls.append((lambda name=name: DocumentIndex.open(tmp_path / name), RetrievalError, named))
    impossible = ["a" * 300, "a\0b", "a\ud800"]
    for place in ("full", index.path, "foo://x/y", *impossible):
        at, named = place if "/" in place else tmp_path / place, index.path if place == index.path else str(tmp_path)
        named = "foo://x/y" if place.startswith("foo") else named
        calls.append((lambda at=at: DocumentIndex.create(at, encoder), GraphdocError, named))
        assert place not in impossible or not DocumentIndex.exists(at)
    for call, kind, named in calls:
        with pytest.raises(kind) as error:
            call()
        assert named in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "missing").exists()
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]
