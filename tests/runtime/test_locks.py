"""Keeping a second writer out of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc.errors import OutputError
from graphdoc.runtime.locks import LOCK_FILE, FolderLock


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
    for _ in range(2):
        lock = FolderLock(tmp_path)
        lock.acquire()
        lock.release()
        (tmp_path / LOCK_FILE).touch()
        assert (tmp_path / LOCK_FILE).read_bytes() == b""
