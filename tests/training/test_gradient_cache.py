from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphdoc.training import step as gradient_cache
from graphdoc.training.step import GradientCache, RandomStates, preserve_rng_state

CPU = torch.device("cpu")


@pytest.fixture
def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Dropout(0.4), nn.Linear(12, 5)).double()


def loss_of(vectors: Tensor) -> Tensor:
    half = len(vectors) // 2
    logits = vectors[:half] @ vectors[half : 2 * half].T
    return nn.functional.cross_entropy(logits, torch.arange(half))


def gradients(network: nn.Module) -> list[Tensor]:
    result = [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
    network.zero_grad()
    return result


def rows_of(count: int) -> Tensor:
    return torch.randn(count, 6, dtype=torch.float64)


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("size", "keep"), [(1, 0), (3, 5), (7, 0), (7, 1000), (20, 0)])
def test_gradients_are_those_of_a_plain_pass_with_dropout(network: nn.Module, size: int, keep: int) -> None:
    rows = rows_of(20)
    mini_batches = list(rows.split(size))
    torch.manual_seed(3)
    loss_of(torch.cat([network(part) for part in mini_batches])).backward()
    after_plain = torch.rand(1)
    expected = gradients(network)
    # Without dropout the gradients would be others: the test would say nothing about random numbers.
    network.eval()
    loss_of(network(rows)).backward()
    assert not torch.allclose(gradients(network)[0], expected[0])
    network.train()

    torch.manual_seed(3)
    cache = GradientCache(network, mini_batches, CPU, keep_activations=keep, size=len)
    loss_of(cache.rows).backward()
    cache.backward()

    assert_same(gradients(network), expected)
    assert torch.equal(torch.rand(1), after_plain)


def counted(network: nn.Module) -> tuple[Callable[[Tensor], Tensor], list[bool]]:
    passes: list[bool] = []

    def encode(rows: Tensor) -> Tensor:
        passes.append(torch.is_grad_enabled())
        return network(rows)

    return encode, passes


@pytest.mark.parametrize(("keep", "twice"), [(0, 4), (3, 4), (4, 3), (15, 1), (16, 0)])
def test_the_last_mini_batch_and_those_that_fit_are_encoded_once(network: nn.Module, keep: int, twice: int) -> None:
    encode, passes = counted(network)
    cache = GradientCache(encode, rows_of(20).split(4), CPU, keep_activations=keep, size=len)
    loss_of(cache.rows).backward()
    cache.backward()

    assert passes.count(False) == twice
    assert passes.count(True) == 5


@pytest.mark.parametrize("fails", [1, 6])
def test_nothing_stays_of_a_step_that_fails(network: nn.Module, fails: int) -> None:
    """In the first pass, and in the second one: random numbers go on as if nothing had been encoded again."""
    made: list[weakref.ref[Tensor]] = []

    def encode(rows: Tensor) -> Tensor:
        if len(made) == fails:
            torch.rand(3)
            raise RuntimeError("too little memory")
        result = network(rows)
        made.append(weakref.ref(result))
        return result

    def step() -> None:
        cache = GradientCache(encode, rows_of(20).split(4), CPU)
        loss_of(cache.rows).backward()
        states.append(torch.get_rng_state())
        cache.backward()

    states: list[Tensor] = []
    with pytest.raises(RuntimeError, match="too little memory"):
        step()
    gc.collect()
    assert [reference for reference in made if reference() is not None] == []
    assert all(torch.equal(state, torch.get_rng_state()) for state in states)
    assert len(states) == (fails > 5)


@pytest.mark.parametrize("keep", [0, 8])
def test_under_autocast_the_backward_pass_computes_as_the_forward_pass_did(keep: int) -> None:
    first, second = nn.Linear(6, 12), nn.Linear(12, 5)

    def encode(rows: Tensor) -> Tensor:
        hidden = first(rows)
        assert hidden.dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            return torch.matmul(hidden.float().tanh(), second.weight.T)

    def precision() -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16)

    mini_batches = list(torch.randn(20, 6).split(4))
    network = nn.ModuleList([first, second])
    with precision():
        vectors = torch.cat([encode(part) for part in mini_batches])
    loss_of(vectors).backward()
    expected = gradients(network)
    cache = GradientCache(encode, mini_batches, CPU, keep_activations=keep, size=len, precision=precision)
    loss_of(cache.rows).backward()
    cache.backward()
    found = gradients(network)
    # Gradients of weights in bfloat16 are rounded for every mini-batch; the product in fp32 is exact to its rounding.
    torch.testing.assert_close(found[2], expected[2], rtol=1e-5, atol=1e-7)
    for one, other in zip(found, expected, strict=True):
        assert float((one - other).norm()) < 0.02 * float(other.norm())


class OtherDevices:
    """Stands for ``torch.cuda`` with generators of two devices, of which the first one is current."""

    def __init__(self) -> None:
        self.drawn = {0: 0, 1: 0}

    def get_rng_state(self, device: torch.device) -> Tensor:
        return torch.tensor([self.drawn[device.index or 0]], dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device: torch.device) -> None:
        self.drawn[device.index or 0] = int(state)


def test_random_numbers_are_those_of_the_device_that_encodes(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = OtherDevices()
    monkeypatch.setattr(gradient_cache.torch, "get_device_module", lambda device: devices)
    device = torch.device("cuda:1")
    states = RandomStates(device, 3)
    noted = []
    for number in range(3):
        states.note(number)
        noted.append((devices.drawn[1], torch.get_rng_state()))
        devices.drawn[1] += 7
        torch.rand(4)
    after = torch.get_rng_state()
    for number in (2, 0, 1):
        with states.replayed(number):
            assert devices.drawn[1] == noted[number][0]
            assert torch.equal(torch.get_rng_state(), noted[number][1])
            devices.drawn[1] += 1
        assert devices.drawn == {0: 0, 1: 21}
        assert torch.equal(torch.get_rng_state(), after)
    with preserve_rng_state(device):
        devices.drawn[1] += 5
        torch.rand(2)
    assert devices.drawn == {0: 0, 1: 21}
    assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.accelerator.is_available(), reason="needs an accelerator")
def test_gradients_on_the_last_accelerator(network: nn.Module) -> None:
    """With several, the one that encodes is not the current one."""
    kind: Any = torch.accelerator.current_accelerator()
    device = torch.device(kind.type, torch.accelerator.device_count() - 1)
    network = network.float().to(device)
    mini_batches = [part.float().to(device) for part in rows_of(20).split(4)]
    torch.manual_seed(3)
    vectors = torch.cat([network(part) for part in mini_batches])
    vectors.square().sum().backward()
    expected = gradients(network)
    torch.manual_seed(3)
    cache = GradientCache(network, mini_batches, device)
    cache.rows.square().sum().backward()
    cache.backward()
    for one, other in zip(gradients(network), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
