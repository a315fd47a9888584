"""Views: sentences chosen by subtopics, against the equations and by their properties."""

from __future__ import annotations

import math
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from graphdoc.registry import VIEW_SAMPLINGS, load
from graphdoc.sampling.views import Sampling, SentenceLikelihoods, ViewSide, centrality, draw_views

SAMPLINGS: dict[str, Sampling] = {name: load(target) for name, target in VIEW_SAMPLINGS.items()}
# Subtopic 0 is shared and large, 1 shared and small, 2 is the first document's, 3 the second's.
FIRST = ViewSide("a", np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 2]), np.full(10, 5), np.linspace(1, 0, 10))
SECOND = ViewSide("b", np.array([0, 0, 1, 3, 3, 3]), np.full(6, 5), np.linspace(0, 1, 6))

sides = st.integers(1, 30).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(0, 5), min_size=count, max_size=count),
        st.lists(st.integers(1, 40), min_size=count, max_size=count),
    )
)


def side(id: str, drawn: tuple[list[int], list[int]]) -> ViewSide:
    clusters, tokens = map(np.array, drawn)
    return ViewSide(id, clusters, tokens, np.arange(len(clusters)) % 3 / 3)


@settings(deadline=None, max_examples=150)
@given(sides, sides, st.integers(1, 120), st.sampled_from(list(VIEW_SAMPLINGS)), st.integers(0, 5))
def test_a_view_is_full_or_has_all_and_never_a_sentence_twice(
    one: tuple[list[int], list[int]], two: tuple[list[int], list[int]], most: int, name: str, number: int
) -> None:
    documents = side("a", one), side("b", two)
    views = draw_views(*documents, SAMPLINGS[name], most, seed=3, number=number)
    for document, view in zip(documents, views, strict=True):
        assert (np.diff(view.sentences) > 0).all()
        assert len(view.sentences) >= 1
        assert (view.tokens >= 1).all()
        assert (view.tokens <= document.tokens[view.sentences]).all()
        assert (view.tokens < document.tokens[view.sentences]).sum() <= 1
        assert view.tokens.sum() <= most
        if name != "negative" and name != "random":
            assert view.tokens.sum() == min(most, document.tokens.sum())
    turned = draw_views(*documents[::-1], SAMPLINGS[name], most, seed=3, number=number)
    for view, other in zip(views, turned[::-1], strict=True):
        np.testing.assert_array_equal(view.sentences, other.sentences)
        np.testing.assert_array_equal(view.tokens, other.tokens)


def first_subtopics(name: str, draws: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """How often the first sentence of a view comes from every subtopic, of either document."""
    found = np.zeros((2, 4))
    for number in range(draws):
        views = draw_views(FIRST, SECOND, SAMPLINGS[name], 5, seed=1, number=number)
        for place, (document, view) in enumerate(zip((FIRST, SECOND), views, strict=True)):
            found[place, document.clusters[view.sentences[0]]] += 1
    return found[0] / draws, found[1] / draws


def test_uniform_draws_follow_equation_7() -> None:
    first, second = first_subtopics("uniform")
    np.testing.assert_allclose(first, [1 / 3, 1 / 3, 1 / 3, 0], atol=0.03)
    np.testing.assert_allclose(second, [1 / 3, 1 / 3, 0, 1 / 3], atol=0.03)


def test_hard_draws_follow_equation_8() -> None:
    first, second = first_subtopics("hard", 200)
    # min(4, 2) in subtopic 0 against min(2, 1) in subtopic 1.
    np.testing.assert_array_equal(first, [1, 0, 0, 0])
    np.testing.assert_array_equal(second, [1, 0, 0, 0])


def test_soft_draws_follow_equation_9() -> None:
    own = np.array([[4, 2, 4, 0], [2, 1, 0, 3]])
    shares = own / own.sum(axis=1, keepdims=True)
    aligned = own.min(axis=0) / own.min(axis=0).sum()
    expected = aligned * shares / (shares @ aligned)[:, None]
    first, second = first_subtopics("soft")
    np.testing.assert_allclose(first, expected[0], atol=0.03)
    np.testing.assert_allclose(second, expected[1], atol=0.03)
    assert expected[0, 0] == pytest.approx(0.8)


def test_sentences_of_a_subtopic_are_equally_likely() -> None:
    found = np.zeros(10)
    for number in range(3000):
        found[draw_views(FIRST, SECOND, SAMPLINGS["hard"], 5, seed=2, number=number)[0].sentences] += 1
    np.testing.assert_allclose(found[:4] / 3000, 0.25, atol=0.03)


def test_hard_goes_on_with_others_once_its_subtopic_is_used_up() -> None:
    view = draw_views(FIRST, SECOND, SAMPLINGS["hard"], 40, seed=0, number=0)[0]
    assert set(range(4)) < set(view.sentences.tolist())
    assert len(view.sentences) == 8


def test_without_a_common_subtopic_hard_is_uniform_and_soft_takes_the_own_shares() -> None:
    alone = ViewSide("c", np.array([4, 4, 4, 5]), np.full(4, 5))
    found: dict[str, np.ndarray] = {}
    for name in ("hard", "soft"):
        counts = np.zeros(6)
        for number in range(3000):
            view = draw_views(alone, FIRST, SAMPLINGS[name], 5, seed=0, number=number)[0]
            counts[alone.clusters[view.sentences[0]]] += 1
        found[name] = counts / 3000
    np.testing.assert_allclose(found["hard"][4:], [0.5, 0.5], atol=0.03)
    np.testing.assert_allclose(found["soft"][4:], [0.75, 0.25], atol=0.03)


def test_negative_takes_the_smaller_half_alone() -> None:
    first, second = draw_views(FIRST, SECOND, SAMPLINGS["negative"], 1000, seed=0, number=0)
    # Both have nothing in common in subtopics 2 and 3; the first has four sentences of the one, the second three.
    assert set(FIRST.clusters[first.sentences]) == {2}
    assert set(SECOND.clusters[second.sentences]) == {3}


def test_what_negative_takes_of_a_field_does_not_depend_on_subtopics_beyond_it() -> None:
    clusters = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    for beyond in (0, 4, 9):
        # Subtopics of numbers below ``beyond`` have no sentence here.
        one, other = (ViewSide(id, clusters + beyond, np.full(8, 5)) for id in "ab")
        view, _ = draw_views(one, other, SAMPLINGS["negative"], 100, seed=1, number=0)
        np.testing.assert_array_equal(view.sentences, [0, 1, 2, 3])


def test_the_head_of_a_document() -> None:
    head = FIRST.head(3)
    assert (head.id, len(head.clusters), len(head.tokens), len(head.centrality)) == ("a", 3, 3, 3)  # type: ignore[arg-type]
    assert len(ViewSide("a", FIRST.clusters, FIRST.tokens).head(20).clusters) == 10


def test_a_run_of_sentences_fills_the_view_from_wherever_it_starts() -> None:
    starts = set()
    for number in range(200):
        view = draw_views(FIRST, SECOND, SAMPLINGS["random"], 20, seed=0, number=number)[0]
        assert (np.diff(view.sentences) == 1).all()
        assert view.tokens.sum() == 20
        starts.add(int(view.sentences[0]))
    assert starts == set(range(7))


def test_central_sentences_and_first_ones_are_taken_in_reading_order() -> None:
    first, second = draw_views(FIRST, SECOND, SAMPLINGS["pagerank"], 12, seed=0, number=0)
    assert first.sentences.tolist() == [0, 1, 2]
    assert second.sentences.tolist() == [3, 4, 5]
    # The least central of the three came last, and was cut.
    assert second.tokens.tolist() == [2, 5, 5]
    assert draw_views(FIRST, SECOND, SAMPLINGS["truncated"], 12, seed=0, number=9)[1].sentences.tolist() == [0, 1, 2]


def test_views_differ_by_number_and_seed_but_not_by_call() -> None:
    drawn = {
        (seed, number): tuple(
            view.sentences.tobytes()
            for view in draw_views(FIRST, SECOND, SAMPLINGS["uniform"], 15, seed=seed, number=number)
        )
        for seed in range(3)
        for number in range(10)
    }
    assert len(set(drawn.values())) > 20
    again = draw_views(FIRST, SECOND, SAMPLINGS["uniform"], 15, seed=1, number=4)
    assert drawn[1, 4] == tuple(view.sentences.tobytes() for view in again)


def test_centrality_is_pagerank() -> None:
    rng = np.random.default_rng(0)
    similarity = rng.random((12, 12))
    similarity = similarity + similarity.T
    similarity[5] = similarity[:, 5] = 0
    weights = similarity - np.diag(np.diag(similarity))
    sums = weights.sum(axis=0)
    transition = np.array([weights[:, j] / sums[j] if sums[j] else np.full(12, 1 / 12) for j in range(12)]).T
    expected = np.linalg.solve(np.eye(12) - 0.85 * transition, np.full(12, 0.15 / 12))
    np.testing.assert_allclose(centrality(similarity), expected, atol=1e-9)
    assert centrality(similarity).sum() == pytest.approx(1)
    assert centrality(similarity).argmin() == 5


Sentences = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), min_size=1, max_size=8)


@given(Sentences, st.data())
def test_a_view_is_as_likely_as_its_words(sentences: list[list[str]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1), unique=True))
    counts = Counter(term for terms in sentences for term in terms)
    logarithms = [math.log(counts[term] / counts.total()) for number in chosen for term in sentences[number]]
    found = SentenceLikelihoods.of(sentences).of_view(np.array(chosen, np.int64))
    assert found == (pytest.approx(sum(logarithms) / len(logarithms)) if logarithms else -math.inf)


def test_what_a_document_says_most_is_most_likely() -> None:
    found = SentenceLikelihoods.of([["rice", "koji"], ["rice"], ["rice", "tide"], []])
    order = sorted(range(4), key=lambda number: -found.of_view(np.array([number])))
    assert order[0] == 1 and order[-1] == 3
