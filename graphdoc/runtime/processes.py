"""The processes of one job, a single one or those that a launcher started, and the device of each."""

from __future__ import annotations

import logging
import os
import re
import signal
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
from torch import distributed

from ..errors import GraphdocError, ModelError, OutputError

T = TypeVar("T")
logger = logging.getLogger("graphdoc")

# How long processes wait for one another.
LONGEST_WAIT = timedelta(hours=1)

# What gloo and NCCL say when the other end of a connection is gone.
_LOST = re.compile(
    r"connection (?:closed|reset|refused|was closed)|closed by peer|broken pipe|pair closure|socket timeout"
    r"|remote process exited|timed out waiting|no longer connected|network error|communicator was aborted"
    r"|collective operation timeout|monitoredbarrier",
    re.IGNORECASE,
)
_MISSED = re.compile(r"Ranks? ([\d, ]+) failed to pass")


def process_count() -> int:
    """Number of processes that train together."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


@contextmanager
def exchange() -> Iterator[None]:
    """A context for an exchange between processes, which raises OutputError when one of them has stopped."""
    try:
        yield
    except RuntimeError as error:
        is_lost = isinstance(error, distributed.DistNetworkError) or _LOST.search(str(error)) is not None
        if not is_lost or isinstance(error, torch.OutOfMemoryError):
            raise
        missed = _MISSED.search(str(error))
        who = "another process" if missed is None else f"process {missed[1].strip()}"
        raise OutputError(f"{who} has stopped or stands still; mend what its message says and run again") from error


class Processes:
    """Rank and number of the processes that share a job, and where they wait for each other.

    Processes meet in a gloo group of their own, whatever else they use. Leaving it on an error ends the waiting of all
    others at once; a process that stands still is named after an hour.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
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

    def __exit__(self, *_: object) -> None:
        if self._group is not None:
            with suppress(RuntimeError, ValueError):
                distributed.destroy_process_group(self._group)
            self._group = None

    def gather(self, value: T) -> list[T]:
        """Wait for all processes and give each the values of all, by rank."""
        if self._group is None:
            return [value]
        values: list[Any] = [None] * self.count
        with self._exchange():
            distributed.all_gather_object(values, value, group=self._group)
        return values

    def run_first(self, function: Callable[[], object]) -> None:
        """Run a function in the first process while the others wait; a GraphdocError of it is raised in all."""

        def run() -> None:
            function()

        self.from_first(run)

    def from_first(self, function: Callable[[], T]) -> T:
        """Give all processes what a function returns in the first; a GraphdocError of it is raised in all."""
        answer: list[Any] = [None, None]
        failure: GraphdocError | None = None
        if self.is_first:
            try:
                answer[0] = function()
            except GraphdocError as error:
                failure, answer[1] = error, str(error)
        if self._group is not None:
            with self._exchange():
                distributed.broadcast_object_list(answer, 0, group=self._group)
        if failure is not None:
            raise failure
        if answer[1] is not None:
            raise OutputError(answer[1])
        result: T = answer[0]
        return result

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """A context for an exchange between the processes, that says which of them does not come."""
        with exchange():
            distributed.monitored_barrier(self._group, LONGEST_WAIT, wait_all_ranks=True)
            yield


def share_of(processes: Processes | None) -> slice:
    """Every n-th item, so that long and short ones are spread over the processes whatever their order."""
    return slice(None) if processes is None else slice(processes.rank, None, processes.count)


def interleaved(shares: Sequence[Sequence[T]]) -> list[T]:
    """Merge the results of all processes (see :func:`share_of`) in the order of all items."""
    results: list[Any] = [None] * sum(map(len, shares))
    for rank, share in enumerate(shares):
        results[rank :: len(shares)] = share
    return results


def gathered(processes: Processes | None, value: T) -> list[T]:
    """The values of all processes, by rank."""
    return [value] if processes is None else processes.gather(value)


class StopRequest:
    """A context that notes SIGTERM in ``is_made`` instead of ending the program."""

    def __init__(self) -> None:
        self.is_made = False
        self._previous: Any = None

    def __enter__(self) -> StopRequest:
        # Only the main thread can.
        with suppress(ValueError):
            self._previous = signal.signal(signal.SIGTERM, lambda *_: setattr(self, "is_made", True))
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)


@cache
def survive_forks() -> None:
    """Let processes that are forked from now on compute with one thread.

    The threads that torch has started are not there in a fork, whose first parallel operation waits for them for ever.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_compute_alone)


def _compute_alone() -> None:
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        logger.info("this process was forked after encoding, so torch computes with one thread in it")


def usable_device(device: str | torch.device | None = None) -> torch.device:
    """A device by its name; None takes an accelerator if there is one, and ``cuda`` the GPU of this process."""
    if device is None and os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes"):
        return torch.device("cpu")
    if device is None or str(device) == "cuda":
        if torch.cuda.is_available():
            return own_gpu()
        device = device or ("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device {str(device)!r} is unknown; use cpu, cuda, cuda:1 or mps") from error


def own_gpu() -> torch.device:
    """The GPU of this process; a launcher shows every process all GPUs, or each its own."""
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def move_to_device(model: Any, device: str | torch.device | None) -> None:
    """Move a model to a device (see :func:`usable_device`)."""
    chosen = usable_device(device)
    try:
        model.to(chosen)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = textwrap.shorten(str(error).strip().partition("\n")[0], 120, placeholder=" ...")
        raise ModelError(f"device {str(device)!r} cannot be used here ({reason})") from error
