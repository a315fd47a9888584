from __future__ import annotations

import numpy as np
import pytest

from graphdoc.sampling import EpochBatches


def test_batches_cover_an_epoch_in_an_order_of_its_own() -> None:
    counts = np.arange(2, 35)
    batches = EpochBatches(counts, 8, seed=1)
    first, second = list(batches.of_epoch(0)), list(batches.of_epoch(1))

    assert [len(batch) for batch in first] == [8, 8, 8, 8] == [len(batch) for batch in second]
    assert len({row for batch in first for _, row in batch}) == 32
    assert {epoch for batch in second for epoch, _ in batch} == {1}
    assert [row for _, row in first[0]] != [row for _, row in second[0]]


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_a_batch_evenly(processes: int) -> None:
    counts = np.random.default_rng(0).integers(2, 51, size=64)
    whole = list(EpochBatches(counts, 16, seed=3).of_epoch(0))
    shares = [list(EpochBatches(counts, 16, 3, rank, processes).of_epoch(0)) for rank in range(processes)]

    for number, batch in enumerate(whole):
        dealt = [place for share in shares for place in share[number]]
        assert sorted(dealt) == sorted(batch)
        passages = [sum(counts[row] for _, row in share[number]) for share in shares]
        assert max(passages) - min(passages) <= counts.max()


def test_a_corpus_smaller_than_a_batch_is_one_batch() -> None:
    assert [len(batch) for batch in EpochBatches(np.full(5, 3), 8, seed=0).of_epoch(0)] == [5]
    with pytest.raises(ValueError, match="a batch of 5 documents is too small for 6 processes"):
        EpochBatches(np.full(5, 3), 8, 0, 0, 6)
