from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from graphdoc.losses import PairCosine


@given(
    labels=st.lists(st.integers(0, 1), min_size=1, max_size=8),
    margin=st.sampled_from([-1.0, -0.2, 0.0, 0.5]),
    seed=st.integers(0, 1000),
)
def test_it_is_its_equation(labels: list[int], margin: float, seed: int) -> None:
    first, second = np.random.default_rng(seed).normal(size=(2, len(labels), 3))
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(first, second, strict=True)]
    terms = [1 - cosine if label else max(0, cosine - margin) for cosine, label in zip(cosines, labels, strict=True)]

    output = PairCosine(margin)(torch.tensor(first), torch.tensor(second), torch.tensor(labels))

    assert output.loss.item() == pytest.approx(np.mean(terms), rel=1e-5, abs=1e-6)
    for name, label in (("positive_similarity", 1), ("negative_similarity", 0)):
        chosen = [cosine for cosine, own in zip(cosines, labels, strict=True) if own == label]
        assert output.metrics[name].item() == pytest.approx(np.mean(chosen) if chosen else 0, abs=1e-6)


def test_its_gradient_is_that_of_torch() -> None:
    torch.manual_seed(0)
    first, second, labels = torch.randn(9, 4), torch.randn(9, 4), torch.tensor([1, 0, 0, 1, 0, 1, 1, 0, 0])
    ours, theirs = first.clone().requires_grad_(), first.clone().requires_grad_()

    PairCosine(0.1)(ours, second, labels.float()).loss.backward()
    functional.cosine_embedding_loss(theirs, second, 2 * labels - 1, margin=0.1).backward()

    assert ours.grad is not None and theirs.grad is not None
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert ours.grad.abs().max() > 1e-3


def test_no_pairs_have_no_loss() -> None:
    vectors = torch.zeros(0, 3, requires_grad=True)
    output = PairCosine()(vectors, vectors, torch.zeros(0))
    output.loss.backward()
    assert output.loss.item() == 0


def test_half_precision_is_compared_in_fp32_under_autocast() -> None:
    torch.manual_seed(0)
    first, second, labels = (*(100 * torch.randn(2, 8, 16)).bfloat16(), torch.arange(8) % 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = PairCosine()(first, second, labels)
    exact = functional.cosine_embedding_loss(first.double(), second.double(), 2 * labels - 1)
    assert output.loss.dtype == torch.float32
    assert output.loss.item() == pytest.approx(exact.item(), rel=1e-5)


@pytest.mark.parametrize("margin", [1.0, -1.5, float("nan")])
def test_a_margin_out_of_range_is_refused(margin: float) -> None:
    with pytest.raises(ValueError, match=r"margin=\S+ must be at least -1 and below 1"):
        PairCosine(margin)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(pairs, hidden\)"):
        PairCosine()(torch.randn(3, 2), torch.randn(2, 2), torch.ones(3))
    with pytest.raises(ValueError, match=r"must be \(pairs, hidden\)"):
        PairCosine()(torch.randn(3, 2), torch.randn(3, 2), torch.ones(2))
    with pytest.raises(ValueError, match="labels must be 0 or 1"):
        PairCosine()(torch.randn(2, 2), torch.randn(2, 2), torch.tensor([1, -1]))
