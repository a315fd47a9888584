from __future__ import annotations

import numpy as np
import pytest
from collections_of_topics import TOPICS, make_collection
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from graphdoc.overview.digests import Digests, WordCounts, sketch_of
from graphdoc.overview.groups import SHARE, Neighbours, background_of, find_groups, fit_vectors, lay_out


def test_topics_are_found_and_a_stranger_joins_none() -> None:
    _, vectors = make_collection(40)
    stranger = np.eye(32, dtype=np.float32)[[30]]
    vectors = normalize(np.concatenate([vectors, stranger]))
    near = Neighbours.of(vectors, 10)
    # Between all topics, no group has three of the ten nearest.
    near.rows[160] = [0, 1, 40, 41, 80, 81, 120, 121, 160, 160]
    points = lay_out(vectors)
    points[160] = (4, 4)
    groups = find_groups(points, near, 12)
    topics = np.repeat(np.arange(len(TOPICS)), 40)
    found = np.full(161, -1)
    for number, rows in enumerate(groups):
        found[rows] = number
        assert len(set(topics[rows])) == 1
    assert found[160] == -1
    assert (found[:160] >= 0).all()
    assert sorted(map(len, groups), reverse=True) == [len(rows) for rows in groups]


def test_those_who_join_have_enough_neighbours_in_the_group() -> None:
    draw = np.random.default_rng(1)
    vectors = normalize(draw.normal(size=(300, 6)).astype(np.float32) + 2 * np.eye(6)[draw.integers(0, 6, 300)])
    near = Neighbours.of(vectors, 10)
    group_of = np.full(300, -1)
    groups = find_groups(lay_out(vectors), near)
    for number, rows in enumerate(groups):
        group_of[rows] = number
    left = np.flatnonzero(group_of < 0)
    assert len(groups) > 1
    for row in left:
        own = group_of[near.rows[row]]
        assert max(np.bincount(own[own >= 0], minlength=1)) < SHARE * 10


def test_the_map_of_few_or_equal_documents() -> None:
    for vectors in (np.ones((1, 3)), np.eye(2, 3), np.ones((40, 3))):
        points = lay_out(vectors.astype(np.float32))
        assert np.isfinite(points).all() and np.abs(points).max() <= 1
        assert len({tuple(point) for point in points.tolist()}) == len(vectors)
    seven = normalize(np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32))
    assert find_groups(lay_out(seven), Neighbours.of(seven, 10)) == []


def test_fitted_vectors_are_centred_and_beside_the_words_of_the_collection() -> None:
    documents, vectors = make_collection(20)
    digests = Digests()
    for document in documents:
        digests.add(document)
    _, words = digests.chosen([document.id for document in documents])
    lexical = 5
    found = fit_vectors(vectors, lexical, words)

    def centred(rows: np.ndarray) -> np.ndarray:
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(normalize(unit - unit.mean(axis=0)))

    counts = words.counts.toarray().astype(float)
    counts = counts[:, (counts > 0).sum(axis=0) > 1]
    logarithms = np.zeros_like(counts)
    np.log(counts, out=logarithms, where=counts > 0)
    idf = np.log((1 + len(counts)) / (1 + (counts > 0).sum(axis=0))) + 1
    weights = normalize((1 + logarithms) * (counts > 0) * idf)
    left, lengths, _ = np.linalg.svd(weights, full_matrices=False)
    numbers = min(256, *(size - 1 for size in weights.shape))
    dense, latent = centred(vectors[:, :-lexical]), centred((left * lengths)[:, :numbers])
    pairs = np.triu_indices(len(documents), 1)
    weight = np.sqrt((dense @ dense.T)[pairs].std() / (latent @ latent.T)[pairs].std())
    expected = normalize(np.hstack([dense, weight * latent]))
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)
    background = background_of(found)
    scores = np.sort((found @ found.T)[pairs])
    assert background.share(scores[len(scores) // 2]) == pytest.approx(0.5, abs=0.01)


def test_a_collection_without_words_is_centred_alone() -> None:
    _, vectors = make_collection(20)
    found = fit_vectors(vectors, 0, WordCounts(csr_array((80, 3)), ["a", "b", "c"]))
    unit = normalize(vectors)
    np.testing.assert_allclose(found, normalize(unit - unit.mean(axis=0)), atol=1e-5)


@given(st.integers(2, 30), st.integers(1, 12), st.integers(0, 10_000))
def test_nearest_are_those_of_all_cosines(documents: int, count: int, seed: int) -> None:
    vectors = normalize(np.random.default_rng(seed).normal(size=(documents, 5)).astype(np.float32))
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
    near = Neighbours.of(normalize(np.array([[1, 2]] * 9 + [[2, -1]], np.float32)), 3)
    assert all(row not in rows for row, rows in enumerate(near.rows))
    assert near.scores[:9].min() == pytest.approx(1, abs=1e-6)


def test_pairs_are_each_once_and_fall() -> None:
    vectors = normalize(np.random.default_rng(3).normal(size=(12, 4)).astype(np.float32))
    pairs = Neighbours.of(vectors, 11).pairs(20)
    cosines = vectors @ vectors.T
    best = sorted((float(cosines[a, b]) for a in range(12) for b in range(a)), reverse=True)[:20]
    assert [score for *_, score in pairs] == pytest.approx(best, abs=1e-6)
    assert len({frozenset(pair[:2]) for pair in pairs}) == 20
    assert all(a < b for a, b, _ in pairs)


def test_near_duplicates_are_linked_by_cosines_and_by_texts() -> None:
    vectors = normalize(np.array([[1, 0], [1, 0.01], [0, 1], [0.9, 1], [0, -1], [-1, 0.5]], np.float32))
    near = Neighbours.of(vectors, 5)
    copies = [sketch_of(text) if text else b"" for text in ("a", "b", "c", "d", "c", "")]
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.99, copies)] == [[0, 1], [2, 4]]
    assert near.duplicates(vectors, 0.99999, [b""] * 6) == []
    # By a lower cosine all but the last are one set.
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.6, [b""] * 6)] == [[0, 1, 2, 3]]


def test_outliers_are_the_farthest() -> None:
    vectors = normalize(np.array([[1, 0.1 * n, 0] for n in range(8)] + [[0, 0, 1]], np.float32))
    near = Neighbours.of(vectors, 4)
    assert near.outliers(1) == [8] and len(near.outliers(50)) == 9
