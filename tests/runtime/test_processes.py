from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import distributed, nn

from graphdoc.errors import OutputError
from graphdoc.losses import gathering
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
def test_a_process_that_is_gone_is_told_in_one_line(
    meet: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("[pair.cc:537] Read error: Connection reset by peer")

    for module in (gathering, training):
        monkeypatch.setattr(module, "process_count", lambda: 2)
    for name in ("all_gather_into_tensor", "all_reduce", "broadcast"):
        monkeypatch.setattr(distributed, name, broken)
    with pytest.raises(OutputError, match=r"^another process has stopped; mend what its message says"):
        meet()


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DataLoader worker (pid 7) is killed")]
)
def test_what_goes_wrong_in_the_process_itself_is_not_blamed_on_others(error: RuntimeError) -> None:
    with pytest.raises(type(error)) as raised, exchange():
        raise error
    assert raised.value is error
