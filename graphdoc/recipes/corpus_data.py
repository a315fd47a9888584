"""What all recipes share that train on a corpus made ready beforehand, with labels, groups or pairs, or without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..corpus.document import split_of
from ..corpus.report import CorpusReport
from ..corpus.source import CorpusSource
from ..corpus.stored import open_corpus
from ..documents.document import Document
from ..errors import DocumentError, SettingsError
from ..sampling import DocumentBatches
from ..training.loading import Collate, Corpus, EpochLoader
from ..training.task import TaskData
from .base import Start


class CorpusData(TaskData):
    """Batches of a corpus that was cut and tokenised once, as a function of the step alone.

    Args:
        start: what the recipe begins with.

    Attributes:
        documents: documents to train on.
        batch_size: documents, or pairs, of a batch, over all processes; there once there are batches.
        steps: steps of the whole run; there once there are batches.
        loader: gives this process's share of every batch; there once there are batches.
    """

    batch_size: int
    steps: int

    def __init__(self, start: Start[Any]) -> None:
        self._training, self._processes = start.settings.training, start.processes
        self._source = start.settings.corpus
        self._corpus, self._vectors = open_corpus(start.settings, start.encoder, start.processes, start.show_progress)
        self._config = start.encoder.model.config

    @property
    def report(self) -> CorpusReport:
        """What was read, kept and left out."""
        return self._corpus.report

    def documents_of(self, rows: npt.NDArray[np.int64]) -> list[Document]:
        """Documents of the corpus with their whole texts, such as those that are measured, as they come in the source.

        Args:
            rows: ``(documents,)``, their places in the corpus.

        Raises:
            DocumentError: they are not where they were when the corpus was made ready.
        """
        labels, splits = self._corpus.labels, self._corpus.splits
        wanted: Counter[Any] = Counter()
        for row in rows.tolist():
            example = self._corpus[row]
            wanted[example.id, example.group, labels[row], splits[row]] += 1
        found = []
        for group, document in CorpusSource(self._source).documents(CorpusReport()):
            key = document.id, group, document.label, split_of(document)
            if wanted[key]:
                wanted[key] -= 1
                found.append(document)
        if missing := next(iter(+wanted), None):
            raise DocumentError(
                f"{self._source.name}: document {missing[0]!r} has changed since the corpus was made ready; start the "
                "run again"
            )
        return found

    def _load(
        self,
        batches_of: Callable[[], DocumentBatches],
        collate: Collate,
        corpus: Corpus | None = None,
        *,
        across_epochs: bool = True,
    ) -> None:
        """Make the loader.

        Args:
            batches_of: makes the batches; fails with a ValueError where they are too small.
            collate: makes a batch of documents.
            corpus: what the batches count; None for the documents of the corpus.
            across_epochs: see :class:`~graphdoc.training.loading.EpochLoader`.

        Raises:
            SettingsError: batches are too small for the processes.
        """
        try:
            batches = batches_of()
        except ValueError as error:
            raise SettingsError(f"{error}; use fewer processes or a larger batch_size") from error
        training = self._training
        self.batch_size = batches.batch_size
        self.steps = training.max_steps or int(np.ceil(training.epochs * len(batches)))
        self.loader = EpochLoader(
            self._corpus if corpus is None else corpus,
            batches,
            collate,
            training.loading_processes,
            steps=self.steps,
            across_epochs=across_epochs,
        )
