"""Batches of sub-documents from a corpus that is streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from ..runtime.processes import Processes
from ..training.batch import TrainingBatch
from ..training.loading import Collate
from .stream import StreamingCorpus


class StreamedViews(IterableDataset[TrainingBatch]):
    """Batches of a streamed corpus, epoch after epoch without end.

    Args:
        corpus: this process's share of the corpus; it starts where its state says.
        batch_size: documents of a batch in each process.
        collate: makes a batch of documents.
        processes: the processes of the run, which agree on the number of batches of an epoch.
    """

    def __init__(self, corpus: StreamingCorpus, batch_size: int, collate: Collate, processes: Processes) -> None:
        self._corpus, self._batch_size, self._collate, self._processes = corpus, batch_size, collate, processes

    def __iter__(self) -> Iterator[TrainingBatch]:
        """Batches from the corpus's current place on."""
        while True:
            epoch = self._corpus.state["epoch"]
            for documents in self._corpus.batches(self._batch_size, self._processes):
                yield self._collate([(document, epoch, -1) for document in documents])
            self._corpus.set_epoch(epoch + 1)


class StreamLoader(DataLoader[Any]):
    """Gives the batches of a stream as they come; the corpus cuts documents ahead in processes of its own."""

    def __init__(self, views: StreamedViews) -> None:
        # Seeds of its own, or a loader would draw from the generator that dropout draws from.
        super().__init__(views, batch_size=None, generator=torch.Generator())
