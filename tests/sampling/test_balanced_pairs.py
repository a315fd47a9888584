from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graphdoc.sampling import BalancedPairBatches

LABELS = st.lists(st.integers(0, 1), min_size=2, max_size=40).filter(lambda labels: len(set(labels)) == 2)


@given(LABELS, st.integers(1, 8), st.integers(0, 100), st.integers(0, 3))
@hypothesis_settings(deadline=None, max_examples=100)
def test_every_batch_has_as_many_of_both_labels(labels: list[int], half: int, seed: int, epoch: int) -> None:
    known = np.array(labels)
    batches = BalancedPairBatches(np.ones(len(labels), np.int64), 2 * half, seed, labels=known)
    found = [[number for _, number in batch] for batch in batches.of_epoch(epoch)]
    assert len(found) == len(batches) >= 1
    assert all(known[batch].sum() * 2 == len(batch) == batches.batch_size for batch in found)
    assert found == [[number for _, number in batch] for batch in batches.of_epoch(epoch)]
    more = int(known.sum() * 2 >= len(known))
    everything = [number for batch in found for number in batch]
    counts = {label: Counter(number for number in everything if known[number] == label) for label in (0, 1)}
    # Pairs of the larger label come once at most; of the smaller, none comes again before all have come.
    assert max(counts[more].values()) == 1
    smaller = [counts[1 - more][number] for number in np.flatnonzero(known == 1 - more)]
    assert max(smaller) - min(smaller) <= 1


@given(LABELS, st.integers(1, 6), st.integers(0, 100))
@hypothesis_settings(deadline=None, max_examples=50)
def test_processes_share_the_batches_of_one(labels: list[int], half: int, seed: int) -> None:
    known, sentences = np.array(labels), np.random.default_rng(seed).integers(2, 80, len(labels))
    shares = ((0, 1), (0, 2), (1, 2))
    one, *two = (
        BalancedPairBatches(sentences, 2 * half, seed, rank, processes, labels=known) for rank, processes in shares
    )
    for whole, first, second in zip(*(batches.of_epoch(1) for batches in (one, *two)), strict=True):
        assert sorted(whole) == sorted(first + second)
        assert first and second


@pytest.mark.parametrize(
    ("labels", "size", "processes", "word"),
    [([1, 1], 2, 1, "2 pairs"), ([1, 0], 3, 1, "halves"), ([1, 0], 8, 3, "3 processes")],
)
def test_what_makes_no_batches_is_refused(labels: list[int], size: int, processes: int, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        BalancedPairBatches(np.ones(len(labels), np.int64), size, 0, 0, processes, labels=np.array(labels))
