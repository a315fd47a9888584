from __future__ import annotations

import numpy as np
import pytest
from collections_of_topics import TOPICS, make_collection
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from graphdoc.overview.digests import Digests, WordCounts
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


@pytest.mark.parametrize("documents", [2, 3, 7])
def test_few_documents_have_no_groups(documents: int) -> None:
    vectors = normalize(np.random.default_rng(0).normal(size=(documents, 4)).astype(np.float32))
    assert find_groups(lay_out(vectors), Neighbours.of(vectors, 10)) == []


def test_the_map_of_few_or_equal_documents() -> None:
    for vectors in (np.ones((1, 3)), np.eye(2, 3), np.ones((40, 3))):
        points = lay_out(vectors.astype(np.float32))
        assert np.isfinite(points).all() and np.abs(points).max() <= 1
        assert len({tuple(point) for point in points.tolist()}) == len(vectors)


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
