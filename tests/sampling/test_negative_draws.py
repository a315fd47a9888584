"""Negatives that are drawn for pairs of query and answer."""

from __future__ import annotations

import numpy as np

from graphdoc.sampling import NegativeDraws, RowLists


def lists(*values: list[int]) -> RowLists:
    return RowLists.of(np.array(one, np.int64) for one in values)


def test_a_draw_depends_on_seed_epoch_and_pair_alone() -> None:
    groups = np.arange(1000)
    one, other = (NegativeDraws(5, 0, groups, lists([1], [2])) for _ in range(2))
    places = [(epoch, pair, pair % 2) for epoch in range(3) for pair in range(4)]
    first = {place: one.draw(*place).tolist() for place in places}
    again = {place: other.draw(*place).tolist() for place in reversed(places)}
    assert first == again
    assert len({tuple(rows) for rows in first.values()}) == len(places)
    assert NegativeDraws(5, 1, groups, lists([1], [2])).draw(0, 0, 0).tolist() != first[0, 0, 0]
    assert NegativeDraws(0, 0, groups, lists([1])).draw(0, 0, 0).tolist() == []


def test_answers_and_their_copies_are_never_drawn() -> None:
    # Documents 0 and 4 are copies; so are 1 and 5.
    groups = np.array([0, 1, 2, 3, 0, 1, 4, 5])
    for pools in (None, lists([4, 5, 6, 2, 0])):
        draws = NegativeDraws(2, 0, groups, lists([0, 1]), pools)
        seen = {int(row) for pair in range(200) for row in draws.draw(0, pair, 0)}
        assert seen == ({2, 3, 6, 7} if pools is None else {2, 6})
    large = NegativeDraws(3, 0, np.arange(10_000) % 7, lists([0, 3]))
    drawn = np.concatenate([large.draw(0, pair, 0) for pair in range(300)])
    assert set((drawn % 7).tolist()) == {1, 2, 4, 5, 6}


def test_few_documents_among_many_copies_of_an_answer_are_all_drawn() -> None:
    for others in (0, 2):
        groups = np.array([0] * 60 + list(range(1, others + 1)))
        draws = NegativeDraws(3, 0, groups, lists([0]))
        assert sorted(draws.draw(0, 0, 0).tolist()) == list(range(60, 60 + others))


def test_as_many_are_drawn_as_there_are_each_once_and_evenly() -> None:
    draws = NegativeDraws(4, 0, np.arange(50), lists([9], [8]), lists([9, 5, 6], [0, 1, 2, 3, 4, 5, 6, 7]))
    assert draws.pool_sizes is not None
    assert draws.pool_sizes.tolist() == [2, 8]
    assert sorted(draws.draw(0, 0, 0).tolist()) == [5, 6]
    counts = np.zeros(8)
    for pair in range(2000):
        rows = draws.draw(0, pair, 1)
        assert len(set(rows.tolist())) == 4
        counts[rows] += 1
    assert np.abs(counts / 1000 - 1).max() < 0.15
    draws.use(lists([1], []))
    assert draws.draw(0, 0, 0).tolist() == [1]
    assert draws.draw(0, 0, 1).tolist() == []
