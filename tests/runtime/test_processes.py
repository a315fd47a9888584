from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
import torch
from torch import distributed, nn

from graphdoc.errors import ModelError, OutputError
from graphdoc.losses import gathering
from graphdoc.runtime.processes import StopRequest, exchange, usable_device
from graphdoc.training import loop as training


def gradients() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    training.reduce_gradients([weight], 2)


@pytest.mark.parametrize(
    "meet",
    [
        lambda: gathering.Gather(2).rows(torch.ones(2, 3)),
        gradients,
        lambda: training.mean_over_processes(torch.ones(2), 2),
    ],
    ids=["rows", "gradients", "mean"],
)
def test_a_process_that_is_gone_is_reported_in_one_line(
    meet: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("[pair.cc:537] Read error: Connection reset by peer")

    monkeypatch.setattr(gathering, "_all_gather", broken)
    monkeypatch.setattr(distributed, "all_reduce", broken)
    with pytest.raises(OutputError, match=r"another process has stopped"):
        meet()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DataLoader worker (pid 7) is killed"),
        distributed.DistBackendError("NCCL error: unhandled cuda error, out of memory"),
    ],
)
def test_what_goes_wrong_in_the_process_itself_is_not_blamed_on_others(error: RuntimeError) -> None:
    with pytest.raises(type(error)) as raised, exchange():
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 3600000 ms"),
        RuntimeError("[pair.cc:537] Connection closed by peer [127.0.0.1]:4711"),
        distributed.DistNetworkError("failed to recv, got 0 bytes"),
        distributed.DistBackendError("ncclRemoteError: remote process exited or there was a network error"),
    ],
)
def test_a_process_that_does_not_come_is_named(error: RuntimeError) -> None:
    with pytest.raises(OutputError) as raised, exchange():
        raise error
    assert ("process 1, 3 " in str(raised.value)) == ("Ranks" in str(error))
    assert raised.value.__cause__ is error


def test_a_request_to_stop_is_noted_and_the_signal_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as request:
        assert not request.is_made
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.is_made
    assert signal.getsignal(signal.SIGTERM) == before
    # Only the main thread can listen.
    thread = threading.Thread(target=StopRequest().__enter__)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with four GPUs, as far as torch says."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    for name in ("LOCAL_RANK", "ACCELERATE_USE_CPU"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_every_process_takes_its_own_gpu(gpus: pytest.MonkeyPatch) -> None:
    assert usable_device() == torch.device("cuda:0")
    gpus.setenv("LOCAL_RANK", "3")
    assert usable_device("cuda") == usable_device(None) == torch.device("cuda:3")
    assert usable_device("cuda:1") == torch.device("cuda:1")
    # A launcher that shows each process its own GPU alone.
    gpus.setattr(torch.cuda, "device_count", lambda: 1)
    assert usable_device() == usable_device("cuda") == torch.device("cuda:0")
    gpus.setenv("ACCELERATE_USE_CPU", "True")
    assert (usable_device(None), usable_device("cuda")) == (torch.device("cpu"), torch.device("cuda:0"))


@pytest.mark.parametrize("name", ["gpu", 3.5])
def test_a_device_that_torch_does_not_know(name: str) -> None:
    with pytest.raises(ModelError) as error:
        usable_device(name)
    assert f"device {str(name)!r}" in str(error.value)
