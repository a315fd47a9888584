from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from graphdoc.losses import InfoNCE
from graphdoc.training.gradient_cache import GradientCache


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


@pytest.mark.parametrize("size", [1, 3, 4, 7, 20])
@pytest.mark.parametrize("keep", [0, 5, 1000])
def test_gradients_are_those_of_a_plain_pass_with_dropout(network: nn.Module, size: int, keep: int) -> None:
    rows = torch.randn(20, 6, dtype=torch.float64)
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
    cache = GradientCache(network, keep, len)
    loss_of(cache.forward(mini_batches)).backward()
    cache.backward()

    for found, wanted in zip(gradients(network), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)
    assert torch.equal(torch.rand(1), after_plain)


def counted(network: nn.Module) -> tuple[Callable[[Tensor], Tensor], list[bool]]:
    passes: list[bool] = []

    def encode(rows: Tensor) -> Tensor:
        passes.append(torch.is_grad_enabled())
        return network(rows)

    return encode, passes


@pytest.mark.parametrize(("keep", "twice"), [(0, 5), (3, 5), (4, 4), (9, 3), (19, 1), (20, 0)])
def test_mini_batches_that_fit_are_encoded_once(network: nn.Module, keep: int, twice: int) -> None:
    encode, passes = counted(network)
    cache = GradientCache(encode, keep, len)

    loss_of(cache.forward(list(torch.randn(20, 6, dtype=torch.float64).split(4)))).backward()
    cache.backward()

    assert passes.count(False) == twice
    assert passes.count(True) == 5


def test_no_activations_are_held_between_the_passes(network: nn.Module) -> None:
    cache = GradientCache(network)
    held: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: held.append(tensor.numel()) or tensor, lambda t: t):
        vectors = cache.forward(list(torch.randn(20, 6, dtype=torch.float64).split(4)))
        assert held == []
        loss_of(vectors).backward()
        held.clear()
        cache.backward()
    assert held


def test_a_loss_that_does_not_look_leaves_no_gradients(network: nn.Module) -> None:
    cache = GradientCache(network)
    cache.forward([torch.randn(4, 6, dtype=torch.float64)])
    cache.backward()

    assert gradients(network) == []


def test_one_cache_can_stand_on_another(network: nn.Module) -> None:
    """As graphs in slices stand on passages in mini-batches."""
    upper = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.3)).double()
    rows = torch.randn(12, 6, dtype=torch.float64)
    slices = list(torch.arange(12).split(5))
    torch.manual_seed(0)
    vectors = torch.cat([network(part) for part in rows.split(4)])
    loss_of(torch.cat([upper(vectors[part]) for part in slices])).backward()
    expected = [*gradients(network), *gradients(upper)]

    torch.manual_seed(0)
    lower_cache = GradientCache(network)
    leaf = lower_cache.forward(list(rows.split(4)))
    upper_cache: GradientCache[Tensor] = GradientCache(lambda part: upper(leaf[part]))
    loss_of(upper_cache.forward(slices)).backward()
    upper_cache.backward()
    lower_cache.backward()

    for found, wanted in zip([*gradients(network), *gradients(upper)], expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)


def test_it_works_with_the_loss_of_the_package(network: nn.Module) -> None:
    rows = torch.randn(8, 6, dtype=torch.float64)
    cache = GradientCache(network)
    vectors = cache.forward(list(rows.split(3)))
    InfoNCE("cosine", 0.2)(vectors[:4], vectors[4:]).loss.backward()
    cache.backward()

    assert all(torch.isfinite(gradient).all() for gradient in gradients(network))


@pytest.mark.parametrize("keep", [0, 8, 1000])
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
    cache = GradientCache(encode, keep, len, precision)
    loss_of(cache.forward(mini_batches)).backward()
    cache.backward()
    found = gradients(network)
    # Gradients of weights in bfloat16 are rounded for every mini-batch; the product in fp32 is exact to its rounding.
    torch.testing.assert_close(found[2], expected[2], rtol=1e-5, atol=1e-7)
    for one, other in zip(found, expected, strict=True):
        assert float((one - other).norm()) < 0.02 * float(other.norm())
