"""Checksums of files, and marks that say of which state of a file its checksum was found right."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..errors import OutputError
from .files import write_text

Stamp = tuple[int, int, int, int]

# In a folder of outputs: the files that graphdoc wrote there, with their checksums.
WRITTEN_FILE = ".graphdoc-files.json"


def file_checksum(path: Path) -> str:
    """BLAKE2b hash of a file, 32 bytes in hexadecimal digits.

    Raises:
        OutputError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror or error}; run again") from error


def file_stamp(path: Path) -> Stamp:
    """Size, times of the last change of content and of anything, and number of a file.

    The third, ctime, is set by the system alone: whoever changes a file and sets its time back changes it.

    Raises:
        OSError: there is no such file.
    """
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def mark_path(path: Path) -> Path:
    """Where the mark of a file lies: beside it."""
    return path.with_name(f".{path.name}.checked")


def mark_checked(path: Path) -> str:
    """Write the checksum of a file that was just written beside it, and return it.

    Raises:
        OutputError: the file cannot be read, or its mark not written.
    """
    stamp, checksum = file_stamp(path), file_checksum(path)
    write_text(mark_path(path), json.dumps({"checksum": checksum, "stamp": stamp}))
    return checksum


def is_unchanged(path: Path, expected: str | None = None) -> bool:
    """Whether a file has the checksum with which it was written.

    It is read whole only if anything about it, its ctime among that, differs from the state in which it was checked
    last; the new state is then marked, so that the next process need not read it.

    Args:
        path: the file.
        expected: its checksum; None takes that of its mark, and without a mark nothing is right.
    """
    try:
        stamp = file_stamp(path)
        try:
            mark = json.loads(mark_path(path).read_text(encoding="utf-8"))
            known, checked = mark["checksum"], tuple(mark["stamp"])
        except (OSError, ValueError, KeyError, TypeError):
            known, checked = None, None
        expected = expected or known
        if expected is None:
            return False
        if known == expected and checked == stamp:
            return True
        if file_checksum(path) != expected:
            return False
    except (OSError, OutputError):
        return False
    if os.access(path.parent, os.W_OK):
        with suppress(OutputError):
            write_text(mark_path(path), json.dumps({"checksum": expected, "stamp": stamp}))
    return True


def require_own_files(folder: Path, names: Iterable[str]) -> None:
    """Refuse to replace files of a folder that graphdoc did not write, or that were changed since.

    Args:
        folder: the folder.
        names: names of the files that are to be written there.

    Raises:
        OutputError: there is such a file.
    """
    written = _written_files(folder)
    for path in (folder / name for name in names):
        if os.path.lexists(path) and not (path.is_file() and written.get(path.name) == file_checksum(path)):
            raise OutputError(
                f"{path} was not written by graphdoc, or was changed since; move it, or replace it with --overwrite"
            )


def note_own_file(path: Path) -> None:
    """Note in its folder that graphdoc wrote a file, so that it may be replaced (see :func:`require_own_files`).

    Raises:
        OutputError: it cannot be noted.
    """
    written = _written_files(path.parent) | {path.name: file_checksum(path)}
    write_text(path.parent / WRITTEN_FILE, json.dumps({"format": "graphdoc files/1", "files": written}, indent=2))


def _written_files(folder: Path) -> dict[str, str]:
    try:
        files = json.loads((folder / WRITTEN_FILE).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(files) if isinstance(files, dict) else {}
