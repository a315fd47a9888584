"""Similarity of sentences against the equations, written from the paper."""

from __future__ import annotations

import pickle

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from graphdoc.segmentation.terms import SentenceTerms, TermMaker
from graphdoc.subtopics.subtopics import vector_similarity, word_similarity

sentences = st.lists(
    st.builds(SentenceTerms, st.frozensets(st.sampled_from("abcdefgh"), max_size=6), st.integers(0, 12)),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(sentences)
def test_word_similarity_is_equation_1(given: list[SentenceTerms]) -> None:
    found = word_similarity(given)
    for i, one in enumerate(given):
        for j, other in enumerate(given):
            logarithms = np.log(max(one.words, 1)) + np.log(max(other.words, 1))
            expected = len(one.terms & other.terms) / logarithms if i != j and logarithms else 0.0
            assert found[i, j] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("language", "text", "terms", "words"),
    [
        ("en", "The dams were damming a river, and Rivers rise!", {"dam", "river", "rise"}, 9),
        # Pairs of characters in a script without spaces, and words as they are without a stemmer.
        ("zh", "三星手机 Galaxy S8", {"三星", "星手", "手机", "galaxy", "s8"}, 4),
        ("zh", "机", {"机"}, 1),
        ("tlh", "Qapla' batlh Daqawlu'taH batlh", {"qapla", "batlh", "daqawlu'tah"}, 4),
        ("de", "Die Häuser und das Haus", {"haus"}, 5),
        ("no", "Fiskene og fisken", {"fisk"}, 3),
        ("fr", "Les maisons de la maison", {"maison"}, 5),
    ],
)
def test_terms_are_distinct_stems_without_stop_words_and_lengths_are_all_words(
    language: str, text: str, terms: set[str], words: int
) -> None:
    maker = pickle.loads(pickle.dumps(TermMaker(language)))
    assert (maker.terms(text).terms, maker.terms(text).words) == (terms, words)


def test_placed_terms_keep_order_repetition_and_case() -> None:
    found = TermMaker("en").placed("Dams hold; the Dam holds.")
    assert [tuple(one) for one in found] == [("dam", "Dams"), ("hold", "hold"), ("dam", "Dam"), ("hold", "holds")]


def test_vector_similarity_keeps_nearest_positive_cosines() -> None:
    vectors = np.random.default_rng(0).normal(size=(9, 4))
    vectors[3] = 0
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = np.maximum(unit @ unit.T, 0)
    np.fill_diagonal(cosines, 0)
    order = np.argsort(-cosines, axis=1, kind="stable")
    found = vector_similarity(vectors, 2)
    for i in range(9):
        for j in range(9):
            nearest = j in order[i, :2] or i in order[j, :2]
            assert found[i, j] == pytest.approx(cosines[i, j] if nearest else 0, abs=1e-12)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(vector_similarity(vectors, None), cosines, atol=1e-12)
