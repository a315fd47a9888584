from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphdoc.sampling import ClassBalancedBatches


def labels_of(sizes: list[int], seed: int = 0) -> np.ndarray:
    """Labels of documents in no particular order, by the size of their groups."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * 7, sizes))


def made(
    labels: np.ndarray, batch_size: int = 12, seed: int = 0, *shares: int, **options: object
) -> ClassBalancedBatches:
    return ClassBalancedBatches(np.full(len(labels), 3), batch_size, seed, *shares, labels=labels, **options)  # type: ignore[arg-type]


def rows_of(batches: ClassBalancedBatches, epoch: int = 0) -> list[list[int]]:
    found = list(batches.of_epoch(epoch))
    assert len(found) == len(batches)
    assert {own for batch in found for own, _ in batch} == {epoch}
    return [[row for _, row in batch] for batch in found]


def every(batches: list[list[int]]) -> list[int]:
    return [row for rows in batches for row in rows]


@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=12),
    per_class=st.integers(2, 5),
    more=st.integers(0, 30),
    smallest=st.integers(1, 2),
    seed=st.integers(0, 100),
)
def test_every_document_of_a_batch_has_another_of_its_group(
    sizes: list[int], per_class: int, more: int, smallest: int, seed: int
) -> None:
    sizes += [4, 5]
    labels = labels_of(sizes, seed)
    size_of = Counter(labels.tolist())
    options = {"per_class": per_class, "smallest": smallest}
    batches = made(labels, 2 * per_class + more, seed, **options)
    found = rows_of(batches)

    assert batches.groups == sum(size >= smallest for size in sizes)
    assert batches.documents == sum(size for size in sizes if size >= smallest)
    assert sum(batches.left_out.values()) == len(labels) - batches.documents
    for rows in found:
        assert len(set(rows)) == len(rows) <= batches.batch_size <= 2 * per_class + more
        assert len(found) == 1 or 2 * len(rows) >= batches.batch_size
        groups = Counter(labels[rows].tolist())
        assert len(groups) >= 2
        assert all(count >= 2 or size_of[group] == 1 for group, count in groups.items())
        assert max(groups.values()) <= max(per_class, batches.batch_size / 2)


@given(sizes=st.lists(st.integers(2, 30), min_size=4, max_size=20), seed=st.integers(0, 100))
def test_an_epoch_visits_nearly_every_document_once(sizes: list[int], seed: int) -> None:
    # No group has more than half of the documents.
    sizes = [min(size, sum(sizes) // 3) for size in sizes]
    assume(min(sizes) >= 2 and 2 * max(sizes) <= sum(sizes))
    labels = labels_of(sizes, seed)
    batches = made(labels, 8, seed, per_class=2)
    visits = Counter(row for rows in rows_of(batches) for row in rows)

    assert len(visits) >= len(labels) - 8 - len(batches)
    assert visits.total() - len(visits) <= 2 * len(batches)


def test_documents_left_to_other_epochs_have_their_turn() -> None:
    labels = labels_of([50, 3, 3, 2, 2, 2, 2])
    batches = made(labels, per_class=3)
    epochs = [set(every(rows_of(batches, epoch))) for epoch in range(30)]

    assert all(len(rows) < len(labels) - 8 for rows in epochs)
    assert set.union(*epochs) == set(range(len(labels)))
    # Documents of small groups come in nearly every epoch, those of the large one less often.
    visits = np.array([[row in rows for row in range(len(labels))] for rows in epochs]).mean(axis=0)
    assert visits[labels > 0].min() > 0.7 > visits[labels == 0].mean()


def test_a_large_group_has_its_share_and_no_more() -> None:
    labels = labels_of([600, 60, 60, 60])
    shares = [np.mean(labels[rows] == 0) for rows in rows_of(made(labels, 24))]
    # One chunk more or less, which is a sixth of a batch.
    assert max(shares) <= 0.5 + 1 / 6
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)


def test_groups_give_hands_of_about_the_size_asked_for() -> None:
    labels = labels_of([40] * 20)
    for per_class in (2, 4, 8):
        counts = [Counter(labels[rows].tolist()) for rows in rows_of(made(labels, 16, per_class=per_class))]
        assert len(counts) == 50
        # Two hands of one group meet only where the last ones are dealt.
        sizes = Counter(count for groups in counts for count in groups.values())
        assert set(sizes) <= {per_class, 2 * per_class}
        assert sizes[per_class] > 0.95 * sizes.total()


def test_batches_depend_on_seed_and_epoch_alone() -> None:
    labels = labels_of([9, 8, 7, 6, 5, 4])
    first = rows_of(made(labels), 0)
    again = made(labels)
    later = rows_of(again, 1)
    np.random.default_rng(0).random(5)

    assert rows_of(again, 0) == first
    assert later != first != rows_of(made(labels, seed=1), 0)


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_a_batch_evenly(processes: int) -> None:
    labels = labels_of([30, 20, 10, 10, 5, 3])
    counts = np.random.default_rng(0).integers(2, 51, size=len(labels))
    whole = list(ClassBalancedBatches(counts, 16, 3, labels=labels).of_epoch(0))
    shares = [
        list(ClassBalancedBatches(counts, 16, 3, rank, processes, labels=labels).of_epoch(0))
        for rank in range(processes)
    ]

    for number, batch in enumerate(whole):
        dealt = [place for share in shares for place in share[number]]
        assert sorted(dealt) == sorted(batch)
        passages = [sum(counts[row] for _, row in share[number]) for share in shares]
        assert max(passages) - min(passages) <= counts.max()


def test_only_the_rows_that_are_trained_on_are_drawn() -> None:
    labels = labels_of([10, 10, 10])
    rows = np.flatnonzero(np.arange(30) % 3 > 0)
    batches = made(labels, rows=rows)
    assert batches.documents == 20
    assert set(every(rows_of(batches))) <= set(rows.tolist())


def test_documents_without_a_group_or_alone_in_theirs_are_left_out_and_counted() -> None:
    labels = np.array([0, 0, 1, 1, 1, -1, -1, 2, -5])
    batches = made(labels, 4, per_class=2)
    assert (batches.documents, batches.groups) == (5, 2)
    assert batches.left_out == {"without a group": 3, "alone in their group": 1}
    assert {row for epoch in range(9) for row in every(rows_of(batches, epoch))} == {0, 1, 2, 3, 4}
    alone = made(labels, 6, per_class=2, smallest=1)
    assert alone.left_out == {"without a group": 3}
    assert sorted(every(rows_of(alone))) == [0, 1, 2, 3, 4, 7]


def test_few_documents_make_one_batch() -> None:
    batches = made(np.array([0, 1, 0, 1, 1, 2, 2]), 64, per_class=16)
    assert (batches.batch_size, len(batches)) == (7, 1)
    assert sorted(rows_of(batches)[0]) == list(range(7))


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 0, 0], {}, "all 3 documents are of one group"),
        ([0, 0, 1], {}, "all 2 documents are of one group"),
        ([0, 1, -1], {}, "no group has 2 documents: 1 are without a group, 2 are alone in their group"),
        ([], {}, "no group has 2 documents"),
        ([-1, -1], {"smallest": 1}, "no group has 1 documents: 2 are without a group"),
        ([0, 0, 1, 1], {"per_class": 1}, r"no room for 1 documents each \(per_class\)"),
        ([0, 0, 1, 1], {"per_class": 7}, r"a batch of 12 documents has no room for 7 documents each \(per_class\)"),
        ([0, 0, 1, 1], {"smallest": 3}, "smallest=3 must be 1 or 2"),
        ([0, 0, 1, 1], {"processes": 5}, "a batch of 4 documents is too small for 5 processes"),
        ([0, 0, 1, 1], {"processes": 3}, "batches of 4 documents in groups are too small for 3 processes"),
    ],
)
def test_what_cannot_be_balanced_is_refused(labels: list[int], options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(np.array(labels, np.int64), **options)
