from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from forked import PATIENCE
from torch import distributed, nn
from typed import Patch

from graphdoc.errors import GraphdocError, MissingExtraError, ModelError, OutputError, SettingsError
from graphdoc.losses import base as losses
from graphdoc.runtime.processes import StopRequest, exchange, usable_device
from graphdoc.runtime.ray import RayCluster
from graphdoc.runtime.workers import work_ahead
from graphdoc.training import loop as training

PEER_LOST = RuntimeError("[pair.cc:537] Connection closed by peer [127.0.0.1]:4711")


def gradients() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    training.reduce_gradients([weight], 2)


@pytest.mark.parametrize(
    "meet",
    [
        lambda: losses.Gather(2).rows(torch.ones(2, 3)),
        gradients,
        lambda: training.mean_over_processes(torch.ones(2), 2),
    ],
    ids=["rows", "gradients", "mean"],
)
def test_a_process_that_is_gone_is_reported(meet: Callable[[], object], monkeypatch: Patch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise PEER_LOST

    monkeypatch.setattr(losses, "_all_gather", broken)
    monkeypatch.setattr(training, "reduce", broken)
    with pytest.raises(OutputError):
        meet()


@pytest.mark.parametrize(
    ("error", "is_of_others"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), False),
        (RuntimeError("DataLoader worker (pid 7) is killed"), False),
        (distributed.DistBackendError("NCCL error: unhandled cuda error, out of memory"), False),
        (RuntimeError("[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 3600000 ms"), True),
        (PEER_LOST, True),
        (distributed.DistNetworkError("failed to recv, got 0 bytes"), True),
        (distributed.DistBackendError("ncclRemoteError: remote process exited or there was a network error"), True),
    ],
)
def test_others_are_blamed_for_what_they_did_alone(error: RuntimeError, is_of_others: bool) -> None:
    with pytest.raises(OutputError if is_of_others else type(error)) as raised, exchange():
        raise error
    assert error in (raised.value, raised.value.__cause__)
    assert ("process 1, 3 " in str(raised.value)) == ("Ranks" in str(error))


def test_a_request_to_stop_is_noted_and_the_signal_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as request:
        assert not request.is_made
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.is_made
    # Only the main thread can listen.
    thread = threading.Thread(target=StopRequest().__enter__)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before


def test_every_process_takes_its_own_gpu(monkeypatch: Patch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    for name in ("LOCAL_RANK", "ACCELERATE_USE_CPU"):
        monkeypatch.delenv(name, raising=False)
    assert usable_device() == torch.device("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert usable_device("cuda") == usable_device(None) == torch.device("cuda:3")
    assert usable_device("cuda:1") == torch.device("cuda:1")
    # A launcher that shows each process its own GPU alone.
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert usable_device() == usable_device("cuda") == torch.device("cuda:0")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    assert (usable_device(None), usable_device("cuda")) == (torch.device("cpu"), torch.device("cuda:0"))
    for wrong in ("gpu", 3.5):
        with pytest.raises(ModelError, match=repr(str(wrong))):
            usable_device(wrong)


ROOT = Path(__file__).parents[2]


def total(shared: int, block: list[int]) -> int:
    if -1 in block:
        raise ValueError("block with -1")
    return shared + sum(block)


def end(shared: int, block: list[int]) -> int:
    os._exit(9)


@pytest.mark.parametrize("workers", [0, 3])
def test_results_come_in_order(workers: int) -> None:
    blocks = [[number, number] if number % 3 else [] for number in range(20)]
    assert list(work_ahead(total, 100, blocks, workers)) == [100 + sum(block) for block in blocks]
    assert multiprocessing.active_children() == []


def test_blocks_are_read_only_a_little_ahead() -> None:
    read: list[int] = []

    def blocks() -> Iterator[list[int]]:
        for number in range(100):
            read.append(number)
            yield [number]

    results = work_ahead(total, 0, blocks(), 2)
    assert next(results) == 0
    assert len(read) <= 6
    results.close()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("broken", ["block", "reader"])
def test_an_error_is_raised_in_its_turn(workers: int, broken: str) -> None:
    def blocks() -> Iterator[list[int]]:
        yield from ([1], [2])
        if broken == "reader":
            raise ValueError("unreadable")
        yield from ([-1], [4])

    results = work_ahead(total, 0, blocks(), workers)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(ValueError, match=r"-1|unreadable"):
        next(results)
    assert multiprocessing.active_children() == []


def test_workers_that_are_ended_from_outside() -> None:
    with pytest.raises(GraphdocError, match="workers=2"):
        list(work_ahead(end, 0, [[1], [2]], 2))
    # A request to end waits until their program is done.
    results = work_ahead(total, 0, ([number] for number in range(50)), 2)
    found = [next(results)]
    for worker in multiprocessing.active_children():
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGTERM)
    assert [*found, *results] == list(range(50))
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
def test_ctrl_c_ends_the_workers_in_silence(tmp_path: Path) -> None:
    program = """
import os, time
from graphdoc.runtime.workers import work_ahead

def slow(shared, block):
    time.sleep(0.05)
    return os.getpid()

try:
    for number, pid in enumerate(work_ahead(slow, None, ([n] for n in range(10**6)), 2)):
        print(pid, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    (tmp_path / "program.py").write_text(program)

    def listen_to_control_c() -> None:
        # What a shell starts in the background ignores it, and so would everything that is started from there.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, tmp_path / "program.py"], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=listen_to_control_c,
    )  # fmt: skip
    assert process.stdout is not None
    pids = {int(process.stdout.readline()) for _ in range(8)}
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert out.endswith("interrupted\n")
    assert err == ""
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_addresses_that_lead_nowhere_are_refused(monkeypatch: Patch) -> None:
    pytest.importorskip("ray", reason="needs the extra graphdoc[scale]")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = taken.getsockname()[1]
        for address in (f"127.0.0.1:{closed}", f"ray://127.0.0.1:{closed}", "127.0.0.1:99999"):
            with pytest.raises(OutputError, match=address):
                RayCluster(address, None)
    for address in ("nonsense", "http://a:1", "local:x", ""):
        with pytest.raises(SettingsError, match=repr(address)):
            RayCluster(address, None)


def test_without_ray_the_extra_is_named(monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="scale"):
        RayCluster("local", None)
