"""Batches of labelled pairs, half of them similar and half not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..runtime.text import counted
from .draws import Rows
from .epoch_batches import DocumentBatches


class BalancedPairBatches(DocumentBatches):
    """Batches with as many similar pairs as others, in an order of its own for every epoch (SST, appendix B.1).

    An epoch passes once over the pairs of the label that has more, but for those left over, too few for a batch; pairs
    of the other label come as often as it takes, all of them before any comes again. Pairs are dealt to processes by
    their sentences, so that a process may have more of one label.

    Args:
        sentences: ``(pairs,)``, sentences of both documents of every pair.
        labels: ``(pairs,)``, 1 for pairs that are similar, else 0.
        batch_size: pairs of a batch, over all processes, an even number; twice those of the label that has more, where
            these are too few.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.

    Raises:
        ValueError: there are no pairs of a label, the batch size is odd, or a process would have no pair of a batch.
    """

    def __init__(
        self,
        sentences: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int64],
        batch_size: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self._members = tuple(np.flatnonzero(labels == label).astype(np.int64) for label in (1, 0))
        sizes = [len(members) for members in self._members]
        if not min(sizes):
            raise ValueError(f"all {counted(max(sizes), 'pair')} have the same label")
        if batch_size % 2:
            raise ValueError(f"a batch of {batch_size} pairs has no halves")
        self._half, self._most = min(batch_size // 2, max(sizes)), max(sizes)
        if 2 * self._half < processes:
            raise ValueError(f"a batch of {counted(2 * self._half, 'pair')} is too small for {processes} processes")
        super().__init__(sentences, 2 * self._half, seed, rank, processes)

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return self._most // self._half

    def _draw(self, draw: np.random.Generator) -> Iterator[Rows]:
        needed = len(self) * self._half
        orders = []
        for members in self._members:
            rounds = -(-needed // len(members))
            orders.append(np.concatenate([draw.permutation(members) for _ in range(rounds)])[:needed])
        for step in range(len(self)):
            chosen = slice(step * self._half, (step + 1) * self._half)
            yield np.concatenate([order[chosen] for order in orders])
