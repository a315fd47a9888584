from __future__ import annotations

import numpy as np
import pytest
from collections_of_topics import TOPICS, make_collection
from sklearn.preprocessing import normalize

from graphdoc.overview.groups import SHARE, Neighbours, find_groups, lay_out


def test_topics_are_found_and_a_stranger_joins_none() -> None:
    _, vectors = make_collection(40)
    stranger = np.eye(32, dtype=np.float32)[[30]]
    vectors = normalize(np.concatenate([vectors, stranger]))
    near = Neighbours.of(vectors, 10)
    # Between all topics, no group has three of the ten nearest.
    near.rows[160] = [0, 1, 40, 41, 80, 81, 120, 121, 160, 160]
    points = lay_out(vectors)
    points[160] = (4, 4)
    groups = find_groups(points, near, 12)
    topics = np.repeat(np.arange(len(TOPICS)), 40)
    found = np.full(161, -1)
    for number, rows in enumerate(groups):
        found[rows] = number
        assert len(set(topics[rows])) == 1
    assert found[160] == -1
    assert (found[:160] >= 0).all()
    assert sorted(map(len, groups), reverse=True) == [len(rows) for rows in groups]


def test_those_who_join_have_enough_neighbours_in_the_group() -> None:
    draw = np.random.default_rng(1)
    vectors = normalize(draw.normal(size=(300, 6)).astype(np.float32) + 2 * np.eye(6)[draw.integers(0, 6, 300)])
    near = Neighbours.of(vectors, 10)
    group_of = np.full(300, -1)
    groups = find_groups(lay_out(vectors), near)
    for number, rows in enumerate(groups):
        group_of[rows] = number
    left = np.flatnonzero(group_of < 0)
    assert len(groups) > 1
    for row in left:
        own = group_of[near.rows[row]]
        assert max(np.bincount(own[own >= 0], minlength=1)) < SHARE * 10


@pytest.mark.parametrize("documents", [2, 3, 7])
def test_few_documents_have_no_groups(documents: int) -> None:
    vectors = normalize(np.random.default_rng(0).normal(size=(documents, 4)).astype(np.float32))
    assert find_groups(lay_out(vectors), Neighbours.of(vectors, 10)) == []


def test_the_map_of_few_or_equal_documents() -> None:
    for vectors in (np.ones((1, 3)), np.eye(2, 3), np.ones((40, 3))):
        points = lay_out(vectors.astype(np.float32))
        assert np.isfinite(points).all() and np.abs(points).max() <= 1
        assert len({tuple(point) for point in points.tolist()}) == len(vectors)
