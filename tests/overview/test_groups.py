from __future__ import annotations

import numpy as np
import pytest
from collections_of_topics import TOPICS, make_collection
from sklearn.preprocessing import normalize

from graphdoc.documents.document import Document
from graphdoc.overview.digests import Digests
from graphdoc.overview.groups import SHARE, find_groups, lay_out, words_of_documents, words_of_groups
from graphdoc.overview.neighbours import Neighbours


def test_topics_are_found_and_a_stranger_joins_none() -> None:
    _, vectors = make_collection(40)
    vectors = normalize(np.concatenate([vectors, np.eye(32, dtype=np.float32)[[30]]]))
    near = Neighbours.from_vectors(vectors, 8)
    # Between all topics, no group has three of the nearest.
    near.rows[160] = [0, 1, 40, 41, 80, 81, 120, 121]
    groups = find_groups(vectors, vectors, near, 12)
    topics = np.repeat(np.arange(len(TOPICS)), 40)
    found = np.full(161, -1)
    for number, rows in enumerate(groups):
        found[rows] = number
        assert len(set(topics[rows])) == 1
    assert found[160] == -1
    assert (found[:160] >= 0).all()
    assert sorted(map(len, groups), reverse=True) == [len(rows) for rows in groups]


@pytest.mark.parametrize(("size", "strangers"), [(3, 2), (5, 1), (9, 3)])
def test_of_few_documents_strangers_are_in_no_group(size: int, strangers: int) -> None:
    vectors = normalize(np.concatenate([make_collection(size)[1], np.eye(32, dtype=np.float32)[-strangers:]]))
    groups = find_groups(vectors, vectors, Neighbours.from_vectors(vectors, 10))
    assert sorted(map(list, groups)) == [list(range(place, place + size)) for place in range(0, 4 * size, size)]


def test_those_who_join_have_enough_neighbours_in_the_group() -> None:
    draw = np.random.default_rng(1)
    vectors = normalize(draw.normal(size=(300, 6)).astype(np.float32) + 2 * np.eye(6)[draw.integers(0, 6, 300)])
    near = Neighbours.from_vectors(vectors, 10)
    group_of = np.full(300, -1)
    groups = find_groups(vectors, vectors, near)
    for number, rows in enumerate(groups):
        group_of[rows] = number
    left = np.flatnonzero(group_of < 0)
    assert len(groups) > 1
    # The last digits of vectors move no document to another group.
    noisy = vectors + draw.normal(scale=1e-6, size=vectors.shape)
    again = find_groups(noisy, noisy, Neighbours.from_vectors(noisy, 10))
    assert [rows.tolist() for rows in again] == [rows.tolist() for rows in groups]
    for row in left:
        own = group_of[near.rows[row]]
        assert max(np.bincount(own[own >= 0], minlength=1)) < SHARE * 10


def test_the_map_of_few_or_equal_documents() -> None:
    for vectors in (np.ones((1, 3)), np.eye(2, 3), np.ones((40, 3))):
        points = lay_out(vectors.astype(np.float32))
        assert np.isfinite(points).all() and np.abs(points).max() <= 1
        assert len({tuple(point) for point in points.tolist()}) == len(vectors)
    seven = normalize(np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32))
    assert find_groups(seven, seven, Neighbours.from_vectors(seven, 10)) == []


def test_groups_are_named_by_their_own_words() -> None:
    documents, _ = make_collection(20)
    digests = Digests()
    assert list(digests.passing(documents)) == documents
    _, words = digests.chosen([document.id for document in documents])
    groups = [np.arange(20 * number, 20 * number + 20) for number in range(4)]
    # One long document does not name its group.
    long = [Document.from_text("harbour wall " + "zeppelin " * 500, id="long")]
    long += [Document.from_text(f"harbour wall quay{'abcdefgh'[n]}", id=str(n)) for n in range(8)]
    other = Digests()
    list(other.passing(long))
    assert set(words_of_groups(other.chosen([one.id for one in long])[1], [np.arange(9)], 2)[0]) == {"harbour", "wall"}
    for found, topic in zip(words_of_groups(words, groups, 6), TOPICS.values(), strict=True):
        assert len(found) == 6
        assert set(found) <= set(topic.split()) | set(TOPICS)


def test_words_of_documents_by_hand() -> None:
    texts = ["tide tide tide wave", "wave wave clock", "clock wave"]
    digests = Digests()
    for number, text in enumerate(texts):
        digests.add(Document.from_text(text, id=str(number)))
    _, words = digests.chosen(["0", "1", "2"])
    listed, places = words_of_documents(words, 2)
    idf = {word: np.log(4 / (1 + found)) + 1 for word, found in (("tide", 1), ("wave", 3), ("clock", 2))}
    for text, own in zip(texts, places, strict=True):
        counts = {word: text.split().count(word) for word in set(text.split())}
        weights = {word: (1 + np.log(count)) * idf[word] for word, count in counts.items()}
        assert [listed[place] for place in own] == sorted(weights, key=lambda word: -weights[word])[:2]
