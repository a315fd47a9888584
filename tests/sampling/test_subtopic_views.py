"""Views: sentences chosen by subtopics, against the equations and by their properties."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from graphdoc.registry import VIEW_SAMPLINGS, load
from graphdoc.sampling.views import Sampling, SentenceLikelihoods, ViewSide, sample_views

SAMPLINGS: dict[str, Sampling] = {name: load(target) for name, target in VIEW_SAMPLINGS.items()}
# Subtopic 0 is shared and large, 1 shared and small, 2 is the first document's, 3 the second's.
FIRST = ViewSide("a", np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 2]), np.full(10, 5))
SECOND = ViewSide("b", np.array([0, 0, 1, 3, 3, 3]), np.full(6, 5))
ALONE = ViewSide("c", np.array([4, 4, 4, 5]), np.full(4, 5))

sides = st.integers(1, 30).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(0, 5), min_size=count, max_size=count),
        st.lists(st.integers(1, 40), min_size=count, max_size=count),
    )
)


def side(id: str, drawn: tuple[list[int], list[int]]) -> ViewSide:
    clusters, tokens = map(np.array, drawn)
    return ViewSide(id, clusters, tokens)


@settings(deadline=None, max_examples=150)
@given(sides, sides, st.integers(1, 120), st.sampled_from(list(VIEW_SAMPLINGS)), st.integers(0, 5))
def test_a_view_is_full_or_has_all_and_never_a_sentence_twice(
    one: tuple[list[int], list[int]], two: tuple[list[int], list[int]], most: int, name: str, number: int
) -> None:
    documents = side("a", one), side("b", two)
    views = sample_views(*documents, SAMPLINGS[name], most, seed=3, number=number)
    for document, view in zip(documents, views, strict=True):
        assert (np.diff(view.sentences) > 0).all()
        assert len(view.sentences) >= 1
        assert (view.tokens >= 1).all()
        assert (view.tokens <= document.tokens[view.sentences]).all()
        assert (view.tokens < document.tokens[view.sentences]).sum() <= 1
        assert view.tokens.sum() <= most
        if name != "negative" and name != "random":
            assert view.tokens.sum() == min(most, document.tokens.sum())
    turned = sample_views(*documents[::-1], SAMPLINGS[name], most, seed=3, number=number)
    for view, other in zip(views, turned[::-1], strict=True):
        np.testing.assert_array_equal(view.sentences, other.sentences)
        np.testing.assert_array_equal(view.tokens, other.tokens)


def counts_of(one: ViewSide, other: ViewSide) -> np.ndarray:
    return np.array([np.bincount(side.clusters, minlength=6) for side in (one, other)])


def uniform(own: np.ndarray) -> np.ndarray:
    """Equation 7."""
    return (own > 0) / (own > 0).sum(axis=1, keepdims=True)


def hard(own: np.ndarray) -> np.ndarray:
    """Equation 8: all from the subtopic that both have most of; without a common one, uniform."""
    return np.tile(np.eye(6)[own.min(axis=0).argmax()], (2, 1)) if own.min(axis=0).any() else uniform(own)


def soft(own: np.ndarray) -> np.ndarray:
    """Equation 9: shares of a document weighted by what both have; without a common subtopic, its own shares."""
    shares = own / own.sum(axis=1, keepdims=True)
    aligned = own.min(axis=0) if own.min(axis=0).any() else np.ones(6)
    return aligned * shares / (shares @ aligned)[:, None]


@pytest.mark.parametrize("equation", [uniform, hard, soft])
@pytest.mark.parametrize("sides", [(FIRST, SECOND), (ALONE, FIRST)], ids=["related", "with nothing in common"])
def test_draws_follow_the_equations_and_sentences_of_a_subtopic_are_equally_likely(
    equation: Any, sides: tuple[ViewSide, ViewSide]
) -> None:
    draws = 3000
    found = [np.zeros(len(side.clusters)) for side in sides]
    for number in range(draws):
        views = sample_views(*sides, SAMPLINGS[equation.__name__], 5, seed=1, number=number)
        for counts, view in zip(found, views, strict=True):
            counts[view.sentences[0]] += 1 / draws
    own = counts_of(*sides)
    for side, counts, expected, sizes in zip(sides, found, equation(own), own, strict=True):
        np.testing.assert_allclose(counts, (expected / np.maximum(sizes, 1))[side.clusters], atol=0.03)


def test_negative_takes_the_smaller_half_of_what_there_is() -> None:
    first, second = sample_views(FIRST, SECOND, SAMPLINGS["negative"], 1000, seed=0, number=0)
    # Both have nothing in common in subtopics 2 and 3; the first has four sentences of the one, the second three.
    assert set(FIRST.clusters[first.sentences]) == {2}
    assert set(SECOND.clusters[second.sentences]) == {3}
    clusters = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    for beyond in (0, 4, 9):
        # Subtopics of numbers below ``beyond`` have no sentence here.
        one, other = (ViewSide(id, clusters + beyond, np.full(8, 5)) for id in "ab")
        view, _ = sample_views(one, other, SAMPLINGS["negative"], 100, seed=1, number=0)
        np.testing.assert_array_equal(view.sentences, [0, 1, 2, 3])


def test_samplings_without_subtopics() -> None:
    starts = set()
    for number in range(200):
        view = sample_views(FIRST, SECOND, SAMPLINGS["random"], 20, seed=0, number=number)[0]
        assert (np.diff(view.sentences) == 1).all() and view.tokens.sum() == 20
        starts.add(int(view.sentences[0]))
    assert starts == set(range(7))
    assert sample_views(FIRST, SECOND, SAMPLINGS["truncated"], 12, seed=0, number=9)[1].sentences.tolist() == [0, 1, 2]
    # Hard goes on with others once its subtopic is used up.
    view = sample_views(FIRST, SECOND, SAMPLINGS["hard"], 40, seed=0, number=0)[0]
    assert set(range(4)) < set(view.sentences.tolist()) and len(view.sentences) == 8


def test_views_differ_by_number_and_seed_but_not_by_call() -> None:
    def drawn(seed: int, number: int) -> tuple[bytes, ...]:
        views = sample_views(FIRST, SECOND, SAMPLINGS["uniform"], 15, seed=seed, number=number)
        return tuple(view.sentences.tobytes() for view in views)

    assert len({drawn(seed, number) for seed in range(3) for number in range(10)}) > 20
    assert drawn(1, 4) == drawn(1, 4)


Sentences = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), min_size=1, max_size=8)


@given(Sentences, st.data())
def test_a_view_is_as_likely_as_its_words(sentences: list[list[str]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1), unique=True))
    counts = Counter(term for terms in sentences for term in terms)
    logarithms = [math.log(counts[term] / counts.total()) for number in chosen for term in sentences[number]]
    found = SentenceLikelihoods.from_sentences(sentences).of_view(np.array(chosen, np.int64))
    assert found == (pytest.approx(sum(logarithms) / len(logarithms)) if logarithms else -math.inf)
