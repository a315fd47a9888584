from __future__ import annotations

import math
from typing import Any

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


def test_weights_and_smoothing_matter() -> None:
    logits, targets = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]]), torch.tensor([0, 0, 1])
    plain = ClassificationLoss()(logits, targets).loss.item()
    assert ClassificationLoss(class_weights=(1.0, 2.0))(logits, targets).loss.item() > plain + 0.1
    assert ClassificationLoss(label_smoothing=0.5)(logits, targets).loss.item() > plain + 0.05


def test_logits_in_half_precision_are_compared_in_fp32_under_autocast() -> None:
    logits = (60 * torch.randn(8, 5)).bfloat16().requires_grad_()
    for loss, targets in ((ClassificationLoss(), torch.arange(8) % 5), (ClassificationLoss(True), torch.ones(8, 5))):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = loss(logits, targets)
        output.loss.backward()
        assert output.loss.dtype == torch.float32
        assert logits.grad is not None and torch.isfinite(logits.grad).all()
        assert not output.metrics["accuracy"].requires_grad


@pytest.mark.parametrize("multi_label", [True, False])
def test_no_documents_give_no_loss(multi_label: bool) -> None:
    logits = torch.zeros(0, 3, requires_grad=True)
    targets = torch.zeros(0, 3) if multi_label else torch.zeros(0, dtype=torch.int64)
    output = ClassificationLoss(multi_label, (1.0, 2.0, 3.0))(logits, targets)
    output.loss.backward()
    assert output.loss.item() == output.metrics["accuracy"].item() == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_smoothing": 1.0}, "label_smoothing=1.0 must be at least 0 and below 1"),
        ({"label_smoothing": -0.1}, "label_smoothing=-0.1 must be"),
        ({"class_weights": (1.0, 0.0)}, "the weight 0.0 of class 1 must be a number above 0"),
        ({"class_weights": (math.inf,)}, "the weight inf of class 0"),
        ({"class_weights": (math.nan,)}, "the weight nan of class 0"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassificationLoss(**settings)


@pytest.mark.parametrize(
    ("multi_label", "logits", "targets"),
    [
        (False, (3, 2), (3, 2)),
        (False, (3, 2), (2,)),
        (True, (3, 2), (3,)),
        (True, (3, 2), (3, 4)),
        (False, (3,), (3,)),
    ],
)
def test_shapes_that_do_not_fit(multi_label: bool, logits: tuple[int, ...], targets: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must have the shapes"):
        ClassificationLoss(multi_label)(torch.zeros(logits), torch.zeros(targets, dtype=torch.int64))


def test_weights_of_another_number_of_classes() -> None:
    with pytest.raises(ValueError, match="2 class weights do not fit logits of 3 classes"):
        ClassificationLoss(class_weights=(1.0, 2.0))(torch.zeros(1, 3), torch.zeros(1, dtype=torch.int64))


class TestBalancedWeights:
    def test_single_labels_as_in_scikit_learn(self) -> None:
        labels = np.repeat([0, 1, 2], [5, 1, 30])
        expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
        np.testing.assert_allclose(balanced_weights([5, 1, 30]), expected)

    def test_every_class_counts_as_much(self) -> None:
        counts = [5, 1, 30]
        weights = balanced_weights(counts)
        np.testing.assert_allclose([count * weight for count, weight in zip(counts, weights, strict=True)], 12)

    def test_several_labels(self) -> None:
        assert balanced_weights([5, 1, 10], 20) == (3.0, 19.0, 1.0)

    def test_classes_that_none_or_all_documents_have(self) -> None:
        assert balanced_weights([5, 0, 15]) == (2.0, 1.0, pytest.approx(2 / 3))
        assert balanced_weights([0, 4], 4) == (1.0, 1.0)
        ClassificationLoss(class_weights=balanced_weights([5, 0, 15]))

    @pytest.mark.parametrize(("counts", "documents"), [([], None), ([0, 0], None), ([5], 4), ([-1, 3], None)])
    def test_counts_that_cannot_be(self, counts: list[int], documents: int | None) -> None:
        with pytest.raises(ValueError, match="do not fit"):
            balanced_weights(counts, documents)


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
