from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional

from graphdoc.losses import ClassificationLoss, MaskedTokens, balanced_weights

sizes = {"documents": st.integers(1, 8), "classes": st.integers(2, 6), "seed": st.integers(0, 1000)}


@given(**sizes, smoothing=st.sampled_from([0.0, 0.1, 0.7]), weighted=st.booleans())
def test_single_labels_term_by_term(documents: int, classes: int, seed: int, smoothing: float, weighted: bool) -> None:
    draw = np.random.default_rng(seed)
    logits, targets = draw.normal(size=(documents, classes)), draw.integers(classes, size=documents)
    weights = draw.uniform(0.2, 5, size=classes) if weighted else np.ones(classes)
    total = 0.0
    for i in range(documents):
        log_p = logits[i] - np.log(np.exp(logits[i]).sum())
        total += (1 - smoothing) * weights[targets[i]] * -log_p[targets[i]]
        total += smoothing / classes * sum(weights[c] * -log_p[c] for c in range(classes))

    loss = ClassificationLoss(class_weights=tuple(weights) if weighted else None, label_smoothing=smoothing)
    output = loss(torch.tensor(logits), torch.tensor(targets))

    assert output.loss.item() == pytest.approx(total / sum(weights[targets]), rel=1e-5)
    assert output.metrics["accuracy"].item() == pytest.approx(np.mean(logits.argmax(1) == targets))
    torch_weights = torch.tensor(weights).float()
    expected = functional.cross_entropy(
        torch.tensor(logits).float(), torch.tensor(targets), torch_weights, label_smoothing=smoothing
    )
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5)


@given(**sizes, smoothing=st.sampled_from([0.0, 0.1, 0.7]), weighted=st.booleans())
def test_several_labels_term_by_term(
    documents: int, classes: int, seed: int, smoothing: float, weighted: bool
) -> None:
    draw = np.random.default_rng(seed)
    logits, targets = draw.normal(size=(documents, classes)), draw.integers(2, size=(documents, classes))
    weights = draw.uniform(0.2, 5, size=classes) if weighted else np.ones(classes)
    total = 0.0
    for i in range(documents):
        for c in range(classes):
            p = 1 / (1 + math.exp(-logits[i, c]))
            t = (1 - smoothing) * targets[i, c] + smoothing / 2
            total += -weights[c] * t * math.log(p) - (1 - t) * math.log(1 - p)

    loss = ClassificationLoss(True, tuple(weights) if weighted else None, smoothing)
    output = loss(torch.tensor(logits), torch.tensor(targets).float())

    assert output.loss.item() == pytest.approx(total / (documents * classes), rel=1e-5)
    exact = np.mean([(logits[i] > 0).tolist() == targets[i].astype(bool).tolist() for i in range(documents)])
    assert output.metrics["accuracy"].item() == pytest.approx(exact)


def test_balanced_weights_let_every_class_count_as_much_as_in_scikit_learn() -> None:
    expected = compute_class_weight("balanced", classes=np.arange(3), y=np.repeat([0, 1, 2], [5, 1, 30]))
    np.testing.assert_allclose(balanced_weights([5, 1, 30]), expected)
    assert balanced_weights([5, 0, 15]) == (2.0, 1.0, pytest.approx(2 / 3))
    # With several labels, documents without the class over those with it; 1 where none or all have it.
    assert balanced_weights([5, 1, 10, 0, 20], 20) == (3.0, 19.0, 1.0, 1.0, 1.0)


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
