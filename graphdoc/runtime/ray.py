"""Work on a Ray cluster by actors; its datasets would be read there, and documents are read by who writes."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Generator, Iterable
from itertools import islice
from typing import Any

import torch

from ..errors import GraphdocError, MissingExtraError, OutputError, SettingsError
from .text import one_line, require_path

# How often a process that died is restarted, and its task.
MOST_RESTARTS, MOST_RETRIES = 20, 2
_HOST_AND_PORT = re.compile(r"(?:ray://)?(\[[^\]]+\]|[^:/\s]+):(\d{1,5})")


class RayCluster:
    """A connection to a cluster, and processes that hold a worker there.

    A process takes a GPU where the cluster has any. Else it computes with as many threads as this one, and gets as
    many CPUs, so that numbers are the same to the last bit. A process that dies is replaced, and its task done again.

    Args:
        address: ``local`` for a cluster on this machine, which ends with this; ``auto`` for the one that runs on it;
            or ``HOST:PORT`` or ``ray://HOST:PORT``. A connection that this program has made already is used.
        worker: the object, whose method ``begin`` is called once in every process.

    Raises:
        SettingsError: the address is of no kind that Ray knows, or the cluster has too few CPUs.
        OutputError: the cluster does not answer.
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, address: str, worker: Any) -> None:
        self._ray = ray = require_cluster(address)
        self._is_own = not ray.is_initialized()
        self._actors: list[Any] = []
        try:
            if self._is_own:
                # It would report its use to its makers.
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
                local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", **local)
            threads = torch.get_num_threads()
            count, needs = _processes(ray, threads, address)
            kind = ray.remote(_Actor).options(max_restarts=MOST_RESTARTS, max_task_retries=MOST_RETRIES, **needs)
            shared = ray.put(worker)
            self._actors = [kind.remote(shared, threads) for _ in range(count)]
        except (ConnectionError, RuntimeError, SystemExit) as error:
            raise OutputError(f"the Ray cluster {address!r} cannot be used: {error!r}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, and the connection if it was made here."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._is_own:
            self._ray.shutdown()

    def map(self, method: str, contents: Iterable[Any]) -> Generator[Any]:
        """Let processes call a method of the worker with each content; results come in the order they are done.

        Two are under way for every process, and no more are read. An error of a task is raised here.
        """
        coming = iter(contents)
        free, busy = self._actors * 2, dict[Any, Any]()
        while True:
            for content in islice(coming, len(free)):
                actor = free.pop(0)
                busy[actor.do.remote(method, content)] = actor
            if not busy:
                return
            (done,), _ = self._ray.wait(list(busy), num_returns=1)
            free.append(busy.pop(done))
            try:
                result = self._ray.get(done)
            except self._ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None) or error
                if isinstance(cause, GraphdocError):
                    raise cause from error
                raise OutputError(f"a task on the Ray cluster failed: {cause!r}") from error
            yield result


class _Actor:
    def __init__(self, worker: Any, threads: int) -> None:
        torch.set_num_threads(threads)
        self._worker = worker
        worker.begin()

    def do(self, method: str, content: Any) -> Any:
        return getattr(self._worker, method)(content)


def require_cluster(address: str) -> Any:
    """Give the library Ray, where something answers at an address (errors as for :class:`RayCluster`)."""
    require_path("ray", address)
    place = _HOST_AND_PORT.fullmatch(address)
    if place is None and address not in ("local", "auto"):
        raise SettingsError(f"ray is {address!r}; give local, auto, HOST:PORT or ray://HOST:PORT")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(error.name or "ray", "scale", "work on a Ray cluster") from error
    if place is not None and not ray.is_initialized():
        try:
            socket.create_connection((place[1].strip("[]"), int(place[2])), timeout=10).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise OutputError(f"the Ray cluster {address!r} does not answer: {one_line(str(error), 200)}") from error
    return ray


def _processes(ray: Any, threads: int, address: str) -> tuple[int, dict[str, Any]]:
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    if gpus := sum(int(machine.get("GPU", 0)) for machine in machines):
        return gpus, {"num_gpus": 1, "num_cpus": 1}
    count = sum(int(machine.get("CPU", 0) // threads) for machine in machines)
    if not count:
        raise SettingsError(f"no machine of the Ray cluster {address!r} has {threads} CPUs (OMP_NUM_THREADS)")
    return count, {"num_cpus": threads}
