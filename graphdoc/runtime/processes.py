"""The processes of one job: a single one, or those that torchrun or accelerate launch started."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import distributed

from ..errors import GraphdocError, OutputError

T = TypeVar("T")

# Shares take different times, and the first process done has to wait for the last one.
LONGEST_WAIT = timedelta(days=30)


def process_count() -> int:
    """Number of processes that train together."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


@contextmanager
def exchange() -> Iterator[None]:
    """A context for an exchange between processes, which fails when one of them has stopped.

    Raises:
        OutputError: another process has stopped.
    """
    try:
        yield
    except RuntimeError as error:
        # Of this process's own kind: too little memory, or one of its loading processes that died meanwhile.
        if isinstance(error, torch.OutOfMemoryError) or str(error).startswith("DataLoader worker"):
            raise
        raise OutputError("another process has stopped; mend what its message says and run again") from error


class Processes:
    """Rank and number of the processes that share a job, and where they wait for each other.

    Processes meet in a gloo group of their own, whatever else they use: no wait for a slow share ends early, and
    leaving the group on an error ends the waiting of all others at once.

    Args:
        device: where the processes compute.
    """

    def __init__(self, device: torch.device) -> None:
        self.rank, self.count = 0, 1
        self._group: Any = None
        if not distributed.is_available():
            return
        if distributed.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import PartialState  # type: ignore[import-untyped, unused-ignore]

            state = PartialState(cpu=device.type == "cpu", timeout=LONGEST_WAIT)
            self.rank, self.count = state.process_index, state.num_processes
        if self.count > 1:
            self._group = distributed.new_group(backend="gloo", timeout=LONGEST_WAIT)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that does what is done once."""
        return self.rank == 0

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
