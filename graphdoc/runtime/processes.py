"""The processes of one job: a single one, or those that torchrun or accelerate launch started."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import distributed

from ..errors import GraphdocError, OutputError
from .heartbeat import Heartbeat
from .plain_text import one_line

T = TypeVar("T")

# Shares take different times, and the first process done has to wait for the last one.
LONGEST_WAIT = timedelta(days=30)

# What gloo and NCCL say when the other end of a connection is gone.
_LOST = re.compile(
    r"connection (?:closed|reset|refused|was closed)|closed by peer|broken pipe|pair closure|socket timeout"
    r"|remote process exited|timed out waiting|no longer connected|network error|communicator was aborted"
    r"|collective operation timeout",
    re.IGNORECASE,
)

_heartbeat: Heartbeat | None = None


def process_count() -> int:
    """Number of processes that train together."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


@contextmanager
def exchange() -> Iterator[None]:
    """A context for an exchange between processes, which fails when one of them has stopped.

    Raises:
        OutputError: another process has stopped; its message is given where it left one.
        RuntimeError: whatever else went wrong in this process, such as too little memory.
    """
    try:
        yield
    except RuntimeError as error:
        is_lost = isinstance(error, distributed.DistNetworkError) or _LOST.search(str(error)) is not None
        if not is_lost or isinstance(error, torch.OutOfMemoryError):
            raise
        known = _heartbeat.stopped() if _heartbeat is not None else None
        raise OutputError(
            f"{known or 'another process has stopped'}; mend what its message says and run again"
        ) from error


class Processes:
    """Rank and number of the processes that share a job, and where they wait for each other.

    Processes meet in a gloo group of their own, whatever else they use: no wait for a slow share ends early, and
    leaving the group on an error ends the waiting of all others at once. A process that stands still is reported.

    Args:
        device: where this process computes.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank, self.count = 0, 1
        self._group: Any = None
        if not distributed.is_available():
            return
        if distributed.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import PartialState  # type: ignore[import-untyped, unused-ignore]

            # Exchanges between accelerators keep the time-out that torch gives them.
            waits = {"timeout": LONGEST_WAIT} if device.type == "cpu" else {}
            state = PartialState(cpu=device.type == "cpu", **waits)
            self.rank, self.count = state.process_index, state.num_processes
        if self.count > 1:
            global _heartbeat
            self._group = distributed.new_group(backend="gloo", timeout=LONGEST_WAIT)
            _heartbeat = Heartbeat(self.rank, self.count)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that does what is done once."""
        return self.rank == 0

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _heartbeat
        if _heartbeat is not None:
            if error is not None:
                _heartbeat.say_stopped(one_line(f"{type(error).__name__}: {error}", 200))
            _heartbeat.stop()
            _heartbeat = None
        if self._group is not None:
            with suppress(RuntimeError, ValueError):
                distributed.destroy_process_group(self._group)
            self._group = None

    def gather(self, value: T) -> list[T]:
        """Wait for all processes and give each the values of all, by rank.

        Raises:
            OutputError: another process has stopped.
        """
        if self._group is None:
            return [value]
        values: list[Any] = [None] * self.count
        with exchange():
            distributed.all_gather_object(values, value, group=self._group)
        return values

    def run_first(self, function: Callable[[], object]) -> None:
        """Run a function in the first process while the others wait.

        Raises:
            GraphdocError: what the function raised, in every process.
        """
        failure: GraphdocError | None = None
        if self.is_first:
            try:
                function()
            except GraphdocError as error:
                failure = error
        message = self.gather(None if failure is None else str(failure))[0]
        if failure is not None:
            raise failure
        if message is not None:
            raise OutputError(message)
