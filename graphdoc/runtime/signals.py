"""What SIGTERM means to a program that has work to finish, and to its worker processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from multiprocessing.sharedctypes import RawValue
from types import FrameType, TracebackType
from typing import Any

# Seconds between two looks of a worker that was asked to end at whether it may.
_LOOK_AGAIN = 0.5


class StopRequest:
    """A context that notes SIGTERM instead of ending the program; after it, the signal does what it did before.

    Attributes:
        is_made: whether the system has asked this process to stop.
    """

    def __init__(self) -> None:
        self.is_made = False
        self._previous: Any = None

    def __enter__(self) -> StopRequest:
        try:
            self._previous = signal.signal(signal.SIGTERM, self._note)
        except ValueError:  # only the main thread can
            self._previous = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.is_made = True


class Dismissal:
    """Keeps worker processes at work until their program lets them go.

    Clusters send SIGTERM to all processes of a job, and what is left of a run up to its checkpoint still needs its
    workers. Python, too, ends workers by SIGTERM: they obey once they are dismissed.
    """

    def __init__(self) -> None:
        self._is_given = RawValue("b", 0)

    def give(self) -> None:
        """Let the workers end when they are asked to, or at once if they were."""
        self._is_given.value = 1

    def await_in_worker(self) -> None:
        """Set up a worker, which calls this first."""
        signal.signal(signal.SIGTERM, self._asked)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self._is_given.value:
            os._exit(0)
        threading.Thread(target=self._await, daemon=True).start()

    def _await(self) -> None:
        while not self._is_given.value:
            time.sleep(_LOOK_AGAIN)
        os._exit(0)
