from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.evaluation.bootstrap import resampled_means
from graphdoc.evaluation.faithfulness.removal_curves import (
    KINDS,
    areas,
    counts,
    curve,
    fractions,
    is_uniform,
    kept_passages,
    key_of,
    means_by_group,
    order_by,
)

SIZES = st.integers(2, 40)
STEPS = st.integers(1, 25)


@given(passages=SIZES, steps=STEPS)
def test_a_document_with_few_passages_has_a_step_for_each(passages: int, steps: int) -> None:
    found = counts(passages, steps).tolist()
    assert (found[0], found[-1]) == (0, passages - 1)
    assert all(a < b for a, b in pairwise(found))
    assert len(found) <= steps + 1
    if steps >= passages - 1:
        assert found == list(range(passages))


@given(passages=SIZES, steps=STEPS, seed=st.integers(0, 99))
def test_deletion_and_insertion_are_the_two_sides_of_an_order(passages: int, steps: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(passages)
    gone, come = (kept_passages(order, kind, steps) for kind in KINDS)
    for count, out, kept in zip(counts(passages, steps).tolist(), gone, come, strict=True):
        assert set(np.flatnonzero(out)) == set(order[count:].tolist())
        assert set(np.flatnonzero(kept)) == set(order[: count + 1].tolist())
    assert gone[0].all() and come[-1].all()
    assert np.flatnonzero(gone[-1]).tolist() == [order[-1]]
    assert np.flatnonzero(come[0]).tolist() == [order[0]]


def test_passages_come_by_falling_score_and_equal_ones_as_they_are_reported() -> None:
    assert order_by([0.2, 0.9, 0.2, 0.5], np.array([2, 3, 1, 0])).tolist() == [1, 3, 2, 0]
    assert order_by([0.2, 0.9, 0.2, 0.5], np.array([0, 1, 2, 3])).tolist() == [1, 3, 0, 2]
    assert order_by([0.0, -0.0, 0.0], np.array([1, 2, 0])).tolist() == [1, 2, 0]


def test_scores_that_differ_by_rounding_alone_are_uniform() -> None:
    assert is_uniform(np.full(5, 0.2))
    assert is_uniform(np.array([0.2, 0.2, 0.20000001], np.float32).astype(np.float64))
    assert is_uniform(np.zeros(3))
    assert not is_uniform(np.array([0.2, 0.21]))
    assert not is_uniform(np.array([-1.0, 1.0]))
    assert not is_uniform(np.array([1e-7, 2e-7]))


def test_a_curve_goes_straight_between_its_points() -> None:
    order = np.array([2, 0, 1])
    measured = {}
    for kept, value in (([1, 1, 1], 0.9), ([1, 1, 0], 0.5), ([0, 1, 0], 0.1), ([0, 0, 1], 0.8), ([1, 0, 1], 0.6)):
        measured[key_of(np.array(kept, np.bool_))] = value
    np.testing.assert_allclose(curve(order, "deletion", 4, measured), [0.9, 0.7, 0.5, 0.3, 0.1])
    np.testing.assert_allclose(curve(order, "insertion", 4, measured), [0.8, 0.7, 0.6, 0.75, 0.9])
    # With one step only the ends are measured.
    np.testing.assert_allclose(curve(order, "deletion", 1, measured), [0.9, 0.1])


def test_the_area_is_that_of_trapezoids() -> None:
    curves = np.array([[1.0, 0.5, 0.0], [0.3, 0.3, 0.3]])
    np.testing.assert_allclose(areas(curves), [0.5, 0.3])
    x = fractions(7)
    values = np.random.default_rng(0).random((3, 8))
    expected = [
        sum((b - a) * (u + v) / 2 for a, b, u, v in zip(x, x[1:], row, row[1:], strict=False)) for row in values
    ]
    np.testing.assert_allclose(areas(values), expected)


def test_means_are_taken_by_group() -> None:
    values = np.arange(12.0).reshape(4, 3)
    found = means_by_group(values, ["b", "a", "b", "b"])
    np.testing.assert_allclose(found, [values[[0, 2, 3]].mean(axis=0), values[1]])


def test_resamples_are_means_of_drawn_rows() -> None:
    values = np.random.default_rng(1).random((6, 2, 3))
    found = resampled_means(values, 40, seed=5)
    draw = np.random.default_rng(5)
    expected = [values[draw.integers(6, size=6)].mean(axis=0) for _ in range(40)]
    np.testing.assert_allclose(found, expected)
    assert np.ptp(found[:, 0, 0]) > 0
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(found, resampled_means(values, 40, seed=6))
