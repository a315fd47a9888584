from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.retrieval.fusion import group_passages
from graphdoc.retrieval.lance import Candidates

ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.sampled_from([0.5, 1.0, 2.0])),
    max_size=30,
    unique_by=lambda row: row[:2],
)


@given(ROWS)
def test_a_document_is_the_sum_of_its_three_best_passages(rows: list[tuple[str, int, float]]) -> None:
    found = group_passages(
        Candidates(tuple(row[0] for row in rows), tuple(row[1] for row in rows), np.array([row[2] for row in rows]))
    )
    own = {id: sorted((-score, number) for other, number, score in rows if other == id) for id, _, _ in rows}
    scores = {id: -sum(score for score, _ in passages[:3]) for id, passages in own.items()}
    assert [one.id for one in found] == sorted(scores, key=lambda id: (-scores[id], id))
    for one in found:
        assert one.score == scores[one.id]
        assert list(one.passages) == [(number, -score) for score, number in own[one.id]]


def test_a_fourth_passage_adds_nothing() -> None:
    (one,) = group_passages(Candidates(("a",) * 4, (0, 1, 2, 3), np.array([1.0, 4.0, 2.0, 8.0])))
    assert one.score == 14.0
    assert [number for number, _ in one.passages] == [3, 1, 2, 0]
