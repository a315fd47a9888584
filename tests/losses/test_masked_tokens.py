from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from graphdoc.losses import MaskedTokens


@given(masked=st.integers(1, 12), weight=st.sampled_from([0.0, 0.1, 1.0]), seed=st.integers(0, 1000))
def test_it_is_its_equation(masked: int, weight: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    logits, tokens = 3 * draw.normal(size=(masked, 7)), draw.integers(7, size=masked)
    terms = [np.log(np.exp(row).sum()) - row[token] for row, token in zip(logits, tokens, strict=True)]
    right = [row.argmax() == token for row, token in zip(logits, tokens, strict=True)]

    output = MaskedTokens(weight)(torch.tensor(logits), torch.tensor(tokens))

    assert output.loss.item() == pytest.approx(weight * np.mean(terms), rel=1e-5, abs=1e-6)
    assert output.metrics["masked_loss"].item() == pytest.approx(np.mean(terms), rel=1e-5, abs=1e-6)
    assert output.metrics["masked_accuracy"].item() == pytest.approx(np.mean(right))


def test_parts_add_up_to_the_whole() -> None:
    logits, tokens = torch.randn(9, 5), torch.arange(9) % 5
    whole, parts = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    expected = MaskedTokens(0.5)(whole, tokens)
    expected.loss.backward()

    among = torch.tensor(9)
    found = [MaskedTokens(0.5)(parts[rows], tokens[rows], among) for rows in (slice(0, 4), slice(4, 4), slice(4, 9))]
    torch.stack([part.loss for part in found]).sum().backward()

    torch.testing.assert_close(sum(part.loss for part in found), expected.loss)
    for name, value in expected.metrics.items():
        torch.testing.assert_close(sum(part.metrics[name] for part in found), value)
    torch.testing.assert_close(parts.grad, whole.grad)
    assert float(whole.grad.abs().max()) > 1e-2


def test_no_masked_tokens_have_no_loss() -> None:
    logits = torch.zeros(0, 5, requires_grad=True)
    output = MaskedTokens()(logits, torch.zeros(0, dtype=torch.int64))
    output.loss.backward()
    assert output.loss.item() == output.metrics["masked_accuracy"].item() == 0


def test_half_precision_is_computed_in_fp32_under_autocast() -> None:
    logits, tokens = (10 * torch.randn(8, 50)).bfloat16(), torch.arange(8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = MaskedTokens()(logits, tokens)
    assert output.loss.dtype == torch.float32
    assert output.loss.item() == pytest.approx(functional.cross_entropy(logits.double(), tokens).item(), rel=1e-5)


@pytest.mark.parametrize("shapes", [((3, 5), (2,)), ((3,), (3,)), ((1, 3, 5), (3,))])
def test_shapes_that_do_not_fit_are_refused(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="masked"):
        MaskedTokens()(torch.zeros(shapes[0]), torch.zeros(shapes[1], dtype=torch.int64))


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="weight=-1"):
        MaskedTokens(-1)
