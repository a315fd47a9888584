from __future__ import annotations

import pytest
import torch

from graphdoc.errors import ModelError
from graphdoc.runtime.devices import default_device, usable_device


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with four GPUs, as far as torch says."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    for name in ("LOCAL_RANK", "ACCELERATE_USE_CPU"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_every_process_takes_its_own_gpu(gpus: pytest.MonkeyPatch) -> None:
    assert default_device() == torch.device("cuda:0")
    gpus.setenv("LOCAL_RANK", "3")
    assert default_device() == usable_device("cuda") == usable_device(None) == torch.device("cuda:3")
    assert usable_device("cuda:1") == torch.device("cuda:1")
    # A launcher that shows each process its own GPU alone.
    gpus.setattr(torch.cuda, "device_count", lambda: 1)
    assert default_device() == usable_device("cuda") == torch.device("cuda:0")


def test_accelerate_can_ask_for_the_processor(gpus: pytest.MonkeyPatch) -> None:
    gpus.setenv("ACCELERATE_USE_CPU", "True")
    assert usable_device(None) == torch.device("cpu")
    assert usable_device("cuda") == torch.device("cuda:0")
    gpus.setenv("ACCELERATE_USE_CPU", "False")
    assert usable_device(None) == torch.device("cuda:0")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", 3.5])
def test_a_device_that_torch_does_not_know(name: str) -> None:
    with pytest.raises(ModelError) as error:
        usable_device(name)
    assert f"device {str(name)!r}" in str(error.value)
