from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.evaluation import paired_p_value

VALUES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=9)


def enumerated(differences: np.ndarray) -> float:
    """The share of all ways to give the signs in which the mean is as far from 0 as observed."""
    signs = np.array(list(itertools.product((1, -1), repeat=len(differences))))
    means = np.abs(signs @ differences)
    return float(np.mean(means >= abs(differences.sum()) - 1e-9))


@given(VALUES)
def test_all_ways_are_tried_where_they_are_few(pairs: list[tuple[int, int]]) -> None:
    values, others = np.array(pairs, float).T
    # Of queries on which both are equal each way is tried twice, which changes nothing.
    expected = enumerated(values - others)
    assert paired_p_value(values / 8, others / 8) == pytest.approx(expected)
    assert paired_p_value(others / 8, values / 8) == pytest.approx(expected)
    assert paired_p_value(values / 8, others / 8, seed=7) == pytest.approx(expected)


def test_drawn_ways_come_near_to_all() -> None:
    draw = np.random.default_rng(0)
    others = draw.random(14)
    values = others + draw.normal(0.1, 0.25, 14)
    exact = enumerated(values - others)
    assert 0.01 < exact < 0.2
    drawn = [paired_p_value(values, others, resamples=4_000, seed=seed) for seed in range(3)]
    assert drawn == pytest.approx([exact] * 3, abs=0.02)
    assert len(set(drawn)) > 1
    assert paired_p_value(values, others, resamples=4_000, seed=1) == drawn[1]
    assert paired_p_value(values, others, resamples=2**14) == pytest.approx(exact)


def test_the_observed_way_counts_among_those_drawn() -> None:
    values, others = np.linspace(0.6, 1.0, 40), np.linspace(0.0, 0.4, 40)
    assert paired_p_value(values, others, resamples=199) == pytest.approx(2 / 200)


def test_systems_that_do_not_differ() -> None:
    assert paired_p_value([0.5, 0.25, 0.0], [0.5, 0.25, 0.0]) == 1
    assert paired_p_value([0.5, 0.25, 1.0], [0.5, 0.25, 0.0]) == 1
    assert paired_p_value([1.0, 0.0], [0.0, 1.0]) == 1
