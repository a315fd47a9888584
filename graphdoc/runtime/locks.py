"""Keeping a second writer out of a folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from ..errors import OutputError

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
            raise OutputError(
                f"{self._folder} cannot be written: {error.strerror or error}; choose another output"
            ) from error
        except ValueError as error:
            raise OutputError(
                f"{str(self._folder)!r} cannot be written: the name has a NUL character; choose another output"
            ) from error

    def release(self) -> None:
        """Give the folder back."""
        self._lock.release()

    def __enter__(self) -> FolderLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
