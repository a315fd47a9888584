"""Losses against the equations of the papers, term by term in NumPy, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

from graphdoc.losses import (
    ClassificationLoss,
    InfoNCE,
    MaskedTokens,
    PairContrast,
    PairCosine,
    SubDocumentContrast,
    SupervisedContrastive,
    balanced_weights,
)

Array = npt.NDArray[np.float64]


class Drawn(NamedTuple):
    """A loss, the rows it has gradients for, its other tensors, and its value and metrics by the rows."""

    loss: Any
    rows: list[Array]
    others: list[Any]
    formula: Callable[..., dict[str, float]]


def unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def surprise(exponents: Array, chosen: int) -> float:
    return float(-np.log(np.exp(exponents[chosen]) / np.exp(exponents).sum()))


def info_nce(draw: np.random.Generator) -> Drawn:
    """The mean over anchors and positives of the surprise at that positive among itself and the negatives."""
    anchors, candidates, most = (int(draw.integers(1, end)) for end in (8, 13, 5))
    temperature, kind = draw.choice([0.2, 1.0]), str(draw.choice(["dot", "cosine"]))
    # Anchors have any number of positives, none included; most candidates are nobody's positive.
    own = [draw.permutation(candidates)[: draw.integers(most + 1)].tolist() for _ in range(anchors)]
    positive = np.full((anchors, most), -1)
    for row, some in zip(positive, own, strict=True):
        row[draw.permutation(most)[: len(some)]] = some
    left_out = draw.random((anchors, candidates)) < 0.3

    def formula(first: Array, second: Array) -> dict[str, float]:
        similarity = unit(first) @ unit(second).T if kind == "cosine" else first @ second.T
        terms = []
        for i, some in enumerate(own):
            negatives = [j for j in range(candidates) if j not in some and not left_out[i, j]]
            if some:
                terms.append(mean([surprise(similarity[i, [p, *negatives]] / temperature, 0) for p in some]))
        return {"loss": mean(terms)}

    rows = [draw.normal(size=(count, 3)) for count in (anchors, candidates)]
    return Drawn(InfoNCE(kind, temperature), rows, [positive, left_out], formula)  # type: ignore[arg-type]


def sub_documents(draw: np.random.Generator) -> Drawn:
    """Equations 5 and 6 of the Graph-RoBERTa paper; documents of one group are no negatives of each other."""
    count, directions = int(draw.integers(1, 9)), str(draw.choice(["both", "one"]))
    groups = draw.integers(count if draw.random() < 0.5 else 10**6, size=count)
    kept = [[j for j in range(count) if j == i or groups[j] != groups[i]] for i in range(count)]

    def formula(first: Array, second: Array) -> dict[str, float]:
        terms = []
        for i in range(count):
            positive = np.exp(first[i] @ second[i])
            terms.append(-np.log(positive / sum(np.exp(first[i] @ second[j]) for j in kept[i])))
            if directions == "both":
                terms.append(-np.log(positive / sum(np.exp(first[j] @ second[i]) for j in kept[i])))
        return {"loss": mean(terms), "left_out_share": 1 - sum(map(len, kept)) / count**2}

    loss = SubDocumentContrast(directions=directions)  # type: ignore[arg-type]
    return Drawn(loss, list(draw.normal(size=(2, count, 3))), [groups], formula)


def supervised(draw: np.random.Generator) -> Drawn:
    """The equation of CoLDE's section 3.3, as a mean over the anchors that have a positive."""
    temperature = draw.choice([0.05, 0.5, 2.0])
    labels = draw.integers(-2, 4, size=draw.integers(1, 13))

    def formula(rows: Array) -> dict[str, float]:
        exponents, terms = unit(rows) @ unit(rows).T / temperature, []
        for i, label in enumerate(labels):
            others = [j for j in range(len(labels)) if j != i]
            positives = [place for place, j in enumerate(others) if labels[j] == label]
            if positives:
                terms.append(mean([surprise(exponents[i, others], place) for place in positives]))
        return {"loss": mean(terms), "skipped_anchors": len(labels) - len(terms)}

    return Drawn(SupervisedContrastive(temperature), [draw.normal(size=(len(labels), 4))], [labels], formula)


def pair_cosine(draw: np.random.Generator) -> Drawn:
    margin, labels = draw.choice([-1.0, -0.2, 0.0, 0.5]), draw.integers(2, size=draw.integers(1, 9))

    def formula(first: Array, second: Array) -> dict[str, float]:
        cosines = (unit(first) * unit(second)).sum(axis=1)
        terms = [1 - one if label else max(0.0, one - margin) for one, label in zip(cosines, labels, strict=True)]
        similar, others = (mean(cosines[labels == label]) for label in (1, 0))
        return {"loss": mean(terms), "positive_similarity": similar, "negative_similarity": others}

    return Drawn(PairCosine(margin), list(draw.normal(size=(2, len(labels), 3))), [labels], formula)


def pair_contrast(draw: np.random.Generator) -> Drawn:
    """Each row of a similar pair looks for the other among the other rows of other groups."""
    temperature, labels = draw.choice([0.2, 1.0]), draw.integers(2, size=draw.integers(1, 9))
    groups = draw.integers(4, size=(2, len(labels)))

    def formula(first: Array, second: Array) -> dict[str, float]:
        cosines, terms = unit(first) @ unit(second).T, []
        for rows, own, others in ((cosines, *groups), (cosines.T, *groups[::-1])):
            for i in np.flatnonzero(labels):
                among = [i, *(j for j in range(len(labels)) if j != i and others[j] != own[i])]
                terms.append(surprise(rows[i, among] / temperature, 0))
        return {"loss": mean(terms), "positive_similarity": mean(np.diag(cosines)[labels == 1])}

    return Drawn(PairContrast(temperature), list(draw.normal(size=(2, len(labels), 3))), [labels, *groups], formula)


def classes(draw: np.random.Generator) -> Drawn:
    """Cross entropy over the softmax, weighted by the class of the document."""
    documents, smoothing, targets, weights, given = classified(draw)

    def formula(logits: Array) -> dict[str, float]:
        total = 0.0
        for i in range(documents):
            terms = weights * [surprise(logits[i], c) for c in range(len(weights))]
            total += (1 - smoothing) * terms[targets[i]] + smoothing * terms.mean()
        return {"loss": total / weights[targets].sum(), "accuracy": mean(logits.argmax(1) == targets)}

    return Drawn(ClassificationLoss(False, given, smoothing), [draw.normal(size=(documents, 4))], [targets], formula)


def several_labels(draw: np.random.Generator) -> Drawn:
    """Binary cross entropy of every class, the weight of a class on the documents that have it."""
    documents, smoothing, _, weights, given = classified(draw)
    targets = draw.integers(2, size=(documents, 4))

    def formula(logits: Array) -> dict[str, float]:
        p, t = 1 / (1 + np.exp(-logits)), (1 - smoothing) * targets + smoothing / 2
        exact = ((logits > 0) == targets).all(axis=1)
        return {"loss": mean(-weights * t * np.log(p) - (1 - t) * np.log(1 - p)), "accuracy": mean(exact)}

    loss = ClassificationLoss(True, given, smoothing)
    return Drawn(loss, [draw.normal(size=(documents, 4))], [targets], formula)


def classified(draw: np.random.Generator) -> tuple[int, float, Any, Array, tuple[float, ...] | None]:
    documents, smoothing, is_weighted = int(draw.integers(1, 9)), draw.choice([0.0, 0.1, 0.7]), draw.random() < 0.5
    weights = draw.uniform(0.2, 5, size=4) if is_weighted else np.ones(4)
    return documents, smoothing, draw.integers(4, size=documents), weights, tuple(weights) if is_weighted else None


def masked_tokens(draw: np.random.Generator) -> Drawn:
    tokens, weight = draw.integers(7, size=draw.integers(1, 13)), draw.choice([0.0, 0.1, 1.0])

    def formula(logits: Array) -> dict[str, float]:
        loss = mean([surprise(row, token) for row, token in zip(logits, tokens, strict=True)])
        right = mean(logits.argmax(1) == tokens)
        return {"loss": weight * loss, "masked_loss": loss, "masked_accuracy": right}

    return Drawn(MaskedTokens(weight), [3 * draw.normal(size=(len(tokens), 7))], [tokens], formula)


@pytest.mark.parametrize(
    "drawn",
    [info_nce, sub_documents, supervised, pair_cosine, pair_contrast, classes, several_labels, masked_tokens],
)
@given(seed=st.integers(0, 100_000))
def test_a_loss_is_its_equation_and_so_is_its_gradient(drawn: Callable[..., Drawn], seed: int) -> None:
    loss, rows, others, formula = drawn(np.random.default_rng(seed))
    tensors = [torch.tensor(one, requires_grad=True) for one in rows]
    output = loss(*tensors, *map(torch.tensor, others))
    output.loss.backward()
    expected = formula(*rows)
    assert output.loss.dtype == torch.float32
    assert output.loss.item() == pytest.approx(expected.pop("loss"), rel=1e-4, abs=1e-5)
    for name, value in expected.items():
        assert output.metrics[name].item() == pytest.approx(value, abs=1e-5), name
    assert not any(value.requires_grad for value in output.metrics.values())
    # Along one direction for all rows, against a difference of the formula in double precision.
    directions = [np.random.default_rng(seed).normal(size=one.shape) for one in rows]
    after, before = (
        formula(*(one + step * towards for one, towards in zip(rows, directions, strict=True)))["loss"]
        for step in (1e-6, -1e-6)
    )
    found = sum(float((one.grad.numpy() * two).sum()) for one, two in zip(tensors, directions, strict=True))  # type: ignore[union-attr]
    assert found == pytest.approx((after - before) / 2e-6, rel=1e-3, abs=1e-4)


def test_the_numbers_to_log_are_means_over_anchors_with_a_positive() -> None:
    anchors, candidates = torch.eye(3), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.0]])
    left_out = torch.zeros(3, 3, dtype=torch.bool)
    left_out[0, 1] = left_out[0, 0] = True
    output = InfoNCE()(anchors, candidates, torch.tensor([[0, -1], [2, -1], [-1, -1]]), left_out)
    assert {name: value.item() for name, value in output.metrics.items()} == pytest.approx(
        # A positive stays one, whatever is left out.
        {"positive_similarity": 0.75, "negative_similarity": 0.25, "accuracy": 0.5, "left_out_share": 1 / 6}
    )
    # Two rows at right angles of the first label, two equal ones of the second, and a lone one at the first row.
    x, y = [1.0, 0.0], [0.0, 1.0]
    vectors, labels = torch.tensor([x, y, y, y, x]), torch.tensor([0, 0, 1, 1, 2])
    metrics = {name: value.item() for name, value in SupervisedContrastive()(vectors, labels).metrics.items()}
    # All nearest rows tie with one of another label.
    expected = {"accuracy": 0, "skipped_anchors": 1, "without_positives": 0}
    similarities = {"positive_similarity": 1 / 2, "negative_similarity": (1 / 3 + 2 / 3 + 1 / 3 + 1 / 3) / 4}
    assert metrics == pytest.approx({**expected, **similarities})
    vectors[1] = torch.tensor([0.8, 0.6])
    assert SupervisedContrastive()(vectors, labels).metrics["accuracy"].item() == pytest.approx(2 / 4)


def test_balanced_weights_let_every_class_count_as_much_as_in_scikit_learn() -> None:
    expected = compute_class_weight("balanced", classes=np.arange(3), y=np.repeat([0, 1, 2], [5, 1, 30]))
    np.testing.assert_allclose(balanced_weights([5, 1, 30]), expected)
    assert balanced_weights([5, 0, 15]) == (2.0, 1.0, pytest.approx(2 / 3))
    # With several labels, documents without the class over those with it; 1 where none or all have it.
    assert balanced_weights([5, 1, 10, 0, 20], 20) == (3.0, 19.0, 1.0, 1.0, 1.0)


def test_parts_of_masked_tokens_add_up_to_the_whole() -> None:
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


@pytest.mark.parametrize(
    ("loss", "values", "tensors"),
    [
        (InfoNCE, {"similarity": "euclid"}, None),
        (SubDocumentContrast, {"directions": "none"}, None),
        *((kind, {"temperature": value}, None)
          for kind in (InfoNCE, PairContrast, SupervisedContrastive) for value in (0.0, math.inf, math.nan)),
        (PairCosine, {"margin": 1.5}, None),
        (InfoNCE, {}, (torch.ones(3, 2), torch.ones(2, 2))),
        (SubDocumentContrast, {}, (torch.ones(3, 2), torch.ones(2, 2))),
        (PairCosine, {}, (torch.ones(2, 2), torch.ones(2, 2), torch.tensor([1, -1]))),
    ],
)  # fmt: skip
def test_what_would_train_something_else_is_refused(loss: Any, values: dict[str, Any], tensors: Any) -> None:
    with pytest.raises(ValueError, match=r"similarity|directions|temperature|margin|candidates|labels"):
        loss(**values)(*tensors)
