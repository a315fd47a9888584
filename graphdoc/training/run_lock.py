"""Keeping a second run out of the folder of one that is under way."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import OutputError
from .run_folder import LOCK_FILE

# Processes that load for a run that was killed hold its lock until they notice, which takes seconds.
LONGEST_WAIT_SECONDS = 15.0


class RunLock:
    """The right of one process to work in a folder; the system takes it back when the process ends, however it ends.

    Args:
        folder: the folder of a run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = FileLock(folder / LOCK_FILE)

    def acquire(self) -> None:
        """Take the folder, which is made where it is not there.

        Raises:
            OutputError: a run is under way in it, or it cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Where a file system has no locks, there is nothing to hold on to.
            with suppress(NotImplementedError):
                self._lock.acquire(timeout=LONGEST_WAIT_SECONDS)
        except Timeout as error:
            raise OutputError(
                f"a run is under way in {self._folder}; wait until it has ended, or choose another output"
            ) from error
        except OSError as error:
            raise OutputError(
                f"{self._folder} cannot be written: {error.strerror or error}; choose another output"
            ) from error

    def release(self) -> None:
        """Give the folder back."""
        self._lock.release()
