"""Where training batches come from: loading them ahead of the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, islice
from multiprocessing import connection
from multiprocessing.util import Finalize
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from ..corpus.document import TrainingDocument
from ..corpus.source import StreamingCorpus
from ..runtime.processes import Processes
from ..runtime.workers import stay_with_parent
from ..sampling.batches import DocumentBatches, EpochRow
from .objectives import TrainingBatch


class Corpus(Protocol):
    """Documents that are ready to train on, and how many passages each has."""

    passage_counts: npt.NDArray[np.int64]

    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> TrainingDocument: ...


Collate = Callable[[Sequence[tuple[TrainingDocument, int, int]]], TrainingBatch]

# Seconds in which the system ends a worker whose connection has broken.
WORKER_EXIT_SECONDS = 10.0


class EpochExamples(Dataset[tuple[TrainingDocument, int, int]]):
    """The documents of a corpus by epoch and row."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, index: EpochRow) -> tuple[TrainingDocument, int, int]:
        epoch, row = index
        return self._corpus[row], epoch, row


class EpochLoader:
    """Loads batches ahead in worker processes.

    The workers go on into the next epoch while one is trained on, so that its first steps need not wait; no more than
    four batches of each worker are under way.

    Args:
        corpus: the documents.
        batches: which documents make up which batch.
        collate: makes a batch of documents.
        workers: processes that load; with 0 batches are made when they are asked for.
        steps: batches of the whole run, after which there are none; None for a run without end.
        across_epochs: whether an epoch's batches may be made before it begins; not where
            :meth:`~graphdoc.training.recipe.Recipe.begin_epoch` has a say in them.
    """

    def __init__(
        self,
        corpus: Corpus,
        batches: DocumentBatches,
        collate: Collate,
        workers: int = 0,
        *,
        steps: int | None = None,
        across_epochs: bool = True,
    ) -> None:
        self._corpus, self._batches, self._steps, self._across_epochs = corpus, batches, steps, across_epochs
        self.epoch_steps: int | None = len(batches)
        self._options: dict[str, Any] = {
            "collate_fn": collate,
            "num_workers": workers,
            "prefetch_factor": 4 if workers else None,
            # Seeds of its own, or a loader would draw from the generator that dropout draws from.
            "generator": torch.Generator(),
        }
        self._ahead: Iterator[TrainingBatch] = iter(())
        self._end_workers: Callable[[], object] = int

    def batches(self, first: int = 0) -> Iterator[TrainingBatch]:
        """The batches from a step of the run on; what an iteration before has loaded ahead is dropped."""
        step, length = first, len(self._batches)
        while self._steps is None or step < self._steps:
            end = self._steps
            if not self._across_epochs:
                epoch_end = (step // length + 1) * length
                end = epoch_end if end is None else min(end, epoch_end)
            ahead = self._load(step, end)
            while (batch := self._next(ahead)) is not None:
                yield batch
                step += 1
            if self._ahead is not ahead:
                return

    def _load(self, first: int, end: int | None) -> Iterator[TrainingBatch]:
        self.close()
        epoch, done = divmod(first, len(self._batches))
        onwards = chain.from_iterable(self._batches.of_epoch(number) for number in count(epoch))
        batches = islice(onwards, done, None if end is None else done + end - first)
        examples = EpochExamples(self._corpus)
        self._ahead = iter(DataLoader(examples, batch_sampler=batches, worker_init_fn=_begin_worker, **self._options))
        if self._options["num_workers"]:
            # Also where nobody closes it before the program ends: the workers do not end when they are asked to.
            self._end_workers = Finalize(self, self._ahead._shutdown_workers, exitpriority=10)  # type: ignore[attr-defined]
        return self._ahead

    def _next(self, ahead: Iterator[TrainingBatch]) -> TrainingBatch | None:
        """The next batch; None after the last one, or where the loader was closed."""
        if self._ahead is not ahead:
            return None
        try:
            return next(ahead, None)
        except (ConnectionError, EOFError, FileNotFoundError) as error:
            # Tensors are fetched from the worker that made them. If it is killed, torch passes on the broken
            # connection where the system has not ended the worker yet.
            workers = [worker.sentinel for worker in getattr(ahead, "_workers", ())]
            if workers and connection.wait(workers, WORKER_EXIT_SECONDS):
                raise RuntimeError("DataLoader worker was ended while a batch was fetched from it") from error
            raise

    def close(self) -> None:
        """End the workers and drop what they have loaded."""
        self._end_workers()
        self._end_workers = int
        self._ahead = iter(())


def _begin_worker(_: int) -> None:
    torch.set_num_threads(1)
    stay_with_parent()


class StreamLoader:
    """Batches of a streamed corpus, of ``batch_size`` documents in each process, from the place in its state on.

    The corpus cuts documents ahead in its own processes; those of the run agree on the batches of an epoch.
    """

    epoch_steps: int | None = None

    def __init__(self, corpus: StreamingCorpus, batch_size: int, collate: Collate, processes: Processes) -> None:
        self._corpus, self._batch_size, self._collate, self._processes = corpus, batch_size, collate, processes
        self._under_way: Iterator[Any] = iter(())

    def batches(self, first: int = 0) -> Iterator[TrainingBatch]:
        """Batches from the corpus's current place on."""
        while True:
            epoch = self._corpus.state["epoch"]
            self._under_way = self._corpus.batches(self._batch_size, self._processes)
            for documents in self._under_way:
                yield self._collate([(document, epoch, -1) for document in documents])
            self._corpus.set_epoch(epoch + 1)

    def close(self) -> None:
        """End the processes that cut documents."""
        getattr(self._under_way, "close", int)()
