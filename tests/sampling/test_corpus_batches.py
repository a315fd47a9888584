from __future__ import annotations

import numpy as np
import pytest

from graphdoc.sampling import CorpusBatches

CORPORA = [np.arange(0, 20), np.arange(20, 23), np.arange(23, 40)]
COUNTS = np.random.default_rng(0).integers(1, 30, size=40)


def test_a_batch_holds_one_corpus_and_an_epoch_all_of_them() -> None:
    batches = CorpusBatches(COUNTS, 6, seed=1, corpora=CORPORA)
    first, second = ([[row for _, row in batch] for batch in batches.of_epoch(epoch)] for epoch in (0, 1))

    assert len(first) == len(second) == len(batches) == 3 + 1 + 2
    for batch in first:
        (own,) = [rows for rows in CORPORA if set(batch) & set(rows.tolist())]
        assert set(batch) <= set(own.tolist())
        assert len(batch) == min(6, len(own))
    flat = [row for batch in first for row in batch]
    assert len(set(flat)) == len(flat) == 18 + 3 + 12
    assert first != second
    assert [[row for _, row in batch] for batch in batches.of_epoch(0)] == first
    # Corpora take turns, and not one after the other.
    assert any(
        [batch[0] // 20 for batch in draw] != sorted(batch[0] // 20 for batch in draw) for draw in (first, second)
    )


def test_processes_share_a_batch() -> None:
    whole = list(CorpusBatches(COUNTS, 6, seed=1, corpora=CORPORA).of_epoch(3))
    shares = [list(CorpusBatches(COUNTS, 6, 1, rank, 3, corpora=CORPORA).of_epoch(3)) for rank in range(3)]
    for number, batch in enumerate(whole):
        assert sorted(place for share in shares for place in share[number]) == sorted(batch)


def test_a_corpus_too_small_for_the_processes_is_refused() -> None:
    with pytest.raises(ValueError, match="a batch of 3 documents is too small for 4 processes"):
        CorpusBatches(COUNTS, 6, 0, 0, 4, corpora=CORPORA)
