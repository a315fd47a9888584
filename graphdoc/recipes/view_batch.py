"""Batches of views of pairs of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..corpus.prepare import TrainingCorpus
from ..corpus.view_pool import ViewPool
from ..graphs.batch import GraphBatch
from ..matching.reader import DualReader, ViewReader, ViewTokens
from ..matching.special_tokens import SpecialTokens
from ..matching.view_tokens import FieldTokens
from ..sampling import RowLists
from ..sampling.draws import random_generator
from ..settings.view_training import ViewRunSettings
from ..training.batch import Role, TrainingBatch, TrainingExample

Rows = npt.NDArray[np.int64]


class FirstDocuments:
    """The first document of every pair, by the number of the pair.

    Args:
        corpus: the documents.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
    """

    def __init__(self, corpus: TrainingCorpus, rows: Rows) -> None:
        self._corpus, self._rows = corpus, rows

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self._rows)

    def __getitem__(self, number: int) -> TrainingExample:
        """The first document of a pair."""
        return self._corpus[int(self._rows[number, 0])]

    @property
    def passage_counts(self) -> Rows:
        """1 for every pair: views have the same length."""
        return np.ones(len(self), np.int64)


@dataclass(frozen=True)
class ViewSource:
    """Gives the tokens of the views of pairs.

    Args:
        corpus: the documents, cut into sentences.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        pool: their views.
        special: special tokens of the tokenizer.
        settings: which views an epoch reads.
    """

    corpus: TrainingCorpus
    rows: Rows
    pool: ViewPool
    special: SpecialTokens
    settings: ViewRunSettings

    def views(self, pairs: Sequence[int], epoch: int) -> list[ViewTokens]:
        """The views that an epoch reads of some pairs, pair after pair, without special tokens."""
        kept, found = self.settings.views.receptive_field, []
        for pair in pairs:
            documents = [self.corpus[row] for row in self.rows[pair].tolist()]
            first, second = (FieldTokens.of(one.id, one.token_ids, kept, self.special) for one in documents)
            for number in self._numbers(pair, epoch):
                view = self.pool.view(pair, number)
                found.append((first.tokens_of(view.first), second.tokens_of(view.second)))
        return found

    def _numbers(self, pair: int, epoch: int) -> Sequence[int]:
        """The views that an epoch reads of a pair; of views in order one of the epoch's range."""
        numbers = self.settings.view_numbers(epoch)
        if self.settings.pool_order == "drawn":
            return numbers
        draw = random_generator(self.settings.training.seed, "view of a range", epoch, pair)
        return [numbers[int(draw.integers(len(numbers)))]]


@dataclass(frozen=True)
class ViewCollator:
    """Makes batches of pairs with labels, in the processes that load ahead.

    Args:
        source: gives views.
        reader: how they are read.
        labels: ``(pairs,)``, 1 for pairs that match, else 0.
        groups: ``(pairs, 2)``, equal numbers for copies of one text.
    """

    source: ViewSource
    reader: ViewReader
    labels: Rows
    groups: Rows

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of pairs of one epoch."""
        numbers, epoch = [number for _, _, number in places], places[0][1]
        graphs = self.reader.graphs(self.source.views(numbers, epoch), self.source.settings.views_at_once)
        labels = torch.from_numpy(self.labels[numbers])
        return _batch(
            self.source, numbers, graphs, {"class": labels, "label": labels}, self.reader.roles(len(numbers))
        )


@dataclass(frozen=True)
class ContrastCollator(ViewCollator):
    """Makes batches of pairs that match, and beside each some that do not, of the same first document.

    Args:
        negatives: for every pair numbers of the pairs of its first document that do not match.
        answers: for every pair groups of all documents that match its first one.
    """

    negatives: RowLists = field(kw_only=True)
    answers: RowLists = field(kw_only=True)

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of pairs of one epoch."""
        assert isinstance(self.reader, DualReader)
        numbers, epoch = [number for _, _, number in places], places[0][1]
        others = [other for number in numbers for other in self._drawn(number, epoch)]
        matching, apart = self.source.views(numbers, epoch), self.source.views(others, epoch)
        texts = [first for first, _ in matching] + [second for _, second in [*matching, *apart]]
        pairs = len(numbers)
        targets = {
            "positive": torch.arange(pairs),
            "answers": torch.from_numpy(self._filled_answers(numbers)),
            "group": torch.from_numpy(self.groups[[*numbers, *others], 1]),
        }
        roles = {"query": slice(pairs), "candidate": slice(pairs, 2 * pairs + len(others))}
        graphs = self.reader.alone(texts, self.source.settings.views_at_once)
        return _batch(self.source, numbers, graphs, targets, roles)

    def _drawn(self, number: int, epoch: int) -> list[int]:
        """Pairs that do not match, drawn anew in every epoch."""
        settings, own = self.source.settings, self.negatives[number]
        draw = random_generator(settings.training.seed, "negative pairs", epoch, number)
        return [int(other) for other in draw.permutation(own)[: settings.loss.negatives]]

    def _filled_answers(self, numbers: Sequence[int]) -> Rows:
        """Groups of what matches, filled up with -1, ``(pairs, most)``."""
        answers = [self.answers[number] for number in numbers]
        filled = np.full((len(answers), max(map(len, answers))), -1, np.int64)
        for row, groups in enumerate(answers):
            filled[row, : len(groups)] = groups
        return filled


def _batch(
    source: ViewSource,
    numbers: Sequence[int],
    graphs: GraphBatch,
    targets: Mapping[str, Tensor],
    roles: Mapping[str, Role],
) -> TrainingBatch:
    ids = tuple(" ".join(source.corpus[row].id for row in source.rows[number].tolist()) for number in numbers)
    return TrainingBatch(graphs=graphs, ids=ids, targets=targets, roles=roles)
