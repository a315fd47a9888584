from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from graphdoc.corpus import source
from graphdoc.corpus.source import file_identities

SIZE = 2**20


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.txt"
    path.write_bytes(b"a" * SIZE)
    return path


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read whole."""
    read: list[Path] = []
    real: Callable[[Path], str] = source.file_checksum

    def counted(path: Path) -> str:
        read.append(path)
        return real(path)

    monkeypatch.setattr(source, "file_checksum", counted)
    return read


def rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the files have been changed some time ago."""
    now = time.time_ns()
    monkeypatch.setattr(source.time, "time_ns", lambda: now + 10**10)


def test_files_are_read_whole_once(
    large: Path, hashed: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = file_identities([large, large.parent / "missing"], tmp_path / "records")
    assert first[0][:2] == [str(large), SIZE]
    assert first[1][1:] == [None, None]
    assert file_identities([large], tmp_path / "records") == first[:1]
    assert len(hashed) == 2, "it may have changed since, at the same time"
    rest(monkeypatch)
    for _ in range(3):
        assert file_identities([large], tmp_path / "records") == first[:1]
    assert len(hashed) == 3


@pytest.mark.parametrize("place", [0, SIZE // 2, SIZE - 1])
def test_changes_are_found_whatever_the_time_says(
    large: Path, tmp_path: Path, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest(monkeypatch)
    before = file_identities([large], tmp_path)
    status = large.stat()
    with large.open("r+b") as stream:
        stream.seek(place)
        stream.write(b"b")
    os.utime(large, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file_identities([large], tmp_path)[0][2] != before[0][2]


def test_records_that_are_damaged_or_cannot_be_written_do_no_harm(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest(monkeypatch)
    before = file_identities([large], tmp_path / "records")
    (record,) = (tmp_path / "records").iterdir()
    for content in ("{", "[]", json.dumps({str(large): 5}), json.dumps({str(large): [[SIZE]]})):
        record.write_text(content, encoding="utf-8")
        assert file_identities([large], tmp_path / "records") == before
    assert file_identities([large], large / "records") == before


def test_a_named_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert file_identities([tmp_path / "pipe"], tmp_path) == [[str(tmp_path / "pipe"), None, None]]
