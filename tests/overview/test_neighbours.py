from __future__ import annotations

import numpy as np
import pytest
from collections_of_topics import make_collection
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from graphdoc.overview.digests import Digests, WordCounts, sketch_of
from graphdoc.overview.neighbours import Neighbours, background_of, fit_vectors


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
    # Without words of its own a collection is centred alone.
    found = fit_vectors(vectors, 0, WordCounts(csr_array((80, 3)), ["a", "b", "c"]))
    np.testing.assert_allclose(found, centred(vectors), atol=1e-5)


@given(st.integers(2, 30), st.integers(1, 12), st.integers(0, 10_000))
def test_nearest_are_those_of_all_cosines(documents: int, count: int, seed: int) -> None:
    vectors = normalize(np.random.default_rng(seed).normal(size=(documents, 5)).astype(np.float32))
    near = Neighbours.from_vectors(vectors, count)
    cosines = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    np.fill_diagonal(cosines, -np.inf)
    count = min(count, documents - 1)
    expected = -np.sort(-cosines, axis=1)[:, :count]
    assert near.rows.shape == near.scores.shape == (documents, count)
    np.testing.assert_allclose(near.scores, expected, atol=2e-6)
    np.testing.assert_allclose(np.take_along_axis(cosines, near.rows, axis=1), expected, atol=2e-6)
    np.testing.assert_allclose(near.closeness, expected[:, :5].mean(axis=1), atol=2e-6)
    linked = {tuple(sorted((row, int(other)))) for row, own in enumerate(near.rows) for other in own}
    pairs = near.pairs(20)
    best = sorted((float(cosines[pair]) for pair in linked), reverse=True)[:20]
    assert [score for *_, score in pairs] == pytest.approx(best, abs=2e-6)
    assert len({(a, b) for a, b, _ in pairs if a < b}) == len(pairs)


def test_copies_outliers_and_documents_are_no_neighbours_of_themselves() -> None:
    near = Neighbours.from_vectors(normalize(np.array([[1, 2]] * 9 + [[2, -1]], np.float32)), 3)
    assert all(row not in rows for row, rows in enumerate(near.rows))
    assert near.scores[:9].min() == pytest.approx(1, abs=1e-6)
    assert near.outliers(1) == [9] and len(near.outliers(50)) == 10


def test_near_duplicates_are_linked_by_cosines_and_by_texts() -> None:
    vectors = normalize(np.array([[1, 0], [1, 0.01], [0, 1], [0.9, 1], [0, -1], [-1, 0.5]], np.float32))
    near = Neighbours.from_vectors(vectors, 5)
    # Of equal vectors, texts have a run of words in common, or not.
    for first, found in ("the tide turns at dusk", [[0, 1], [2, 4]]), ("a", [[2, 4]]):
        copies = [sketch_of(text) if text else b"" for text in (first, "the tide turns at noon", "c", "d", "c", "")]
        assert [rows.tolist() for rows in near.duplicates(vectors, 0.99, copies)] == found
    assert near.duplicates(vectors, 0.99999, [b""] * 6) == []
    # By a lower cosine all but the last are one set.
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.6, [b""] * 6)] == [[0, 1, 2, 3]]
