"""Which documents make up which batch, as a pure function of seed, epoch and step."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ..runtime.arrays import Rows
from ..runtime.text import counted

# An epoch and a row of the corpus: all that a draw depends on.
EpochRow = tuple[int, int]


def random_generator(*key: int | str) -> np.random.Generator:
    """A random generator that depends on nothing but its key."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


class DocumentBatches(ABC):
    """Batches of an epoch, as a pure function of seed, epoch and step; of each, every process gets its share.

    Shares are such that all processes have about as many passages.

    Args:
        passage_counts: ``(documents,)``, passages of every document, or of both documents of a pair.
        batch_size: documents, or pairs, of a batch, over all processes.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.
    """

    def __init__(self, passage_counts: Rows, batch_size: int, seed: int, rank: int = 0, processes: int = 1) -> None:
        if batch_size < processes:
            raise ValueError(f"a batch of {batch_size} is too small for {processes} processes")
        self.batch_size, self._seed = batch_size, seed
        self._counts = np.asarray(passage_counts)
        self._rank, self._processes = rank, processes

    @abstractmethod
    def __len__(self) -> int:
        """Number of batches of an epoch, the same for all."""

    def of_epoch(self, epoch: int) -> Iterator[list[EpochRow]]:
        """The batches of an epoch: of each, the places of this process's documents."""
        for rows in self._draw(random_generator(self._seed, "order", epoch)):
            yield [(epoch, int(row)) for row in self._share(rows)]

    @abstractmethod
    def _draw(self, draw: np.random.Generator) -> Iterator[Rows]:
        """The documents of every batch of an epoch, drawn from the epoch's random numbers."""

    def _share(self, rows: Rows) -> Rows:
        """Deal documents out from the longest to the shortest, forth and back."""
        if self._processes == 1:
            return rows
        by_length = rows[np.argsort(-self._counts[rows], kind="stable")]
        place = np.arange(len(rows)) % (2 * self._processes)
        dealt_to = np.where(place < self._processes, place, 2 * self._processes - 1 - place)
        share: Rows = by_length[dealt_to == self._rank]
        return share


class EpochBatches(DocumentBatches):
    """Batches of documents or pairs in another order in every epoch.

    Those left over at the end of an epoch are left to other epochs; fewer documents than a batch make one.

    Args:
        rows: documents that are trained on; None for all.
        per_epoch: documents of an epoch, other ones in every epoch; None for all.
    """

    def __init__(
        self,
        passage_counts: Rows,
        batch_size: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        *,
        rows: Rows | None = None,
        per_epoch: int | None = None,
    ) -> None:
        self._rows = np.arange(len(passage_counts)) if rows is None else rows
        self._most = min(len(self._rows), per_epoch or len(self._rows))
        super().__init__(passage_counts, min(batch_size, self._most), seed, rank, processes)

    def __len__(self) -> int:
        return self._most // self.batch_size

    def _draw(self, draw: np.random.Generator) -> Iterator[Rows]:
        order = draw.permutation(self._rows)
        for step in range(len(self)):
            yield order[step * self.batch_size : (step + 1) * self.batch_size]


class BalancedPairBatches(DocumentBatches):
    """Batches with as many similar pairs as others, in another order in every epoch (SST, appendix B.1).

    An epoch passes once over the pairs of the label that has more, but for those left over, too few for a batch; pairs
    of the other label come as often as it takes, all of them before any comes again. A batch has twice the pairs of
    the label that has more, where these are too few.

    Args:
        labels: ``(pairs,)``, 1 for pairs that are similar, else 0.

    Raises:
        ValueError: there are no pairs of a label, the batch size is odd, or a process would have no pair of a batch.
    """

    def __init__(
        self, passage_counts: Rows, batch_size: int, seed: int, rank: int = 0, processes: int = 1, *, labels: Rows
    ) -> None:
        self._members = [np.flatnonzero(labels == label) for label in (1, 0)]
        fewest, self._most = sorted(map(len, self._members))
        if not fewest or batch_size % 2:
            same = f"all {counted(self._most, 'pair')} have the same label"
            raise ValueError(same if not fewest else f"a batch of {batch_size} pairs has no halves")
        self._half = min(batch_size // 2, self._most)
        super().__init__(passage_counts, 2 * self._half, seed, rank, processes)

    def __len__(self) -> int:
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


# Documents that a group gives to a batch, if it has as many: a document needs another one of its group.
FEWEST, PER_GROUP = 2, 4


class ClassBalancedBatches(DocumentBatches):
    """Batches of a few documents each from many groups, drawn in every epoch (for CoLDE, section 3.3).

    In every batch, each document has at least one other of its group, and there are several groups. Each group is
    split into chunks of about four documents, which are spread over the batches as far apart as they can be. Within an
    epoch all documents come once, but for those that fit nowhere: less than a batch of them, and what a large group
    holds beyond its share of half a batch. Which ones these are is drawn in every epoch, so that all documents have
    their turn. Only where a batch would be left to one group do two documents of another come a second time.

    Args:
        labels: ``(documents,)``, the group of every document; below 0 for documents without one, which are left out.
        smallest: documents that a group must have, or it is left out. 1 keeps documents that are alone in their group;
            that is for models that split documents into sections, which are positives of each other.

    Raises:
        ValueError: there are not two groups, batches have no room for them, or a process could get no document.
    """

    def __init__(
        self,
        passage_counts: Rows,
        batch_size: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        *,
        labels: Rows,
        smallest: int = FEWEST,
    ) -> None:
        order = np.argsort(labels, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(labels[order], prepend=-1)))[1:]
        self._members = [members for members in groups if len(members) >= smallest and labels[members[0]] >= 0]
        self._sizes = sizes = np.array([len(members) for members in self._members], np.int64)
        if len(sizes) < 2 or batch_size < 2 * FEWEST:
            raise ValueError(f"{len(sizes)} groups of {smallest} documents or more make no batches of {batch_size}")
        super().__init__(passage_counts, min(batch_size, int(sizes.sum())), seed, rank, processes)
        self._per_group = max(FEWEST, min(PER_GROUP, self.batch_size // 2))
        # There is always room for a second group, or a batch would have nothing to separate.
        self._most = max(self._per_group, min(self.batch_size // 2, self.batch_size - FEWEST))
        self._length = int(sizes.sum()) // self.batch_size
        while self._length > (fewer := int(np.minimum(sizes, self._length * self._most).sum()) // self.batch_size):
            self._length = fewer
        self._length = max(1, self._length)
        # Where documents do not fit together, batches have fewer, but no process may be left without any.
        if min(self.batch_size // 2, int(np.minimum(sizes, self._most).sum())) < processes:
            raise ValueError(f"batches of {self.batch_size} in groups are too small for {processes} processes")

    def __len__(self) -> int:
        return self._length

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
            there = np.zeros(len(plan), np.int64)
            for batch in batches_of[group]:
                there[batch] = plan[batch][group]
            # One document may join others of its group, but may not stand alone.
            fits = (room >= np.where(there > 0, 1, fewest[group])) & (there < self._most)
            if fits.any():
                # First where the group has least, then where most room is, then by lot.
                cost = np.where(fits, there * self.batch_size - room + draw.random(len(plan)), np.inf)
                deal(group, int(cost.argmin()), size)
        # What did not fit as a chunk fills up, one by one, batches that the group is in already, or else any.
        for batch in np.flatnonzero(room).tolist():
            for group in draw.permutation(list(plan[batch])).tolist():
                deal(group, batch, int(room[batch]))
            for group in draw.permutation(np.flatnonzero(left >= fewest)).tolist():
                if group not in plan[batch] and room[batch] >= fewest[group]:
                    deal(group, batch, self._per_group)
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
            count = max(1, min(round(size / self._per_group), size // FEWEST))
            chunks += [(group, size // count + (number < size % count)) for number in range(count)]
        return [chunks[place] for place in draw.permutation(len(chunks)).tolist()]
