"""Workers on a Ray cluster: the same object in every process, to which tasks go as it becomes free."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import torch

from ..errors import GraphdocError, MissingExtraError, OutputError, SettingsError
from .arguments import require_path
from .plain_text import one_line

logger = logging.getLogger("graphdoc")

# How often a task may end the process that works on it, and how often in a row processes may fail to start.
MOST_DEATHS = 3
_WAIT_SECONDS = 10.0
_PATIENCE_SECONDS = 60.0
_HOST_AND_PORT = re.compile(r"(?:ray://)?(\[[^\]]+\]|[^:/\s]+):(\d{1,5})")


class Worker(Protocol):
    """What does the work, copied to every process."""

    def begin(self) -> None:
        """Make ready, once in every process."""


@dataclass(slots=True)
class _Task:
    content: Any
    deaths: int = 0


class RayCluster:
    """A connection to a cluster, and processes that hold a worker there.

    A process takes a GPU where the cluster has any. Else it computes with as many threads as this one, and gets as
    many CPUs, so that numbers are the same to the last bit. A process that dies costs the task that it worked on,
    which another one does again; a new process takes its place.

    Args:
        address: ``local`` for a cluster on this machine, which ends with this; ``auto`` for the one that runs on it;
            or ``HOST:PORT`` or ``ray://HOST:PORT``. A connection that this program has made already is used.
        worker: the object.

    Raises:
        SettingsError: the address is of no kind that Ray knows, or the cluster has too few CPUs.
        OutputError: the cluster does not answer.
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, address: str, worker: Worker) -> None:
        self._ray = ray = require_cluster(address)
        self._is_own = not ray.is_initialized()
        # What every process is doing, by the reference that says when it is done; None where it is starting.
        self._busy: dict[Any, tuple[Any, _Task | None]] = {}
        self._idle: list[Any] = []
        self._failed_starts = 0
        if self._is_own:
            _connect(ray, address)
        try:
            threads = torch.get_num_threads()
            count, needs = _processes(ray, threads, address)
            self._actor = ray.remote(_Actor).options(max_restarts=0, **needs)
            self._worker, self._threads, self.count = ray.put(worker), threads, count
            for _ in range(count):
                self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, and the connection if it was made here."""
        if self._is_own:
            self._ray.shutdown()
            return
        for actor in [*self._idle, *(actor for actor, _ in self._busy.values())]:
            self._ray.kill(actor)

    def ask(self, method: str, content: Any) -> Any:
        """Let one process do one task.

        Args:
            method: name of the worker's method, which is given ``content``.
            content: what it is given.
        """
        (answer,) = self.map(method, [content])
        return answer

    def map(self, method: str, contents: Iterable[Any]) -> Generator[Any]:
        """Do tasks, each in any process.

        Tasks are read as processes become free, and as many ahead. After an error no more are begun; those under way
        are finished first.

        Args:
            method: name of the worker's method, which is given a task's content.
            contents: what it is given.

        Yields:
            What it gives, in the order in which tasks are done.

        Raises:
            GraphdocError: a task failed, or ended its process several times.
        """
        coming = iter(contents)
        ready: deque[_Task] = deque()
        failure: BaseException | None = None
        is_read = False
        while True:
            # Read ahead, while processes are busy.
            while not is_read and failure is None and len(ready) < max(len(self._idle), self.count):
                try:
                    ready.append(_Task(self._ray.put(next(coming))))
                except StopIteration:
                    is_read = True
                except Exception as error:
                    failure = error
                if self._idle:
                    break
            if failure is not None:
                ready.clear()
            while ready and self._idle:
                actor, task = self._idle.pop(), ready.popleft()
                self._busy[actor.do.remote(method, task.content)] = actor, task
            is_working = any(task is not None for _, task in self._busy.values())
            if not is_working and not ready and (is_read or failure is not None):
                break
            if self._idle and not is_read and failure is None:
                continue
            try:
                yield from self._wait(ready)
            except GraphdocError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _start(self) -> None:
        actor = self._actor.remote(self._worker, self._threads)
        self._busy[actor.begin.remote()] = actor, None

    def _wait(self, ready: deque[_Task]) -> Iterator[Any]:
        """Wait until a process is done with something."""
        errors = self._ray.exceptions
        is_starting = not self._idle and all(task is None for _, task in self._busy.values())
        done: list[Any] = []
        while not done:
            done, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=_PATIENCE_SECONDS)
            if not done and is_starting:
                logger.warning("waiting for room on the Ray cluster: no process has started yet")
                is_starting = False
        reference = done[0]
        actor, task = self._busy.pop(reference)
        try:
            result = self._ray.get(reference)
        except errors.RayTaskError as error:
            if task is None:
                raise _failure(error, "a process of the Ray cluster cannot start") from error
            self._idle.append(actor)
            raise _failure(error, "a task on the Ray cluster failed") from error
        except errors.RayError as error:
            self._ray.kill(actor)
            self._replace(task, ready, error)
            return
        self._failed_starts = 0
        self._idle.append(actor)
        if task is not None:
            yield result

    def _replace(self, task: _Task | None, ready: deque[_Task], error: Exception) -> None:
        """Begin another process, and do the task of one that died again."""
        if task is None:
            self._failed_starts += 1
        else:
            task.deaths += 1
            ready.appendleft(task)
        if max(self._failed_starts, task.deaths if task is not None else 0) >= MOST_DEATHS:
            what = "do not start" if task is None else f"ended {MOST_DEATHS} times with the same task"
            ready.clear()
            raise OutputError(
                f"processes of the Ray cluster {what} ({_said(error)}); see that its machines have memory enough and "
                "this version of graphdoc, and look at Ray's logs"
            ) from error
        self._start()


class _Actor:
    """A process that holds the worker."""

    def __init__(self, worker: Worker, threads: int) -> None:
        torch.set_num_threads(threads)
        self._worker = worker

    def begin(self) -> None:
        self._worker.begin()

    def do(self, method: str, content: Any) -> Any:
        return getattr(self._worker, method)(content)


def require_cluster(address: str) -> Any:
    """Give the library Ray, where an address can be one of a cluster.

    Where nothing answers, Ray itself would wait for minutes and then end the program.

    Args:
        address: as for :class:`RayCluster`.

    Raises:
        SettingsError: it is of no kind that Ray knows.
        OutputError: nothing answers there.
        MissingExtraError: Ray is not installed.
    """
    require_path("ray", address)
    place = _HOST_AND_PORT.fullmatch(address)
    if place is None and address not in ("local", "auto"):
        raise SettingsError(f"ray is {address!r}; give local, auto, HOST:PORT or ray://HOST:PORT")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(error.name or "ray", "scale", "work on a Ray cluster") from error
    if place is not None and not ray.is_initialized():
        _require_answer(address, place[1].strip("[]"), int(place[2]))
    return ray


def _connect(ray: Any, address: str) -> None:
    # It would report its use to its makers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
    except (Exception, SystemExit) as error:
        raise OutputError(
            f"the Ray cluster {address!r} cannot be used: {_said(error)}; check the address, or start one with: "
            "ray start --head"
        ) from error


def _require_answer(address: str, host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), _WAIT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise OutputError(
            f"the Ray cluster {address!r} does not answer: {_said(error)}; check the address and the network"
        ) from error


def _processes(ray: Any, threads: int, address: str) -> tuple[int, dict[str, Any]]:
    """How many processes the cluster has room for, and what each needs."""
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    gpus = sum(int(machine.get("GPU", 0)) for machine in machines)
    if gpus:
        return gpus, {"num_gpus": 1, "num_cpus": 1}
    count = sum(int(machine.get("CPU", 0) // threads) for machine in machines)
    if not count:
        raise SettingsError(
            f"no machine of the Ray cluster {address!r} has {threads} CPUs, as many as this process has threads; set "
            "OMP_NUM_THREADS to fewer"
        )
    return count, {"num_cpus": threads}


def _failure(error: Any, what: str) -> GraphdocError:
    cause = error.cause
    if isinstance(cause, GraphdocError):
        return cause
    return OutputError(f"{what}: {type(cause).__name__}: {_said(cause)}; its machines need this version of graphdoc")


def _said(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return one_line(lines[-1], 200)
