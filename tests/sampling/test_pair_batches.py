from __future__ import annotations

import numpy as np
import pytest

from graphdoc.sampling import PairBatches


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_share_the_pairs_of_a_batch(processes: int) -> None:
    counts = np.random.default_rng(0).integers(1, 20, size=(23, 2))
    shares = [PairBatches(counts, 7, 5, rank, processes) for rank in range(processes)]
    (whole,) = [list(batches.of_epoch(2)) for batches in [PairBatches(counts, 7, 5)]]
    assert [len(batches) for batches in shares] == [3] * processes
    seen: list[int] = []
    for number, parts in enumerate(zip(*(batches.of_epoch(2) for batches in shares), strict=True)):
        pairs = []
        for part in parts:
            numbers = [place for _, place in part]
            firsts, seconds = numbers[0::2], numbers[1::2]
            assert firsts
            assert [first + 1 for first in firsts] == seconds
            assert all(first % 2 == 0 for first in firsts)
            assert {epoch for epoch, _ in part} == {2}
            pairs += [first // 2 for first in firsts]
        assert sorted(pairs) == sorted({place // 2 for _, place in whole[number]})
        seen += pairs
    assert len(set(seen)) == len(seen) == 21


def test_epochs_differ_and_are_the_same_again() -> None:
    counts = np.ones((40, 2), np.int64)
    batches = PairBatches(counts, 10, 1)
    assert list(batches.of_epoch(3)) == list(PairBatches(counts, 10, 1).of_epoch(3))
    assert list(batches.of_epoch(3)) != [[(3, place) for _, place in batch] for batch in batches.of_epoch(4)]


def test_every_process_needs_a_pair() -> None:
    with pytest.raises(ValueError, match="a batch of 2 pairs is too small for 3 processes"):
        PairBatches(np.ones((2, 2), np.int64), 8, 0, 0, 3)
