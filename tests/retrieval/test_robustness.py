"""What happens to an index from outside: kills, damage, other writers, readers, forks, no rights, full disks."""

from __future__ import annotations

import json
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
from typed import Documents, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import GraphdocError, OutputError, RetrievalError
from graphdoc.runtime import files
from graphdoc.runtime.files import FolderLock

JOB = Path(__file__).parents[1] / "support" / "index_job.py"


@pytest.mark.parametrize("kills", [2, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_lose_nothing_that_was_acknowledged(
    place: str, tmp_path: Path, encoder: DocumentEncoder, kills: int
) -> None:
    checkpoint = encoder.save_pretrained(tmp_path / "model")
    # On a busy machine a kill and its check take half a minute.
    done = run(JOB, checkpoint, place, 0, kills, patience=PATIENCE + 60 * kills)
    result = json.loads(done.stdout.splitlines()[-1])
    print(result)
    assert result["kills"] >= kills and result["acknowledged"] and result["cut_short"]


def test_a_second_writer_into_a_folder_is_refused(
    index: DocumentIndex, documents: Documents, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(files, "LONGEST_WAIT_SECONDS", 0.05)
    changed = [replace(documents[0], title="Changed")]
    with FolderLock(Path(index.place), "an update"):
        for write in (lambda: index.update(changed), lambda: index.delete("rice"), index.maintain):
            with pytest.raises(OutputError, match=index.place):
                write()
        # Readers go on.
        assert [index.document(one.id) for one in documents] == documents
    assert index.update(changed).replaced == 1 and index.document("tides").title == "Changed"


def test_a_reader_sees_what_others_have_changed(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents, tiny_encoder: Callable[..., Any]
) -> None:
    reader = DocumentIndex.open(index.place, encoder)
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
    shutil.rmtree(index.place)
    other = DocumentIndex.create(index.place, tiny_encoder("roberta", graph_layers=0, readout="mean"))
    other.update(documents)
    with pytest.raises(RetrievalError, match="again"):
        reader.search("tides", by="words")


def test_readers_see_whole_documents_while_one_writes_and_maintains(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents
) -> None:
    long = replace(documents[0], sections=documents[0].sections * 3)
    counts = {len(encoder.segment(one).passages) for one in (documents[0], long)}
    reader = DocumentIndex.open(index.place, encoder)
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
    for path in (Path(index.place) / "documents.lance" / part).rglob("*"):
        if path.is_file() and how == "missing":
            path.unlink()
        elif path.is_file():
            path.write_bytes(b"")
    with pytest.raises(RetrievalError) as error:
        again = DocumentIndex.open(index.place, encoder)
        again.search("tides")
        list(again.rows())
    assert index.place in str(error.value)


@pytest.mark.parametrize("missing", ["_versions", "_versions/*.manifest"])
def test_what_is_left_of_an_index_is_not_overwritten(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents, missing: str
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
    assert all(index.place in str(error.value) for error in (opened, made))
    shutil.copytree(copy, table, dirs_exist_ok=True)
    again = DocumentIndex.open(index.place, encoder)
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
        (Path(index.place) / ".lock").unlink(missing_ok=True)
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
    assert "\n" not in str(error.value) and index.place in str(error.value)
    for one in (index, DocumentIndex.open(index.place, encoder)):
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
            status = 0 if read_index.place in str(error) and "spawn" in str(error) else 2
        finally:
            os._exit(status)
    assert expected and os.waitpid(worker, 0)[1] == 0
    assert [hit.id for hit in read_index.search("spring tides", by="words")] == expected
