from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from graphdoc.evaluation import baselines
from graphdoc.evaluation.baselines import tfidf_similarities

TEXTS = ["tide tide tide marsh", "tide marsh wall", "koji rice rice", "the koji and the rice steam", "of the and"]
PAIRS = np.array([(0, 1), (0, 2), (2, 3), (3, 3), (0, 4)])


def test_it_is_the_cosine_of_logarithmic_counts() -> None:
    counts = [Counter(text.split()) for text in TEXTS]
    documents = Counter(word for count in counts for word in count)
    words = sorted(word for word, number in documents.items() if number >= 2 and word not in ("the", "and", "of"))
    assert words == ["koji", "marsh", "rice", "tide"]
    idf = {word: np.log((1 + len(TEXTS)) / (1 + documents[word])) + 1 for word in words}
    vectors = np.array([[(1 + np.log(count[w])) * idf[w] if count[w] else 0.0 for w in words] for count in counts])
    lengths = np.linalg.norm(vectors, axis=1)
    expected = [vectors[a] @ vectors[b] / max(lengths[a] * lengths[b], 1e-12) for a, b in PAIRS]

    found = tfidf_similarities(TEXTS, PAIRS)

    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[0] > 0.9 and found[1] == 0 == found[4]


def test_texts_that_share_no_word_are_compared_by_all_words() -> None:
    np.testing.assert_allclose(tfidf_similarities(["tide wall", "the rice"], np.array([(0, 1), (1, 1)])), [0, 1])
    np.testing.assert_allclose(tfidf_similarities(["the", "the and"], np.array([(0, 0)])), [1])


def test_texts_without_words_are_like_nothing() -> None:
    assert tfidf_similarities(["", "..."], np.array([(0, 1)])).tolist() == [0]
    assert tfidf_similarities([], np.zeros((0, 2), np.int64)).tolist() == []


def test_blocks_of_pairs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tfidf_similarities(TEXTS, PAIRS)
    monkeypatch.setattr(baselines, "_BLOCK_PAIRS", 2)
    np.testing.assert_array_equal(tfidf_similarities(TEXTS, PAIRS), expected)
