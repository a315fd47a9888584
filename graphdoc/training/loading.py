"""Loading the documents of batches ahead of the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count, islice
from multiprocessing import connection
from multiprocessing.util import Finalize
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from ..corpus.stream import StreamingCorpus
from ..runtime.processes import Processes
from ..runtime.workers import stay_with_parent
from ..sampling import DocumentBatches, Place
from .batch import TrainingBatch, TrainingExample

Collate = Callable[[Sequence[tuple[TrainingExample, int, int]]], TrainingBatch]

# Seconds in which the system ends a worker whose connection has broken.
ENDING = 10.0


class Loader(Protocol):
    """What gives this process's share of every batch."""

    @property
    def epoch_steps(self) -> int | None:
        """Batches of an epoch; None for a stream, which does not know."""
        ...

    def batches(self, first: int = 0) -> Iterator[Any]:
        """The batches from a step of the run on, epoch after epoch."""
        ...

    def close(self) -> None:
        """End what loads ahead."""
        ...


class Corpus(Protocol):
    """Documents that are ready to train on."""

    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> TrainingExample: ...

    @property
    def passage_counts(self) -> npt.NDArray[np.int64]:
        """Passages of every document."""
        ...


class EpochExamples(Dataset[tuple[TrainingExample, int, int]]):
    """The documents of a corpus by epoch and row."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, place: Place) -> tuple[TrainingExample, int, int]:
        epoch, row = place
        return self._corpus[row], epoch, row


class RunBatches(Sampler[list[Place]]):
    """The batches of a run from a step on, epoch after epoch.

    Args:
        batches: the batches of an epoch.
        first: number of the first batch, counted over the epochs.
        end: number of the batch after the last one; None for no end.
    """

    def __init__(self, batches: DocumentBatches, first: int, end: int | None) -> None:
        self._batches, self._first, self._end = batches, first, end

    def __iter__(self) -> Iterator[list[Place]]:
        """The batches, each with the places of this process's documents."""
        epoch, done = divmod(self._first, len(self._batches))
        onwards = islice(chain.from_iterable(self._batches.of_epoch(number) for number in count(epoch)), done, None)
        return islice(onwards, None if self._end is None else max(0, self._end - self._first))


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
            :meth:`~graphdoc.training.task.TaskData.begin_epoch` has a say in them.
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
        self._options: dict[str, Any] = {
            "collate_fn": collate,
            "num_workers": workers,
            "prefetch_factor": 4 if workers else None,
            # Seeds of its own, or a loader would draw from the generator that dropout draws from.
            "generator": torch.Generator(),
        }
        # What is loaded ahead, and how often that was begun or ended; the workers live as long as this iterator.
        self._ahead: Iterator[TrainingBatch] = iter(())
        self._number = 0
        self._dismiss: Callable[[], object] = int

    @property
    def epoch_steps(self) -> int:
        """Batches of an epoch."""
        return len(self._batches)

    def batches(self, first: int = 0) -> Iterator[TrainingBatch]:
        """The batches from a step of the run on; what an iteration before has loaded ahead is dropped."""
        step = first
        while self._steps is None or step < self._steps:
            if step == first or (step % self.epoch_steps == 0 and not self._across_epochs):
                number = self._begin(step)
            elif number != self._number:
                return
            # The iterator is not held here, so that closing the loader ends its workers even while this is under way.
            batch = self._next()
            if batch is None:
                return
            yield batch
            step += 1

    def _begin(self, step: int) -> int:
        """Start to load at a step, and number the start."""
        self.close()
        end = self._steps
        if not self._across_epochs:
            epoch_end = (step // self.epoch_steps + 1) * self.epoch_steps
            end = epoch_end if end is None else min(end, epoch_end)
        loader = DataLoader(
            EpochExamples(self._corpus),
            batch_sampler=RunBatches(self._batches, step, end),
            worker_init_fn=_begin_worker,
            **self._options,
        )
        self._ahead = iter(loader)
        if self._options["num_workers"]:
            # Where nobody closes it before the program ends; the workers do not end when they are asked to.
            self._dismiss = Finalize(self, self._ahead._shutdown_workers, exitpriority=10)  # type: ignore[attr-defined]
        return self._number

    def _next(self) -> TrainingBatch | None:
        """The next batch; None after the last one.

        Raises:
            RuntimeError: a worker was ended, as torch says it.
        """
        try:
            return next(self._ahead, None)
        except (ConnectionError, EOFError, FileNotFoundError) as error:
            # Tensors are fetched from the worker that made them. If it is killed meanwhile, torch passes on the broken
            # connection where the system has not ended the worker yet.
            workers = [worker.sentinel for worker in getattr(self._ahead, "_workers", ())]
            if workers and connection.wait(workers, ENDING):
                raise RuntimeError("DataLoader worker was ended while a batch was fetched from it") from error
            raise

    def close(self) -> None:
        """End the workers and drop what they have loaded."""
        self._dismiss()
        self._dismiss = int
        # The traceback of an error holds the iterator, and its collection would no longer reach the workers.
        getattr(self._ahead, "_shutdown_workers", int)()
        self._ahead = iter(())
        self._number += 1


def _begin_worker(_: int) -> None:
    torch.set_num_threads(1)
    stay_with_parent()


class StreamLoader:
    """Batches of a streamed corpus, epoch after epoch; the corpus cuts documents ahead in processes of its own.

    Args:
        corpus: this process's share of the corpus; it starts where its state says.
        batch_size: documents of a batch in each process.
        collate: makes a batch of documents.
        processes: the processes of the run, which agree on the number of batches of an epoch.
    """

    epoch_steps = None

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
