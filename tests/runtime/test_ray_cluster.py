"""Tasks on a Ray cluster: who does which, and what an error or a death costs.

Here a stand-in for Ray does every task when it is waited for; with Ray itself see ``tests/vectors/test_ray.py``.
"""

from __future__ import annotations

import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphdoc.errors import DocumentError, GraphdocError, MissingExtraError, OutputError, SettingsError
from graphdoc.runtime.ray_cluster import MOST_DEATHS, RayCluster


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(f"a long account\n{cause}")
        self.cause = cause


class Death(Exception):
    """Raised by a worker that takes its process with it."""


@dataclass(eq=False)
class Reference:
    """What will be done when it is waited for."""

    run: Callable[[], Any]


class StandIn:
    """As much of Ray as is used."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, **resources: float) -> None:
        self.machines = [{"Alive": True, "Resources": resources}, {"Alive": False, "Resources": {"CPU": 9.0}}]
        self.options_given: list[dict[str, Any]] = []
        self.started = 0
        self.killed = 0
        self.open = False
        self.address: str | None = None
        self.most_under_way = 0
        self.is_full = False

    def is_initialized(self) -> bool:
        return self.open

    def init(self, address: str, **_: Any) -> None:
        self.open, self.address = True, address

    def shutdown(self) -> None:
        self.open = False

    def nodes(self) -> list[dict[str, Any]]:
        return self.machines

    def put(self, value: Any) -> Any:
        return value

    def kill(self, _: Any) -> None:
        self.killed += 1

    def remote(self, kind: Any) -> Any:
        def make(*arguments: Any) -> Any:
            self.started += 1
            actor = kind(*arguments)
            return SimpleNamespace(
                begin=SimpleNamespace(remote=lambda: Reference(actor.begin)),
                do=SimpleNamespace(remote=lambda method, content: Reference(lambda: actor.do(method, content))),
            )

        def options(**given: Any) -> Any:
            self.options_given.append(given)
            return SimpleNamespace(remote=make)

        return SimpleNamespace(options=options)

    def wait(self, references: list[Any], num_returns: int, timeout: float) -> Any:
        self.most_under_way = max(self.most_under_way, len(references))
        if self.is_full:
            self.is_full = False
            return [], references
        return references[:num_returns], references[num_returns:]

    def get(self, reference: Any) -> Any:
        try:
            return reference.run()
        except Death as death:
            raise RayError(str(death)) from None
        except Exception as error:
            raise RayTaskError(error) from None


class Squares:
    """Squares numbers; some take the process with them, or fail."""

    def __init__(self, deaths: dict[int, int] | None = None, fails: tuple[int, ...] = (), starts: int = 0) -> None:
        self.deaths, self.fails, self.bad_starts = Counter(deaths or {}), fails, starts
        self.done: list[int] = []

    def begin(self) -> None:
        if self.bad_starts:
            self.bad_starts -= 1
            raise Death("no start")

    def square(self, number: int) -> int:
        if self.deaths[number]:
            self.deaths[number] -= 1
            raise Death(f"died of {number}")
        if number in self.fails:
            raise DocumentError(f"document {number} has no text")
        self.done.append(number)
        return number * number


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    made = StandIn(CPU=2.0 * torch.get_num_threads())
    monkeypatch.setitem(sys.modules, "ray", made)  # type: ignore[arg-type]
    yield made
    assert not made.open


def test_every_task_is_done_once_and_read_as_it_is_needed(ray: StandIn) -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(9):
            read.append(number)
            yield number

    worker = Squares()
    with RayCluster("local", worker) as cluster:
        assert cluster.count == 2
        found = []
        for result in cluster.map("square", numbers()):
            found.append(result)
            assert len(read) <= len(found) + 2 * cluster.count
        assert cluster.ask("square", 11) == 121
    assert sorted(found) == [number * number for number in range(9)]
    assert (ray.started, ray.most_under_way, ray.address) == (2, 2, "local")
    assert ray.options_given == [{"max_restarts": 0, "num_cpus": torch.get_num_threads()}]


def test_a_death_costs_its_task_alone(ray: StandIn) -> None:
    worker = Squares(deaths={3: 1, 5: 2})
    with RayCluster("auto", worker) as cluster:
        assert sorted(cluster.map("square", range(8))) == [number * number for number in range(8)]
    assert sorted(worker.done) == list(range(8))
    assert ray.started == 2 + 3


def test_a_task_that_ends_every_process_is_given_up(ray: StandIn) -> None:
    with RayCluster("local", Squares(deaths={1: 99})) as cluster, pytest.raises(OutputError) as error:
        list(cluster.map("square", range(4)))
    assert "died of 1" in str(error.value)
    assert f"{MOST_DEATHS} times" in str(error.value)


def test_processes_that_do_not_start_are_given_up(ray: StandIn) -> None:
    with RayCluster("local", Squares(starts=2)) as cluster:
        assert list(cluster.map("square", [2])) == [4]
    with RayCluster("local", Squares(starts=99)) as cluster, pytest.raises(OutputError) as error:
        list(cluster.map("square", [2]))
    assert "no start" in str(error.value)


def test_an_error_lets_tasks_under_way_finish(ray: StandIn) -> None:
    worker = Squares(fails=(2,))
    found = []
    with RayCluster("local", worker) as cluster, pytest.raises(DocumentError) as error:
        found.extend(cluster.map("square", range(50)))
    assert str(error.value) == "document 2 has no text"
    assert 3 <= len(worker.done) <= 6


def test_an_error_of_the_source_comes_after_what_was_read(ray: StandIn) -> None:
    def numbers() -> Iterator[int]:
        yield from (1, 2, 3)
        raise DocumentError("number 4 cannot be read")

    worker = Squares()
    found: list[int] = []
    with RayCluster("local", worker) as cluster, pytest.raises(DocumentError, match="number 4"):
        for result in cluster.map("square", numbers()):
            found.append(result)
    assert worker.done == [1, 2, 3][: len(worker.done)]
    assert found == [number**2 for number in worker.done]


def test_a_connection_that_is_there_stays_open(ray: StandIn) -> None:
    ray.init("elsewhere")
    with RayCluster("auto", Squares()) as cluster:
        assert cluster.ask("square", 3) == 9
    assert (ray.open, ray.address, ray.killed) == (True, "elsewhere", 2)
    ray.shutdown()


def test_gpus_are_taken_where_there_are_any(ray: StandIn) -> None:
    ray.machines[0]["Resources"] = {"CPU": 64.0, "GPU": 4.0}
    with RayCluster("local", Squares()) as cluster:
        assert cluster.count == 4
    assert ray.options_given == [{"max_restarts": 0, "num_gpus": 1, "num_cpus": 1}]


def test_a_cluster_that_is_busy_is_waited_for(ray: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    ray.is_full = True
    with RayCluster("local", Squares()) as cluster:
        assert cluster.ask("square", 3) == 9
    assert "waiting" in caplog.text


def test_a_cluster_without_room_is_refused(ray: StandIn) -> None:
    ray.machines[0]["Resources"] = {"CPU": 0.0}
    with pytest.raises(SettingsError) as error:
        RayCluster("local", Squares())
    assert "OMP_NUM_THREADS" in str(error.value)


def test_addresses_that_lead_nowhere_are_refused(ray: StandIn) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = taken.getsockname()[1]
        for address in (f"127.0.0.1:{closed}", f"ray://127.0.0.1:{closed}", "127.0.0.1:99999"):
            with pytest.raises(OutputError) as output:
                RayCluster(address, Squares())
            assert address in str(output.value)
    for address in ("nonsense", "http://a:1", "local:x", ""):
        with pytest.raises(SettingsError) as error:
            RayCluster(address, Squares())
        assert repr(address) in str(error.value)


def test_ray_itself_may_refuse(ray: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: str, **_: Any) -> None:
        raise SystemExit(15) if address == "auto" else ConnectionError("Could not find\nany running instance")

    monkeypatch.setattr(ray, "init", refuse)
    for address in ("auto", "local"):
        with pytest.raises(OutputError) as error:
            RayCluster(address, Squares())
        assert repr(address) in str(error.value)
        assert "\n" not in str(error.value)


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError) as error:
        RayCluster("local", Squares())
    assert "scale" in str(error.value)


def test_other_errors_name_their_kind(ray: StandIn) -> None:
    with RayCluster("local", Squares()) as cluster, pytest.raises(GraphdocError) as error:
        cluster.ask("square", "text")
    assert "TypeError" in str(error.value)
