from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from graphdoc.modeling.passage_encoder import STEPS, PassageEncoder, QuickDropout, dropout

BERT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
MODERN_BERT = {"attention_dropout": 0.2, "embedding_dropout": 0.2, "mlp_dropout": 0.2}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.93])
def test_a_share_is_zero_and_the_rest_is_scaled(dtype: torch.dtype, share: float) -> None:
    values = torch.randn(257, 1023).abs().add(0.5).neg().to(dtype)
    dropped = dropout(values, share)
    is_zero = dropped == 0
    tolerance = 5 * (share * (1 - share) / values.numel()) ** 0.5
    assert float(is_zero.double().mean()) == pytest.approx(share, abs=tolerance)
    kept = 1 - round(share * STEPS) / STEPS
    assert dropped.dtype == dtype
    expected = values[~is_zero].double() / kept
    torch.testing.assert_close(dropped[~is_zero].double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=0)
    # Elements that share a random number fall independently of each other: in pairs as often as chance has it.
    for distance in (1, 2, 3, 4):
        both = (is_zero[:, distance:] & is_zero[:, :-distance]).double().mean()
        deviation = 5 * (share**2 / values.numel()) ** 0.5 + 1e-3
        assert float(both) == pytest.approx(share**2, abs=deviation)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (3, 7), (2, 3, 4, 5)])
def test_the_pass_without_gradient_draws_the_same_to_the_last_bit(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    values = torch.randn(shape).to(dtype)
    torch.manual_seed(4)
    with torch.no_grad():
        first, kept = dropout(values, 0.3), values.clone()
    after = torch.rand(1)
    torch.manual_seed(4)
    second = dropout(values.clone().requires_grad_(), 0.3)
    assert torch.equal(first, second) and torch.equal(torch.rand(1), after)
    assert torch.equal(values, kept), "what comes in stays as it is"


def test_values_that_are_not_contiguous() -> None:
    values = torch.randn(40, 30).bfloat16()
    for view in (values.T, values[::2, 1:], values[:1].expand(40, 30)):
        torch.manual_seed(1)
        with torch.no_grad():
            found = dropout(view, 0.4)
        torch.manual_seed(1)
        with torch.no_grad():
            assert torch.equal(found, dropout(view.contiguous(), 0.4))


def test_gradient_is_that_of_the_mask() -> None:
    values = torch.randn(50, 60, requires_grad=True)
    dropped = dropout(values, 0.25)
    dropped.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    torch.testing.assert_close(values.grad, (dropped != 0) / 0.75)


@pytest.mark.parametrize("share", [0.0, 1e-9, 1.0])
def test_shares_at_the_ends(share: float) -> None:
    values = torch.randn(30)
    assert torch.equal(dropout(values, share), values * (share < 0.5))


@pytest.mark.parametrize("kind", ["none", "bool", "float"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_is_that_of_torch_but_for_its_mask(kind: str, scale: float | None) -> None:
    query, key = (torch.randn(2, 3, 6, 4) for _ in range(2))
    # With the unit matrix for values the result is the weights.
    value = torch.eye(6).expand(2, 3, 6, 6)
    is_seen = torch.rand(2, 1, 6, 6) > 0.3
    is_seen[..., 0] = True
    mask = {"none": None, "bool": is_seen, "float": torch.randn(2, 1, 6, 6)}[kind]
    weights = functional.scaled_dot_product_attention(query, key, value, mask, scale=scale)
    with QuickDropout():
        dropped = functional.scaled_dot_product_attention(query, key, value, mask, dropout_p=0.25, scale=scale)
        untouched = functional.scaled_dot_product_attention(query, key, value, mask, dropout_p=0.0, scale=scale)
    is_kept = dropped != 0
    assert 0.5 < float(is_kept[weights > 0].float().mean()) < 0.95
    torch.testing.assert_close(dropped[is_kept], weights[is_kept] / 0.75)
    assert torch.equal(untouched, weights)


def test_causal_attention_is_left_to_torch() -> None:
    query, key, value = (torch.randn(1, 1, 5, 4) for _ in range(3))
    torch.manual_seed(2)
    expected = functional.scaled_dot_product_attention(query, key, value, dropout_p=0.5, is_causal=True)
    torch.manual_seed(2)
    with QuickDropout():
        found = functional.scaled_dot_product_attention(query, key, value, dropout_p=0.5, is_causal=True)
    assert torch.equal(found, expected)


def draws_of_torch(encoder: PassageEncoder, gradient: bool) -> tuple[int, Tensor]:
    """How often torch drew masks element by element, and the passage vectors."""
    ids = torch.randint(5, 50, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    torch.manual_seed(6)
    with profile(activities=[ProfilerActivity.CPU]) as profiled, torch.set_grad_enabled(gradient):
        vectors = encoder(ids, mask)
    return sum(event.count for event in profiled.key_averages() if "bernoulli" in event.key), vectors


@pytest.mark.parametrize("gradient", [True, False])
def test_every_transformer_in_training(
    encoder_name: str, tiny_encoder_config: Callable[..., Any], gradient: bool
) -> None:
    settings = MODERN_BERT if encoder_name == "modernbert" else BERT
    encoder = PassageEncoder(tiny_encoder_config(encoder_name, **settings), "mean").train()
    count, vectors = draws_of_torch(encoder, gradient)
    assert count == 0
    assert not torch.allclose(draws_of_torch(encoder.eval(), gradient)[1], vectors), "there is dropout"


def test_not_where_parts_are_computed_twice_outside(tiny_encoder_config: Callable[..., Any]) -> None:
    """With gradient checkpointing the second computation has to draw the same masks as the first."""
    encoder = PassageEncoder(tiny_encoder_config("roberta", **BERT), "mean").train()
    encoder.transformer.activation_checkpointing_enable({"use_reentrant": False})
    count, vectors = draws_of_torch(encoder, True)
    assert count > 0
    vectors.sum().backward()
    found = {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}
    encoder.zero_grad()
    encoder.transformer.activation_checkpointing_disable()
    torch.manual_seed(6)
    ids = torch.randint(5, 50, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    hidden = encoder.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
    ((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).sum().backward()  # type: ignore[no-untyped-call]
    assert found
    for name, parameter in encoder.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, msg=name)


def test_tensors_that_know_only_their_shape_are_left_to_torch() -> None:
    with FakeTensorMode() as mode, QuickDropout():
        fake = mode.from_tensor(torch.ones(2, 1, 5, 4))
        assert functional.dropout(fake, 0.5).shape == fake.shape
        assert functional.scaled_dot_product_attention(fake, fake, fake, dropout_p=0.5).shape == fake.shape
