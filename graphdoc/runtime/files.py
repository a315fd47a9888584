"""Writing files so that nothing is lost: atomically, by one process at a time, and over nobody else's."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, overload

from filelock import FileLock, Timeout

from ..errors import OutputError

# A full disk, a used up quota, a file larger than allowed.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let a function write a temporary file next to the target, then rename it into place.

    Raises:
        OutputError: the target cannot be written; no partial file stays behind.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A link stays a link, and a device such as /dev/null stays a device.
        place = Path(os.path.realpath(target))
        if place.exists() and not place.is_file() and not place.is_dir():
            write(place)
            return target
        temporary = place.with_name(f".partial-{os.getpid()}-{place.name}")
        write(temporary)
        temporary.replace(place)
    except OSError as error:
        raise writing_error(target, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    return target


def writing_error(path: str | Path, error: OSError) -> OutputError:
    """What to say of a file that cannot be written; space is asked for only where there is none."""
    fix = "free some space, or choose another place" if error.errno in _NO_SPACE else "choose another place"
    return OutputError(f"{path} cannot be written: {error.strerror or error}; {fix}")


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file atomically as UTF-8 (see :func:`write_atomically`); halves of surrogate pairs become "?"."""
    content = text.encode("utf-8", "replace")
    return write_atomically(path, lambda temporary: temporary.write_bytes(content))


class JsonResult(ABC):
    """A result that can be written as JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""

    @overload
    def to_json(self, path: None = None) -> str: ...
    @overload
    def to_json(self, path: str | Path) -> Path: ...
    def to_json(self, path: str | Path | None = None) -> str | Path:
        """Write the result as JSON (see :meth:`to_dict`), atomically; without a path its text is returned."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)
        return text if path is None else write_text(path, text + "\n")


# In a folder of outputs: the files that graphdoc wrote there, with their checksums.
_WRITTEN_FILE = ".graphdoc-files.json"


def file_checksum(path: Path) -> str:
    """BLAKE2b hash of a file, 32 bytes in hexadecimal digits."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror or error}; run again") from error


def mark_checked(path: Path) -> None:
    """Write the checksum of a file that was just written, next to it."""
    write_text(_mark_path(path), json.dumps({"stamp": _stamp(path), "checksum": file_checksum(path)}))


def is_unchanged(path: Path) -> bool:
    """Whether a file has the checksum with which it was written (:func:`mark_checked`).

    It is read whole only if anything about it differs from the state in which it was checked last; the new state is
    then marked, so that the next process need not read it.
    """
    try:
        mark = json.loads(_mark_path(path).read_text(encoding="utf-8"))
        stamp = _stamp(path)
        if mark["stamp"] == stamp:
            return True
        if mark["checksum"] != file_checksum(path):
            return False
    except (OSError, OutputError, ValueError, KeyError, TypeError):
        return False
    if os.access(path.parent, os.W_OK):
        with suppress(OutputError):
            write_text(_mark_path(path), json.dumps({**mark, "stamp": stamp}))
    return True


def _mark_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    # The ctime is set by the system alone: whoever changes a file and sets its time back changes it.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def require_own_files(folder: Path, names: Iterable[str]) -> None:
    """Raise OutputError where a folder has files of these names that graphdoc did not write, or that were changed."""
    written = _written_files(folder)
    for path in (folder / name for name in names):
        if os.path.lexists(path) and not (path.is_file() and written.get(path.name) == file_checksum(path)):
            raise OutputError(
                f"{path} was not written by graphdoc, or was changed since; move it, or replace it with --overwrite"
            )


def note_own_file(path: Path) -> None:
    """Note in its folder that graphdoc wrote a file, so that it may be replaced (see :func:`require_own_files`)."""
    written = _written_files(path.parent) | {path.name: file_checksum(path)}
    write_text(path.parent / _WRITTEN_FILE, json.dumps({"format": "graphdoc files/1", "files": written}, indent=2))


def _written_files(folder: Path) -> dict[str, str]:
    try:
        files = json.loads((folder / _WRITTEN_FILE).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(files) if isinstance(files, dict) else {}


LOCK_FILE = ".lock"

# Worker processes of a program that was killed hold its lock until they notice, which takes seconds.
LONGEST_WAIT_SECONDS = 15.0


class FolderLock:
    """The right of one process to write into a folder; the system takes it back when the process ends in any way.

    Args:
        folder: the folder, which is made if it does not exist.
        work: what another process is doing that holds the folder, for the message.
    """

    def __init__(self, folder: Path, work: str = "a run") -> None:
        self._folder, self._work = folder, work
        self._lock = FileLock(folder / LOCK_FILE)

    def acquire(self) -> None:
        """Take the folder.

        Raises:
            OutputError: another process writes into it, or it cannot be written.
        """
        path = self._folder / LOCK_FILE
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Locking empties the file, and a run that has ended removes it: it may hold nothing of others.
            if path.is_symlink() or (path.exists() and (not path.is_file() or path.stat().st_size)):
                raise OutputError(
                    f"{path} is no empty file, as the lock of graphdoc is; remove it where nothing is under way, or "
                    "choose another output"
                )
            # Where a file system has no locks, there is nothing to hold on to.
            with suppress(NotImplementedError):
                self._lock.acquire(timeout=LONGEST_WAIT_SECONDS)
        except Timeout as error:
            raise OutputError(
                f"{self._work} is under way in {self._folder}; wait until it has ended, or choose another output"
            ) from error
        except OSError as error:
            raise writing_error(self._folder, error) from error

    def release(self) -> None:
        """Give the folder back."""
        self._lock.release()

    def __enter__(self) -> FolderLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


# What a spreadsheet takes for the beginning of a formula, also behind a tab or a line end.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\n")


def safe_cell(value: Any) -> Any:
    """A value as it may stand in a cell: text that a spreadsheet would compute gets an apostrophe in front.

    Source: OWASP, CSV injection.

    >>> [safe_cell(value) for value in ("=1+1", "koji", -0.5, float("nan"))]
    ["'=1+1", 'koji', -0.5, None]
    """
    if isinstance(value, str):
        # Python's writer leaves a carriage return unquoted, which readers take for the end of the row.
        line = value.replace("\r\n", "\n").replace("\r", "\n")
        return f"'{line}" if line.startswith(_FORMULA_SIGNS) else line
    return None if isinstance(value, float) and value != value else value


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table as CSV, row by row and atomically; halves of surrogate pairs become "?".

    NaN and None are empty cells, and text is escaped (see :func:`safe_cell`).
    """

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            write_rows(file, header, rows)

    return write_atomically(path, write)


def write_rows(target: TextIO, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table as CSV into an open file (see :func:`write_csv`)."""
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(map(safe_cell, header))
    writer.writerows(map(safe_cell, row) for row in rows)
