from __future__ import annotations

import csv
import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from graphdoc.errors import OutputError
from graphdoc.runtime.files import (
    LOCK_FILE,
    FolderLock,
    note_own_file,
    require_own_files,
    safe_cell,
    write_atomically,
    write_csv,
    write_text,
)

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("error", [None, FULL, KeyboardInterrupt(), ValueError()])
def test_the_target_changes_only_when_all_is_written(tmp_path: Path, error: BaseException | None) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write(path: Path) -> Any:
        path.write_text("new")
        assert target.read_text() == "old"
        assert (path.suffix, path.parent) == (target.suffix, target.parent)
        if error is not None:
            raise error

    if error is None:
        write_atomically(target, write)
    else:
        with pytest.raises(OutputError if error is FULL else type(error)) as caught:
            write_atomically(target, write)
        assert error is not FULL or str(target) in str(caught.value)
    assert target.read_text() == ("new" if error is None else "old") and list(tmp_path.iterdir()) == [target]


def test_text_is_utf_8_and_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    real = tmp_path / "new" / "deep" / "real.txt"
    assert write_text(real, "Grüße\nhalf \ud800 a pair\n").read_bytes() == "Grüße\nhalf ? a pair\n".encode()
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    write_text(link, "x")
    assert link.is_symlink() and real.read_text() == "x"
    assert write_text(os.devnull, "x") == Path(os.devnull)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    (tmp_path / "plain").write_text("x")
    assert write_text(tmp_path / "a.txt", "x").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for target in (tmp_path, tmp_path / "file" / "a.txt", Path("/proc/nowhere/a.txt")):
        with pytest.raises(OutputError, match=str(target)):
            write_text(target, "text")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["left by a run", "text", "folder", "link"])
def test_a_lock_of_others_is_left_alone(tmp_path: Path, kind: str) -> None:
    lock, target = tmp_path / LOCK_FILE, tmp_path / "target"
    target.write_text("of others")
    if kind == "left by a run":
        lock.touch()
        with FolderLock(tmp_path):
            assert lock.read_bytes() == b""
        return
    if kind == "text":
        lock.write_text("of others")
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(target)
    with pytest.raises(OutputError, match=str(lock)):
        FolderLock(tmp_path).acquire()
    assert target.read_text() == "of others"
    assert lock.is_dir() if kind == "folder" else lock.read_text() == "of others"


def test_tables_read_back_and_a_spreadsheet_computes_nothing_in_them(tmp_path: Path) -> None:
    for text in ("=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"):
        assert safe_cell(text).startswith("'")
    values = ["koji", "", "a=1", "'x", " =1", -1.5, 0, -3, None, True]
    assert [safe_cell(value) for value in values] == values
    rows = [["a,b", -0.5, float("nan")], ["line\nend", 3, None], ["half \ud800", 1e-7, 'a "b"']]
    path = write_csv(tmp_path / "new" / "table.csv", ["id", "x", "=y"], iter(rows))
    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.reader(file))
    assert found == [["id", "x", "'=y"], ["a,b", "-0.5", ""], ["line\nend", "3", ""], ["half ?", "1e-07", 'a "b"']]


def test_files_of_others_are_replaced_by_nobody(tmp_path: Path) -> None:
    own, other = write_text(tmp_path / "own.csv", "a"), tmp_path / "other.csv"
    note_own_file(own)
    require_own_files(tmp_path, ["own.csv", "other.csv"])
    other.write_text("of others")
    with pytest.raises(OutputError, match=r"other\.csv"):
        require_own_files(tmp_path, ["own.csv", "other.csv"])
    # What somebody has changed is no longer what graphdoc wrote.
    own.write_text("b")
    with pytest.raises(OutputError, match=r"own\.csv"):
        require_own_files(tmp_path, ["own.csv"])
    own.unlink()
    own.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match=r"own\.csv"):
        require_own_files(tmp_path, ["own.csv"])
