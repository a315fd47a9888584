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


def test_text_is_utf_8_with_plain_line_ends_in_folders_that_are_made(tmp_path: Path) -> None:
    target = write_text(tmp_path / "new" / "deep" / "a.txt", "Grüße\nhalf \ud800 a pair\n")
    assert target.read_bytes() == "Grüße\nhalf ? a pair\n".encode()


def test_the_target_changes_only_when_all_is_written(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write(path: Path) -> None:
        path.write_text("new")
        assert target.read_text() == "old"
        assert path.suffix == target.suffix
        assert path.parent == target.parent

    write_atomically(target, write)
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt(), ValueError()]
)
def test_a_failed_write_leaves_the_target_alone(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write(path: Path) -> Any:
        path.write_text("half")
        raise error

    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)) as caught:
        write_atomically(target, write)
    if isinstance(error, OSError):
        assert str(target) in str(caught.value) and "No space left" in str(caught.value)
        assert "free some space" in str(caught.value)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for target, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "file" / "a.txt", "Not a directory|File exists"),
        (Path("/proc/nowhere/a.txt"), "No such file|Permission|not permitted"),
    ):
        with pytest.raises(OutputError, match=f"cannot be written.*({reason})"):
            write_text(target, "text")
    with pytest.raises(OutputError) as error:
        write_text(tmp_path / "file" / "a.txt", "text")
    assert "space" not in str(error.value), "the disk is not what is wrong"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "data" / "real.txt")
    write_text(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "data" / "real.txt").read_text() == "x"
    assert write_text(os.devnull, "x") == Path(os.devnull)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    (tmp_path / "plain").write_text("x")
    assert write_text(tmp_path / "a.txt", "x").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("kind", ["text", "folder", "link"])
def test_a_lock_of_others_is_left_alone(tmp_path: Path, kind: str) -> None:
    lock, target = tmp_path / LOCK_FILE, tmp_path / "target"
    target.write_text("of others")
    if kind == "text":
        lock.write_text("of others")
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(target)
    with pytest.raises(OutputError) as error:
        FolderLock(tmp_path).acquire()
    assert str(lock) in str(error.value) and "remove it" in str(error.value)
    assert target.read_text() == "of others"
    assert lock.is_dir() if kind == "folder" else lock.read_text() == "of others"


def test_a_lock_that_a_run_left_is_taken_again(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    with FolderLock(tmp_path):
        assert (tmp_path / LOCK_FILE).read_bytes() == b""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_text_that_a_spreadsheet_would_compute_is_escaped(text: str) -> None:
    assert safe_cell(text).startswith("'")


def test_all_else_stays() -> None:
    values = ["koji", "", "a=1", "'x", " =1", -1.5, 0, -3, None, True]
    assert [safe_cell(value) for value in values] == values


def test_a_file_reads_back(tmp_path: Path) -> None:
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
