from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from graphdoc.errors import EvaluationError
from graphdoc.evaluation import linear_probe
from graphdoc.evaluation.linear_probe import STRENGTHS

Array = npt.NDArray[np.float64]


def task(seed: int, documents: int = 200) -> tuple[Array, list[str]]:
    """Three labels that stand in the second number, below a first number of far larger scale."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 3, documents)
    vectors = np.stack([1e4 * draw.normal(size=documents), labels + 0.1 * draw.normal(size=documents)], axis=1)
    return vectors, [f"label {label}" for label in labels]


def test_a_small_number_is_read_as_well_as_a_large_one() -> None:
    (train, train_labels), (test, test_labels) = task(0), task(1)
    scores = linear_probe(train, train_labels, test, test_labels)
    assert scores.accuracy > 0.95
    assert scores.macro_f1 > 0.95
    assert scores.strength in STRENGTHS
    # The middle one of three labels in a line needs weight: the weakest strength cannot be the best.
    assert scores.strength > min(STRENGTHS)
    assert scores.to_dict() == {
        "accuracy": scores.accuracy,
        "macro_f1": scores.macro_f1,
        "strength": scores.strength,
    }


def test_metrics_by_definition() -> None:
    train = np.array([[0.0], [0.1], [1.0], [1.1]])
    test, truth = np.array([[0.0], [0.2], [0.1], [1.0]]), ["a", "a", "b", "b"]
    scores = linear_probe(train, ["a", "a", "b", "b"], test, truth)
    # Found are a a a b: a has precision 2/3 and recall 1, b precision 1 and recall 1/2.
    assert scores.accuracy == 0.75
    assert scores.macro_f1 == pytest.approx((0.8 + 2 / 3) / 2)
    assert scores.strength == 1.0


def test_noise_is_not_read() -> None:
    draw = np.random.default_rng(0)
    labels = [str(label) for label in draw.integers(0, 2, 400)]
    vectors = draw.normal(size=(400, 8))
    assert 0.35 < linear_probe(vectors[:200], labels[:200], vectors[200:], labels[200:]).accuracy < 0.65


def test_labels_that_cannot_be_learned() -> None:
    vectors = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(EvaluationError, match=r"train .*c, d, e, \.\.\."):
        linear_probe(vectors, list("aabbab"), vectors, list("abcdef"))
    with pytest.raises(EvaluationError, match=r"train .*'a'"):
        linear_probe(vectors, list("aaaaaa"), vectors, list("aaaaaa"))
