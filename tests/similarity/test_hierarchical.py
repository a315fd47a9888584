from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.similarity.hierarchical import (
    Background,
    SentenceSet,
    flat_scores,
    hierarchical_scores,
    paragraph_scores,
)

Floats = npt.NDArray[np.float64]
# Sentences of every paragraph of every document.
SHAPES = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=6)


def sentences(shapes: list[list[int]], seed: int, width: int = 5) -> tuple[SentenceSet, list[list[Floats]]]:
    """Drawn sentences, as a set and as lists of lists of unit vectors."""
    draw = np.random.default_rng(seed)
    found = [[draw.normal(size=(count, width)) for count in document] for document in shapes]
    numbers = [np.repeat(np.arange(len(document)), document) for document in shapes]
    unit = [[part / np.linalg.norm(part, axis=1, keepdims=True) for part in document] for document in found]
    return SentenceSet.of([np.concatenate(document) for document in found], numbers), unit


def by_the_paper(source: list[Floats], candidates: list[list[Floats]], zscore: bool) -> tuple[list[float], Floats]:
    """Equations 4 to 6, one cell at a time."""
    rows = []
    for own in source:
        row = []
        for document in candidates:
            for other in document:
                row.append(sum(max(float(a @ b) for b in other) for a in own) / len(own))
        rows.append(row)
    table = np.array(rows)
    scores = []
    for number in range(len(candidates)):
        first = sum(len(document) for document in candidates[:number])
        total = 0.0
        for row in table:
            own = row[first : first + len(candidates[number])]
            if zscore:
                deviation = float(np.sqrt(((row - row.mean()) ** 2).mean()))
                own = (own - row.mean()) / deviation if deviation > 1e-12 else np.zeros_like(own)
            total += float(own.max())
        scores.append(total / len(table))
    return scores, table


@given(source=st.lists(st.integers(1, 4), min_size=1, max_size=4), shapes=SHAPES, block=st.integers(1, 40))
@pytest.mark.parametrize("zscore", [True, False])
def test_equations_4_to_6_are_the_papers(source: list[int], shapes: list[list[int]], block: int, zscore: bool) -> None:
    own, (own_parts,) = sentences([source], 1)
    candidates, parts = sentences(shapes, 2)
    expected, table = by_the_paper(own_parts, parts, zscore)
    np.testing.assert_allclose(paragraph_scores(own, candidates, block), table, atol=1e-6)
    found = hierarchical_scores(own, candidates, normalisation="zscore" if zscore else "none", block=block)
    # A row of few scores that lie close together is stretched, and the rounding of its products with it.
    np.testing.assert_allclose(found, expected, atol=1e-6 / max(1e-2, min(table.std(axis=1).max(), 1)))
    flat = [np.mean([max(float(a @ b) for part in one for b in part) for p in own_parts for a in p]) for one in parts]
    np.testing.assert_allclose(flat_scores(own, candidates, block), flat, atol=1e-6)


def test_the_mean_cannot_change_a_ranking_and_the_deviation_can() -> None:
    own, _ = sentences([[3, 1, 2]], 3)
    candidates, _ = sentences([[2, 3]] * 30, 4)
    scores = paragraph_scores(own, candidates)
    plain = hierarchical_scores(own, candidates, normalisation="none")
    shifted = Background(scores.mean(axis=1), np.ones(3))
    np.testing.assert_array_equal(
        np.argsort(plain), np.argsort(hierarchical_scores(own, candidates, background=shifted))
    )
    scaled = Background(np.zeros(3), np.array([1.0, 0.01, 1.0]))
    assert (np.argsort(plain) != np.argsort(hierarchical_scores(own, candidates, background=scaled))).any()


def test_a_row_that_is_all_the_same_counts_nothing() -> None:
    same = np.ones((4, 3), np.float32)
    candidates = SentenceSet.of([same, same], [np.array([0, 0, 1, 1])] * 2)
    np.testing.assert_array_equal(hierarchical_scores(candidates.document(0), candidates), [0.0, 0.0])


def test_a_background_makes_scores_independent_of_other_candidates() -> None:
    own, _ = sentences([[2, 2]], 5)
    candidates, _ = sentences([[2, 1], [3], [1, 1, 1]], 6)
    usual = Background.of(paragraph_scores(own, candidates))
    whole = hierarchical_scores(own, candidates, background=usual)
    for number in range(3):
        alone = hierarchical_scores(own, candidates.document(number), background=usual)
        np.testing.assert_allclose(alone, whole[number : number + 1], atol=1e-6)
    np.testing.assert_allclose(whole, hierarchical_scores(own, candidates), atol=1e-12)


def test_a_document_is_most_like_itself() -> None:
    candidates, _ = sentences([[2, 2], [1, 3], [4]], 7)
    for number in range(3):
        own = candidates.document(number)
        assert hierarchical_scores(own, candidates, normalisation="none").argmax() == number
        assert hierarchical_scores(own, candidates, normalisation="none")[number] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("paragraphs", "documents", "named"),
    [([0, 2], [0, 1], "paragraphs"), ([0, 2, 2, 3], [0, 3], "paragraphs"), ([0, 3], [0, 2], "documents"),
     ([1, 3], [0, 1], "paragraphs"), ([0], [0], "paragraphs")],
)  # fmt: skip
def test_places_that_do_not_fit_are_refused(paragraphs: list[int], documents: list[int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        SentenceSet(np.ones((3, 2), np.float32), np.array(paragraphs), np.array(documents))
