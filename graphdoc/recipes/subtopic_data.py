"""Where the batches of learned subtopics come from: labelled pairs of documents, as graphs of their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..corpus.passage_vectors import PassageVectors
from ..documents.readers.pair_files import read_pair_file
from ..sampling import BalancedPairBatches
from ..settings.clustering import ClusteringSettings
from ..settings.subtopics import SubtopicRunSettings
from ..subtopics.pair_graphs import Vectors, columns_of, pair_graphs
from ..training.batch import TrainingBatch, TrainingExample
from .base import Start
from .corpus_data import CorpusData
from .corpus_pairs import CorpusPairs
from .view_batch import FirstDocuments

Rows = npt.NDArray[np.int64]


def subtopic_batch(
    pairs: Sequence[tuple[Vectors, Vectors]], labels: Sequence[int], ids: Sequence[str], settings: ClusteringSettings
) -> TrainingBatch:
    """Put pairs into a batch.

    Args:
        pairs: vectors of the sentences of both documents of every pair.
        labels: 1 for pairs that are similar, else 0.
        ids: an id for every pair.
        settings: those of the model.

    Returns:
        The batch, with the targets ``label`` and ``columns``, both ``(pairs,)``.
    """
    columns = [columns_of(len(first) + len(second), settings) for first, second in pairs]
    targets = {"label": torch.tensor(labels), "columns": torch.tensor(columns)}
    return TrainingBatch(pair_graphs(pairs, settings.neighbours), tuple(ids), targets)


@dataclass(frozen=True)
class SubtopicCollator:
    """Makes batches of pairs, in the processes that load ahead.

    Args:
        vectors: vectors of the sentences of all documents.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        labels: ``(pairs,)``, 1 for pairs that are similar, else 0.
        settings: those of the model.
    """

    vectors: PassageVectors
    rows: Rows
    labels: Rows
    settings: ClusteringSettings

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of pairs."""
        numbers = [number for _, _, number in places]
        pairs = [tuple(self.vectors.vectors_of(row) for row in self.rows[number].tolist()) for number in numbers]
        ids = [example.id for example, _, _ in places]
        return subtopic_batch(pairs, self.labels[numbers].tolist(), ids, self.settings)  # type: ignore[arg-type]


class SubtopicData(CorpusData):
    """Batches of labelled pairs, half of them similar.

    Args:
        start: what the recipe begins with; its model has its head for subtopics.

    Attributes:
        found: the pairs that are trained on.

    Raises:
        DocumentError: pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, start: Start[SubtopicRunSettings]) -> None:
        # Before the corpus is made ready, which takes longer than finding a mistake in the pairs.
        given = read_pair_file(start.settings.pairs.file or "")
        super().__init__(start)
        settings, processes = start.settings, start.processes
        training, clustering = settings.training, self._config.clustering
        assert self._vectors is not None and clustering is not None
        self.found = CorpusPairs.of(self._corpus, given, settings.pairs.unknown, setting="pairs.unknown=leave_out")
        self.documents = len(self.found.ids)
        rows, labels = self.found.rows, self.found.labels
        sentences = self._corpus.passage_counts[rows].sum(axis=1)

        def batches_of() -> BalancedPairBatches:
            return BalancedPairBatches(
                sentences, labels, training.batch_size, training.seed, processes.rank, processes.count
            )

        collate = SubtopicCollator(self._vectors, rows, labels, clustering)
        self._load(batches_of, collate, FirstDocuments(self._corpus, rows))

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {**self._corpus.record(), **self.found.record()}

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        return [self.report.summary(), self.found.describe()]
