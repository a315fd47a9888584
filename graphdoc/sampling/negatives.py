"""Negatives of queries: documents that are drawn for every pair of query and answer in every epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np

from ..runtime.arrays import Rows
from .batches import random_generator

# With fewer documents to choose from for each that is wanted, trying at random takes long.
_FEW = 4


@dataclass(frozen=True)
class RowLists:
    """Lists of rows of different lengths, one for every query: all rows, and where each list ends."""

    rows: Rows
    ends: Rows

    @classmethod
    def from_lists(cls, lists: Iterable[Rows]) -> Self:
        """Put lists together."""
        found = [np.asarray(one, np.int64) for one in lists]
        rows = np.concatenate(found) if found else np.empty(0, np.int64)
        return cls(rows, np.array(list(accumulate(map(len, found))), np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> Rows:
        part: Rows = self.rows[self.ends[number - 1] if number else 0 : self.ends[number]]
        return part

    def padded(self, numbers: Iterable[int]) -> Rows:
        """Some of the lists, filled up with -1, ``(lists, longest)``."""
        lists = [self[number] for number in numbers]
        filled = np.full((len(lists), max(map(len, lists))), -1, np.int64)
        for row, part in zip(filled, lists, strict=True):
            row[: len(part)] = part
        return filled

    @property
    def lengths(self) -> Rows:
        """Length of every list, ``(lists,)``."""
        return np.diff(self.ends, prepend=0)


class NegativeSampler:
    """Draws negatives, as a function of seed, epoch and pair alone: whichever process draws, they are the same.

    Args:
        per_query: documents that are drawn for a pair; fewer where there are not as many.
        seed: of the draws.
        groups: ``(documents,)``, equal numbers for copies of one text, from 0.
        answers: groups of the documents that are no negatives of a query, for every query.
        pools: rows that are drawn from, for every query; None draws from all documents.
    """

    def __init__(
        self, per_query: int, seed: int, groups: Rows, answers: RowLists, pools: RowLists | None = None
    ) -> None:
        self.per_query, self._seed, self._groups, self._answers = per_query, seed, groups, answers
        self._copies = np.bincount(groups)
        self._pools: RowLists | None = None
        if pools is not None:
            self.use(pools)

    @property
    def pool_sizes(self) -> Rows | None:
        """How many documents there are to draw from for every query, ``(queries,)``; None for all."""
        return None if self._pools is None else self._pools.lengths

    def use(self, pools: RowLists) -> None:
        """Draw from other documents from now on; answers and their copies are taken out."""
        self._pools = RowLists.from_lists(self._without_answers(pools[query], query) for query in range(len(pools)))

    def sample(self, epoch: int, pair: int, query: int) -> Rows:
        """Draw the negatives of a pair and its query, each once, ``(negatives,)``."""
        if not self.per_query:
            return np.empty(0, np.int64)
        draw = random_generator(self._seed, "negatives", epoch, pair)
        if self._pools is not None:
            pool = self._pools[query]
            return draw.choice(pool, min(self.per_query, len(pool)), replace=False, shuffle=False)
        if len(self._groups) < _FEW * (self.per_query + int(self._copies[self._answers[query]].sum())):
            pool = self._without_answers(np.arange(len(self._groups)), query)
            return draw.choice(pool, min(self.per_query, len(pool)), replace=False, shuffle=False)
        answers, found = set(self._answers[query].tolist()), dict[int, None]()
        while len(found) < self.per_query:
            row = int(draw.integers(len(self._groups)))
            if int(self._groups[row]) not in answers:
                found[row] = None
        return np.array(list(found), np.int64)

    def _without_answers(self, rows: Rows, query: int) -> Rows:
        kept: Rows = rows[~np.isin(self._groups[rows], self._answers[query])]
        return kept
