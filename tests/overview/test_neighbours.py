from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.overview.groups import Neighbours


def unit(vectors: Any) -> Any:
    rows = np.asarray(vectors, np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.integers(2, 30), st.integers(1, 12), st.integers(0, 10_000))
def test_nearest_are_those_of_all_cosines(documents: int, count: int, seed: int) -> None:
    vectors = unit(np.random.default_rng(seed).normal(size=(documents, 5)))
    near = Neighbours.of(vectors, count)
    cosines = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    np.fill_diagonal(cosines, -np.inf)
    count = min(count, documents - 1)
    expected = -np.sort(-cosines, axis=1)[:, :count]
    assert near.rows.shape == near.scores.shape == (documents, count)
    np.testing.assert_allclose(near.scores, expected, atol=2e-6)
    np.testing.assert_allclose(np.take_along_axis(cosines, near.rows, axis=1), expected, atol=2e-6)
    np.testing.assert_allclose(near.closeness, expected[:, :5].mean(axis=1), atol=2e-6)


def test_a_document_is_no_neighbour_of_itself_among_its_copies() -> None:
    near = Neighbours.of(unit([[1, 2]] * 9 + [[2, -1]]), 3)
    assert all(row not in rows for row, rows in enumerate(near.rows))
    assert near.scores[:9].min() == pytest.approx(1, abs=1e-6)


def test_pairs_are_each_once_and_fall() -> None:
    vectors = unit(np.random.default_rng(3).normal(size=(12, 4)))
    pairs = Neighbours.of(vectors, 11).pairs(20)
    cosines = vectors @ vectors.T
    best = sorted((float(cosines[a, b]) for a in range(12) for b in range(a)), reverse=True)[:20]
    assert [score for *_, score in pairs] == pytest.approx(best, abs=1e-6)
    assert len({frozenset(pair[:2]) for pair in pairs}) == 20
    assert all(a < b for a, b, _ in pairs)


def test_near_duplicates_are_linked_by_cosines_and_by_texts() -> None:
    vectors = unit([[1, 0], [1, 0.01], [0, 1], [0.9, 1], [0, -1], [-1, 0.5]])
    near = Neighbours.of(vectors, 5)
    copies = [b"a", b"b", b"c", b"d", b"c", b""]
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.99, copies)] == [[0, 1], [2, 4]]
    assert near.duplicates(vectors, 0.99999, [b""] * 6) == []
    # By a lower cosine all but the last are one set.
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.6, [b""] * 6)] == [[0, 1, 2, 3]]


def test_outliers_are_the_farthest() -> None:
    vectors = unit([[1, 0.1 * n, 0] for n in range(8)] + [[0, 0, 1]])
    near = Neighbours.of(vectors, 4)
    assert near.outliers(1) == [8]
    assert len(near.outliers(50)) == 9
