"""Which documents make up which batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graphdoc.sampling import BalancedPairBatches, ClassBalancedBatches, DocumentBatches, EpochBatches


def labels_of(sizes: list[int], seed: int = 0) -> np.ndarray:
    """Labels of documents in no particular order, by the size of their groups."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * 7, sizes))


def grouped(labels: np.ndarray, batch_size: int = 12, seed: int = 0, **options: int) -> ClassBalancedBatches:
    return ClassBalancedBatches(np.full(len(labels), 3), batch_size, seed, labels=labels, **options)


def rows_of(batches: DocumentBatches, epoch: int = 0) -> list[list[int]]:
    found = list(batches.of_epoch(epoch))
    assert len(found) == len(batches)
    assert {own for batch in found for own, _ in batch} == {epoch}
    return [[row for _, row in batch] for batch in found]


# Makes the batches of 72 documents, from their lengths, a batch size, a seed, a rank and a number of processes.
KINDS: dict[str, Callable[..., DocumentBatches]] = {
    "epochs": EpochBatches,
    "some": lambda *shares: EpochBatches(*shares, rows=np.arange(3, 60), most=40),
    "groups": lambda *shares: ClassBalancedBatches(*shares, labels=labels_of([30, 20, 10, 5, 4, 3])),
    "pairs": lambda *shares: BalancedPairBatches(*shares, labels=(np.arange(72) % 5 == 0).astype(np.int64)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_depend_on_seed_and_epoch_alone_and_are_shared_evenly(kind: str) -> None:
    counts = np.random.default_rng(0).integers(2, 51, size=72)
    batches = KINDS[kind](counts, 16, 3)
    first, later = rows_of(batches, 0), rows_of(batches, 1)
    assert rows_of(KINDS[kind](counts, 16, 3), 0) == rows_of(batches, 0) == first
    assert later != first != rows_of(KINDS[kind](counts, 16, 4), 0)
    for processes in (2, 3):
        shares = [rows_of(KINDS[kind](counts, 16, 3, rank, processes)) for rank in range(processes)]
        for number, batch in enumerate(first):
            dealt = [row for share in shares for row in share[number]]
            assert sorted(dealt) == sorted(batch)
            passages = [sum(counts[row] for row in share[number]) for share in shares]
            assert max(passages) - min(passages) <= counts.max()


def test_an_epoch_passes_once_over_all_documents_or_a_part_of_them() -> None:
    counts = np.arange(2, 35)
    batches = rows_of(EpochBatches(counts, 8, seed=1))
    assert [len(batch) for batch in batches] == [8] * 4
    assert len({row for batch in batches for row in batch}) == 32
    rows = np.arange(5, 21)
    assert sorted(row for batch in rows_of(EpochBatches(counts, 4, 0, rows=rows)) for row in batch) == rows.tolist()
    assert (
        rows_of(EpochBatches(counts, 4, 0, rows=rows, most=11)) == rows_of(EpochBatches(counts, 4, 0, rows=rows))[:2]
    )
    # Fewer documents than a batch make one.
    assert [len(batch) for batch in rows_of(EpochBatches(counts, 4, 0, most=3))] == [3]
    assert [len(batch) for batch in rows_of(EpochBatches(np.full(5, 3), 8, seed=0))] == [5]


LABELS = st.lists(st.integers(0, 1), min_size=2, max_size=40).filter(lambda labels: len(set(labels)) == 2)


@given(LABELS, st.integers(1, 8), st.integers(0, 100), st.integers(0, 3))
@hypothesis_settings(deadline=None, max_examples=100)
def test_every_batch_has_as_many_pairs_of_both_labels(labels: list[int], half: int, seed: int, epoch: int) -> None:
    known = np.array(labels)
    batches = BalancedPairBatches(np.ones(len(labels), np.int64), 2 * half, seed, labels=known)
    found = rows_of(batches, epoch)
    assert len(found) >= 1
    assert all(known[batch].sum() * 2 == len(batch) == batches.batch_size for batch in found)
    more = int(known.sum() * 2 >= len(known))
    everything = [number for batch in found for number in batch]
    counts = {label: Counter(number for number in everything if known[number] == label) for label in (0, 1)}
    # Pairs of the larger label come once at most; of the smaller, none comes again before all have come.
    assert max(counts[more].values()) == 1
    smaller = [counts[1 - more][number] for number in np.flatnonzero(known == 1 - more)]
    assert max(smaller) - min(smaller) <= 1


@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=12),
    batch_size=st.integers(4, 40),
    smallest=st.integers(1, 2),
    seed=st.integers(0, 100),
)
def test_every_document_of_a_batch_has_another_of_its_group(
    sizes: list[int], batch_size: int, smallest: int, seed: int
) -> None:
    labels = labels_of([*sizes, 4, 5], seed)
    size_of = Counter(labels.tolist())
    batches = grouped(labels, batch_size, seed, smallest=smallest)
    found = rows_of(batches)
    for rows in found:
        assert len(set(rows)) == len(rows) <= batches.batch_size <= batch_size
        assert len(found) == 1 or 2 * len(rows) >= batches.batch_size
        groups = Counter(labels[rows].tolist())
        assert len(groups) >= 2
        assert all(count >= 2 or size_of[group] == 1 for group, count in groups.items())
        assert all(size_of[group] >= smallest for group in groups)
        assert max(groups.values()) <= max(min(4, batch_size // 2), batches.batch_size / 2)


@given(sizes=st.lists(st.integers(2, 30), min_size=4, max_size=20), seed=st.integers(0, 100))
def test_an_epoch_visits_nearly_every_document_once(sizes: list[int], seed: int) -> None:
    # No group has more than half of the documents.
    sizes = [min(size, sum(sizes) // 3) for size in sizes]
    assume(min(sizes) >= 2 and 2 * max(sizes) <= sum(sizes))
    labels = labels_of(sizes, seed)
    batches = grouped(labels, 8, seed)
    visits = Counter(row for rows in rows_of(batches) for row in rows)
    assert len(visits) >= len(labels) - 8 - 2 * len(batches)
    assert visits.total() - len(visits) <= 2 * len(batches)


def test_documents_left_to_other_epochs_have_their_turn() -> None:
    labels = labels_of([50, 3, 3, 2, 2, 2, 2])
    batches = grouped(labels)
    epochs = [{row for rows in rows_of(batches, epoch) for row in rows} for epoch in range(30)]
    assert all(len(rows) < len(labels) - 8 for rows in epochs)
    assert set.union(*epochs) == set(range(len(labels)))
    # Documents of small groups come in nearly every epoch, those of the large one less often.
    visits = np.array([[row in rows for row in range(len(labels))] for rows in epochs]).mean(axis=0)
    assert visits[labels > 0].min() > 0.7 > visits[labels == 0].mean()


def test_groups_give_chunks_of_about_four_and_a_large_one_no_more_than_half() -> None:
    labels = labels_of([40] * 20)
    counts = [Counter(labels[rows].tolist()) for rows in rows_of(grouped(labels, 16))]
    assert len(counts) == 50
    # Two chunks of one group meet only where the last ones are dealt.
    sizes = Counter(count for groups in counts for count in groups.values())
    assert set(sizes) <= {4, 8} and sizes[4] > 0.95 * sizes.total()
    labels = labels_of([600, 60, 60, 60])
    shares = [np.mean(labels[rows] == 0) for rows in rows_of(grouped(labels, 24))]
    # One chunk more or less, which is a sixth of a batch.
    assert max(shares) <= 0.5 + 1 / 6 and np.mean(shares) == pytest.approx(0.5, abs=0.05)


def test_documents_without_a_group_or_alone_in_theirs_are_left_out() -> None:
    labels = np.array([0, 0, 1, 1, 1, -1, -1, 2, -5])
    batches = grouped(labels, 4)
    assert {row for epoch in range(9) for rows in rows_of(batches, epoch) for row in rows} == {0, 1, 2, 3, 4}
    assert sorted(rows_of(grouped(labels, 6, smallest=1))[0]) == [0, 1, 2, 3, 4, 7]
    few = grouped(np.array([0, 1, 0, 1, 1, 2, 2]), 64)
    assert (few.batch_size, sorted(rows_of(few)[0])) == (7, list(range(7)))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: EpochBatches(np.full(5, 3), 8, 0, 0, 6), "6 processes"),
        (lambda: BalancedPairBatches(np.ones(2), 2, 0, labels=np.array([1, 1])), "2 pairs"),
        (lambda: BalancedPairBatches(np.ones(2), 3, 0, labels=np.array([1, 0])), "3 pairs"),
        (lambda: BalancedPairBatches(np.ones(2), 8, 0, 0, 3, labels=np.array([1, 0])), "3 processes"),
        (lambda: grouped(np.array([0, 0, 1])), "1 groups"),
        (lambda: grouped(np.empty(0, np.int64)), "0 groups"),
        (lambda: grouped(np.array([-1, -1]), smallest=1), "0 groups"),
        (lambda: grouped(np.array([0, 0, 1, 1]), 3), "batches of 3"),
        (lambda: grouped(np.array([0, 0, 1, 1]), processes=3), "3 processes"),
    ],
)
def test_what_makes_no_batches_is_refused(make: Callable[[], DocumentBatches], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()
