"""Subtopics: spectral clusters, numbered and counted."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from graphdoc.errors import DocumentError
from graphdoc.inference.learned_subtopics import subtopic_finder
from graphdoc.subtopics import Subtopics, find_subtopics
from graphdoc.subtopics.subtopics import number_of_subtopics


def blocks(sizes: list[int], noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Similarities of sentences in groups, and the groups."""
    truth = np.repeat(np.arange(len(sizes)), sizes)
    random = np.random.default_rng(1)
    truth = random.permutation(truth)
    similarity = (truth[:, None] == truth[None]) + noise * random.random((len(truth), len(truth)))
    similarity = (similarity + similarity.T) / 2
    np.fill_diagonal(similarity, 0)
    return similarity, truth


def test_groups_are_found() -> None:
    similarity, truth = blocks([6, 7, 5, 6])
    found = find_subtopics(similarity, 10)
    assert found.number == 4
    assert len({pair for pair in zip(truth.tolist(), found.clusters.tolist(), strict=True)}) == 4
    assert [len(side) for side in found.sides] == [10, 14]


def test_the_minimum_normalised_cut_is_found_of_a_small_graph() -> None:
    similarity, _ = blocks([5, 4], noise=0.4)
    found = find_subtopics(similarity, 4, cluster_size=5).clusters
    weights = similarity + 1e-4
    np.fill_diagonal(weights, 0)
    degrees = weights.sum(axis=1)

    def normalised_cut(chosen: np.ndarray) -> float:
        between = weights[chosen][:, ~chosen].sum()
        return float(between / degrees[chosen].sum() + between / degrees[~chosen].sum())

    partitions = [np.array([bit == "1" for bit in f"{number:09b}"]) for number in range(1, 2**8)]
    assert normalised_cut(found == 1) == pytest.approx(min(map(normalised_cut, partitions)))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 12), st.integers(0, 5))
def test_any_similarities_give_numbers_without_gaps(first: int, second: int, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    similarity = random.random((first + second,) * 2) * (random.random((first + second,) * 2) < 0.1)
    found = find_subtopics(similarity + similarity.T, first, cluster_size=size, seed=seed)
    assert len(found.clusters) == first + second
    assert set(found.clusters.tolist()) == set(range(found.number))
    assert found.number <= number_of_subtopics(first + second, size)
    firsts = [found.clusters.tolist().index(number) for number in range(found.number)]
    assert firsts == sorted(firsts)
    again = find_subtopics(similarity + similarity.T, first, cluster_size=size, seed=seed)
    np.testing.assert_array_equal(found.clusters, again.clusters)
    turned = found.turned()
    assert turned.number == found.number
    np.testing.assert_array_equal(turned.turned().clusters, found.clusters)


@pytest.mark.parametrize(("alike", "size", "clusters"), [(0.2, 6, [0, 0]), (0.0, 6, [0, 1]), (0.2, 1, [0, 1])])
def test_two_sentences_are_one_subtopic_where_they_are_alike(alike: float, size: int, clusters: list[int]) -> None:
    similarity = alike * (1 - np.eye(2))
    assert find_subtopics(similarity, 1, cluster_size=size).clusters.tolist() == clusters


@pytest.mark.parametrize("way", ["words", "vectors"])
@pytest.mark.parametrize("sentences", [1, 2, 7])
def test_a_document_has_all_subtopics_in_common_with_itself(way: str, sentences: int) -> None:
    draw = np.random.default_rng(sentences)
    nouns = draw.choice(["rice", "steam", "koji", "tide", "wave", "marsh"], (sentences, 3))
    finder = subtopic_finder(way, "en")
    own = finder.features([f"{' '.join(words)}." for words in nouns], draw.normal(0.2, 1, (sentences, 8)))
    found = finder.find(own, own)
    assert set(found.sides[0]) == set(found.sides[1])


def test_sentences_without_anything_in_common() -> None:
    assert find_subtopics(np.ones((1, 1)), 1).clusters.tolist() == [0]
    assert find_subtopics(np.zeros((30, 30)), 12).number == 1
    similarity, _ = blocks([6, 6])
    similarity[0] = similarity[:, 0] = 0
    assert find_subtopics(similarity, 6).number == 2
    assert Subtopics.of([7, 2, 7, 5, 2], 2).clusters.tolist() == [0, 1, 0, 2, 1]


def test_texts_and_vectors_both_find_what_belongs_together() -> None:
    about = {
        "rice": ["Rice is steamed with koji.", "The steamed rice cools.", "Koji grows on rice.", "Steam the rice."],
        "tides": [
            "Tides rise at the barrier.",
            "The barrier closes at high tides.",
            "A tide falls.",
            "Barrier gates.",
        ],
    }
    words = subtopic_finder("words", "en")
    first, second = (words.features(texts) for texts in about.values())
    found = words.find(first, second, cluster_size=4)
    assert found.clusters.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    vectors = subtopic_finder("vectors", "en")
    corners = [np.random.default_rng(side).normal(0.1, 0.02, (4, 3)) + np.eye(3)[side] for side in range(2)]
    sides = [vectors.features(texts, corner) for texts, corner in zip(about.values(), corners, strict=True)]
    assert vectors.find(*sides, cluster_size=4).clusters.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="vectors"):
        vectors.features(about["rice"])


def test_more_sentences_than_can_be_clustered_are_refused_at_once() -> None:
    finder = subtopic_finder("vectors", "en")
    many = finder.features([], np.ones((6000, 2)))
    with pytest.raises(DocumentError, match=r"12,000 sentences .* 10,000.*--receptive-field"):
        finder.find(many, many)
