from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
import torch
from torch import distributed, nn
from typed import Patch

from graphdoc.errors import ModelError, OutputError
from graphdoc.losses import gathering
from graphdoc.runtime.processes import StopRequest, exchange, usable_device
from graphdoc.training import loop as training

PEER_LOST = RuntimeError("[pair.cc:537] Connection closed by peer [127.0.0.1]:4711")


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
def test_a_process_that_is_gone_is_reported(meet: Callable[[], object], monkeypatch: Patch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise PEER_LOST

    monkeypatch.setattr(gathering, "_all_gather", broken)
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
