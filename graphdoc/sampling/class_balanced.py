"""Batches in which every document has another one of its group (for supervised contrastive loss)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from .batches import DocumentBatches, Rows

# A document needs another one of its group, and no group more than this share of a batch.
FEWEST, MOST_SHARE = 2, 0.5


class ClassBalancedBatches(DocumentBatches):
    """Batches of a few documents each from many groups, drawn anew in every epoch.

    In every batch, each document has at least one other of its group, and there are several groups. Each group is
    split into chunks of about ``per_class`` documents, which are spread over the batches as far apart as they can be.
    Within an epoch all documents come once, but for those that fit nowhere: less than a batch of them, and what a
    large group holds beyond its share of half a batch. Which ones these are is drawn in every epoch, so that all
    documents have their turn. Only where a batch would be left to one group do two documents of another come a second
    time.

    Args:
        passage_counts: passages of every document of the corpus.
        labels: ``(documents,)``, the group of every document; below 0 for documents without one, which are left out.
        batch_size: documents of a batch, over all processes; a batch has fewer where they do not fit together, and
            where there are not as many.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.
        rows: documents that are trained on; None for all.
        per_class: documents that a group gives to a batch, if it has as many; None for 4, or half of a small batch.
        smallest: documents that a group must have, or it is left out. 1 keeps documents that are alone in their group;
            that is for models that split documents into sections, which are positives of each other.

    Attributes:
        batch_size: most documents of a batch.
        documents: number of documents that are trained on.
        groups: number of their groups.
        left_out: number of documents left out for good, by reason.

    Raises:
        ValueError: a value is out of range, all documents are of one group, no group has enough documents, or a
            process could be left without documents.
    """

    def __init__(
        self,
        passage_counts: npt.NDArray[np.int64],
        batch_size: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        *,
        labels: npt.NDArray[np.int64],
        rows: Rows | None = None,
        per_class: int | None = None,
        smallest: int = FEWEST,
    ) -> None:
        if smallest not in (1, FEWEST):
            raise ValueError(f"smallest={smallest} must be 1 or {FEWEST}")
        per_class = max(FEWEST, min(4, batch_size // 2)) if per_class is None else per_class
        if per_class < FEWEST or batch_size < 2 * per_class:
            raise ValueError(
                f"a batch of {batch_size} documents has no room for {per_class} documents each (per_class) of two "
                f"groups; per_class is {FEWEST} to half of batch_size"
            )
        rows = np.arange(len(labels)) if rows is None else rows
        self._members = self._grouped(rows, np.asarray(labels)[rows], smallest)
        sizes = np.array([len(members) for members in self._members])
        self.documents, self.groups = int(sizes.sum()), len(sizes)
        super().__init__(passage_counts, min(batch_size, self.documents), seed, rank, processes)
        self._per_class = max(FEWEST, min(per_class, self.batch_size // 2))
        # There is always room for a second group, or a batch would have nothing to separate.
        most = min(int(self.batch_size * MOST_SHARE), self.batch_size - FEWEST)
        self._most = max(self._per_class, most)
        self._sizes = sizes
        self._length = self._full_batches(sizes)
        # Where documents do not fit together, batches have fewer, but no process may be left without any.
        if min(self.batch_size // 2, int(np.minimum(sizes, self._most).sum())) < processes:
            raise ValueError(
                f"batches of {self.batch_size} documents in groups are too small for {processes} processes"
            )

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return self._length

    def _grouped(self, rows: Rows, labels: npt.NDArray[np.int64], smallest: int) -> list[Rows]:
        """The documents of every group that is large enough."""
        order = np.argsort(labels, kind="stable")
        numbers, starts = np.unique(labels[order], return_index=True)
        parts = [part for number, part in zip(numbers, np.split(rows[order], starts)[1:], strict=True) if number >= 0]
        members = [part for part in parts if len(part) >= smallest]
        left_out = {
            "without a group": int((labels < 0).sum()),
            "alone in their group": sum(len(part) for part in parts) - sum(len(part) for part in members),
        }
        self.left_out = {reason: count for reason, count in left_out.items() if count}
        if not members:
            reasons = ", ".join(f"{count:,} are {reason}" for reason, count in self.left_out.items())
            raise ValueError(f"no group has {smallest} documents" + (f": {reasons}" if reasons else ""))
        if len(members) == 1:
            raise ValueError(f"all {len(members[0]):,} documents are of one group; there is nothing to separate")
        return members

    def _full_batches(self, sizes: npt.NDArray[np.int64]) -> int:
        """How many batches can be filled, if no group gives more than its share to any; at least 1."""
        batches = int(sizes.sum()) // self.batch_size
        while batches > (fewer := int(np.minimum(sizes, batches * self._most).sum()) // self.batch_size):
            batches = fewer
        return max(1, batches)

    def _draw(self, draw: np.random.Generator) -> Iterator[Rows]:
        orders = [draw.permutation(members) for members in self._members]
        taken = [0] * len(orders)
        for counts in self._plan(draw):
            parts = []
            for group, count in counts.items():
                parts.append(orders[group].take(range(taken[group], taken[group] + count), mode="wrap"))
                taken[group] += count
            yield np.concatenate(parts)

    def _plan(self, draw: np.random.Generator) -> list[Counter[int]]:
        """How many documents of which group make up every batch of an epoch."""
        plan: list[Counter[int]] = [Counter() for _ in range(len(self))]
        batches_of: list[set[int]] = [set() for _ in self._sizes]
        room = np.full(len(plan), self.batch_size)
        left, fewest = self._sizes.copy(), np.minimum(self._sizes, FEWEST)

        def deal(group: int, batch: int, most: int) -> None:
            count = min(most, int(left[group]), int(room[batch]), self._most - plan[batch][group])
            plan[batch][group] += count
            batches_of[group].add(batch)
            room[batch] -= count
            left[group] -= count

        for group, size in self._chunks(draw):
            own = np.zeros(len(plan), np.int64)
            for batch in batches_of[group]:
                own[batch] = plan[batch][group]
            # One document may join others of its group, but may not stand alone.
            fits = (room >= np.where(own > 0, 1, fewest[group])) & (own < self._most)
            if fits.any():
                # First where the group has least, then where most room is, then by lot.
                worth = np.where(fits, own * self.batch_size - room + draw.random(len(plan)), np.inf)
                deal(group, int(worth.argmin()), size)
        # What did not fit as a chunk fills up, one by one, batches that the group is in already, or else any.
        for batch in np.flatnonzero(room).tolist():
            for group in draw.permutation(list(plan[batch])).tolist():
                deal(group, batch, int(room[batch]))
            for group in draw.permutation(np.flatnonzero(left >= fewest)).tolist():
                if group not in plan[batch] and room[batch] >= fewest[group]:
                    deal(group, batch, self._per_class)
        for counts in plan:
            if len(counts) == 1:
                # The other groups are used up: one of them comes a second time.
                other = int(draw.choice(np.delete(np.arange(len(left)), list(counts))))
                counts[other] = int(fewest[other])
        return plan

    def _chunks(self, draw: np.random.Generator) -> list[tuple[int, int]]:
        """All chunks, as group and number of documents, in the order in which they are dealt."""
        chunks = []
        for group, size in enumerate(np.minimum(self._sizes, len(self) * self._most).tolist()):
            count = max(1, min(round(size / self._per_class), size // FEWEST))
            chunks += [(group, size // count + (number < size % count)) for number in range(count)]
        return [chunks[place] for place in draw.permutation(len(chunks)).tolist()]
