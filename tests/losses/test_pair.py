from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from graphdoc.losses import PairContrast, PairCosine


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


def loss_by_hand(first: np.ndarray, second: np.ndarray, labels: list[int], groups: np.ndarray, tau: float) -> float:
    """Each row of a pair looks for the other among the other rows of other groups."""
    terms = []
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second)]
    for own, others, own_groups, other_groups in ((*unit, *groups), (*unit[::-1], *groups[::-1])):
        for i, label in enumerate(labels):
            if label:
                among = [j for j in range(len(labels)) if j == i or other_groups[j] != own_groups[i]]
                exponents = {j: np.exp(own[i] @ others[j] / tau) for j in among}
                terms.append(-np.log(exponents[i] / sum(exponents.values())))
    return float(np.mean(terms)) if terms else 0.0


@given(
    labels=st.lists(st.integers(0, 1), min_size=1, max_size=8),
    temperature=st.sampled_from([0.2, 1.0]),
    seed=st.integers(0, 1000),
)
def test_it_is_its_equation_by_contrast(labels: list[int], temperature: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    first, second = draw.normal(size=(2, len(labels), 3))
    groups = draw.integers(4, size=(2, len(labels)))

    output = PairContrast(temperature)(
        torch.tensor(first), torch.tensor(second), torch.tensor(labels), *torch.tensor(groups)
    )

    expected = loss_by_hand(first, second, labels, groups, temperature)
    assert output.loss.item() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    cosines = functional.cosine_similarity(torch.tensor(first), torch.tensor(second))[torch.tensor(labels) == 1]
    positive = cosines.mean().item() if len(cosines) else 0.0
    assert output.metrics["positive_similarity"].item() == pytest.approx(positive, abs=1e-5)


def test_its_gradient_is_that_of_its_equation() -> None:
    torch.manual_seed(0)
    labels, groups = torch.tensor([1, 0, 1, 1, 0]), torch.tensor([[0, 1, 2, 0, 3], [0, 4, 2, 0, 2]])
    ours = torch.randn(2, 5, 4, requires_grad=True)
    theirs = ours.detach().double().requires_grad_()
    PairContrast(0.3)(ours[0], ours[1], labels, *groups).loss.backward()

    cosines = functional.normalize(theirs[0], dim=1) @ functional.normalize(theirs[1], dim=1).T
    terms = []
    for rows, own, others in ((cosines, *groups), (cosines.T, *groups.flip(0))):
        kept = (own.unsqueeze(1) != others) | torch.eye(5, dtype=torch.bool)
        log_shares = (rows / 0.3).masked_fill(~kept, -torch.inf).log_softmax(dim=1)
        terms.append(-log_shares.diagonal()[labels == 1])
    torch.cat(terms).mean().backward()

    assert ours.grad is not None and theirs.grad is not None
    torch.testing.assert_close(ours.grad, theirs.grad.float())
    # Rows that belong to nobody push others away, but the fifth second row is of the third pair's group.
    assert ours.grad[1, 1].abs().max() > 1e-3
