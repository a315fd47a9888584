from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat

import pytest
import torch
from torch import distributed, nn

from graphdoc.errors import OutputError
from graphdoc.losses import gathering
from graphdoc.runtime import heartbeat, processes
from graphdoc.runtime.processes import exchange
from graphdoc.training import distributed as training


def gradients() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    training.reduce_gradients([weight])


@pytest.mark.parametrize(
    "meet",
    [
        lambda: gathering.AllProcesses().rows(torch.ones(2, 3)),
        gradients,
        lambda: training.broadcast_weights(nn.Linear(2, 2)),
        lambda: training.mean_over_processes(torch.ones(2)),
    ],
    ids=["rows", "gradients", "weights", "mean"],
)
def test_a_process_that_is_gone_is_reported_in_one_line(
    meet: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("[pair.cc:537] Read error: Connection reset by peer")

    for module in (gathering, training):
        monkeypatch.setattr(module, "process_count", lambda: 2)
    monkeypatch.setattr(gathering, "_all_gather", broken)
    for name in ("all_reduce", "broadcast"):
        monkeypatch.setattr(distributed, name, broken)
    with pytest.raises(OutputError, match=r"^another process has stopped; mend what its message says"):
        meet()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DataLoader worker (pid 7) is killed"),
        RuntimeError("[enforce fail at pair.cc:446] op.preamble.length <= op.nbytes. 100 vs 40"),
        RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
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
        RuntimeError("[pair.cc:537] Connection closed by peer [127.0.0.1]:4711"),
        RuntimeError("Application timeout caused pair closure"),
        distributed.DistNetworkError("failed to recv, got 0 bytes"),
        distributed.DistBackendError("ncclRemoteError: remote process exited or there was a network error"),
    ],
)
def test_a_lost_process_is_named_where_it_left_word(error: RuntimeError, monkeypatch: pytest.MonkeyPatch) -> None:
    class Known:
        def stopped(self) -> str:
            return "process 3 has stopped: ModelError: its loss is nan"

    monkeypatch.setattr(processes, "_heartbeat", Known())
    with pytest.raises(OutputError) as raised, exchange():
        raise error
    assert "process 3 has stopped: ModelError: its loss is nan" in str(raised.value)
    assert raised.value.__cause__ is error


def test_processes_that_stand_still_are_reported_and_welcomed_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = distributed.HashStore()
    monkeypatch.setattr(distributed.distributed_c10d, "_get_default_store", lambda: store)
    # As in processes of their own.
    monkeypatch.setattr(heartbeat, "_NUMBERS", repeat(0))
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(heartbeat, "SILENCE_SECONDS", 0.5)

    def wait_for(text: str) -> None:
        while text not in caplog.text:
            time.sleep(0.02)

    first, second = heartbeat.Heartbeat(0, 2), heartbeat.Heartbeat(1, 2)
    assert first.stopped() is None
    second.say_stopped("it has had enough")
    assert first.stopped() == "process 1 has stopped: it has had enough"
    second.stop()
    wait_for("process 1 has given no sign of life")
    second = heartbeat.Heartbeat(1, 2)
    wait_for("process 1 works again")
    first.stop()
    second.stop()
    assert "process 0" not in caplog.text
