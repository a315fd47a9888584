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


def test_terms_are_distinct_stems_without_stop_words_and_lengths_are_all_words() -> None:
    found = TermMaker("en").terms("The dams were damming a river, and Rivers rise!")
    assert found.terms == {"dam", "river", "rise"}
    assert found.words == 9


def test_a_script_without_spaces_gives_pairs_of_characters() -> None:
    found = TermMaker("zh").terms("三星手机 Galaxy S8")
    assert found.terms == {"三星", "星手", "手机", "galaxy", "s8"}
    assert found.words == 4
    assert TermMaker("zh").terms("机").terms == {"机"}


def test_a_language_without_stemmer_takes_words_as_they_are() -> None:
    found = TermMaker("tlh").terms("Qapla' batlh Daqawlu'taH batlh")
    assert found.terms == {"qapla", "batlh", "daqawlu'tah"}
    assert found.words == 4


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("de", "Die Häuser und das Haus", {"haus"}),
        ("no", "Fiskene og fisken", {"fisk"}),
        ("fr", "Les maisons de la maison", {"maison"}),
    ],
)
def test_stems_and_stop_words_of_other_languages(language: str, text: str, terms: set[str]) -> None:
    assert TermMaker(language).terms(text).terms == terms


def test_placed_terms_keep_order_repetition_and_case() -> None:
    found = TermMaker("en").placed("Dams hold; the Dam holds.")
    assert [tuple(one) for one in found] == [("dam", "Dams"), ("hold", "hold"), ("dam", "Dam"), ("hold", "holds")]


def test_a_term_maker_can_be_given_to_another_process() -> None:
    maker = TermMaker("en")
    before = maker.terms("Rivers rise")
    assert pickle.loads(pickle.dumps(maker)).terms("Rivers rise") == before


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
