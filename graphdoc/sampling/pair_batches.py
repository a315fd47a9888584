"""Batches of pairs of documents, for losses that compare the two documents of a pair."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..runtime.text import counted
from .epoch_batches import EpochBatches, Place


class PairBatches(EpochBatches):
    """Batches of pairs in an order of its own for every epoch; whole pairs are dealt to processes.

    A batch holds the two documents of every pair side by side. Documents are counted through all pairs: number ``2 p``
    is the first document of pair ``p``, and ``2 p + 1`` the second.

    Args:
        passage_counts: ``(pairs, 2)``, passages of both documents of every pair.
        batch_size: pairs of a batch, over all processes; all pairs make one batch where there are fewer.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.

    Raises:
        ValueError: a process would have no pair of a batch.
    """

    def __init__(
        self, passage_counts: npt.NDArray[np.int64], batch_size: int, seed: int, rank: int = 0, processes: int = 1
    ) -> None:
        if (pairs := min(batch_size, len(passage_counts))) < processes:
            raise ValueError(f"a batch of {counted(pairs, 'pair')} is too small for {processes} processes")
        super().__init__(passage_counts.sum(axis=1), batch_size, seed, rank, processes)

    def of_epoch(self, epoch: int) -> Iterator[list[Place]]:
        """The batches of any epoch, as places of documents."""
        for pairs in super().of_epoch(epoch):
            yield [(epoch, 2 * pair + side) for epoch, pair in pairs for side in (0, 1)]
