"""Training documents read anew in every epoch, for corpora that should not be copied."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeVar

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from ..errors import DocumentError
from ..runtime.processes import Processes
from ..segmentation.segmenter import Segmenter
from ..settings.corpus import CorpusSettings
from .document import TrainingDocument
from .parallel_segmentation import tokenise_in_order
from .prepare import training_segmenter
from .report import CorpusReport
from .source import CorpusSource, nothing_to_train_on

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Batches that are made ready before the processes agree on the number of steps.
_BATCHES_AHEAD = 8


class StreamingCorpus(IterableDataset[TrainingDocument]):
    """The share of a corpus that one process trains on, cut and tokenised while it is read.

    Every process reads the whole corpus and takes the documents whose number, copies not counted, gives its rank when
    divided by the number of processes. They are drawn from a buffer whose choices depend on seed, epoch and rank, and
    come in the same order whenever these are the same. They are cut in ``preparing_processes`` processes, so that a
    loader needs no workers; given some, it divides the share among them once more.

    Args:
        settings: where documents come from and how they are made ready; ``streaming`` must be set.
        segmenter: tokenizer and sizes of passages; ``max_passages`` is taken from the settings.
        processes: the processes of the job; None for one.
        seed: seed of the order.

    Attributes:
        report: the account of the epoch so far: documents, copies and errors of the whole corpus; what was kept and
            what was too short of this share, as far as it was read.

    Raises:
        ValueError: the settings do not ask for streaming.
    """

    def __init__(
        self, settings: CorpusSettings, segmenter: Segmenter, processes: Processes | None = None, *, seed: int = 0
    ) -> None:
        if not settings.streaming:
            raise ValueError("streaming is not set; set it, or use prepare_corpus")
        self.report = CorpusReport()
        self._settings = settings
        self._segmenter = training_segmenter(segmenter, settings)
        self._told_errors = 0
        self._rank, self._processes = (processes.rank, processes.count) if processes is not None else (0, 1)
        self._seed = seed
        self._epoch = 0
        self._consumed = 0
        self._skip = 0

    @property
    def state(self) -> dict[str, int]:
        """Where this process is: the epoch, and the documents of its share that have been taken, short ones too.

        With the workers of a data loader each worker counts for itself, and this one stays at the start.
        """
        return {"epoch": self._epoch, "documents": self._consumed}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Let the next iteration begin where another one was; what it had taken is read again, but not cut."""
        self._epoch = state["epoch"]
        self._consumed = self._skip = state["documents"]

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration go through the corpus in the order of another epoch, unless this one is under way."""
        if epoch != self._epoch:
            self._epoch, self._consumed, self._skip = epoch, 0, 0

    def __iter__(self) -> Iterator[TrainingDocument]:
        for consumed, document in self._documents():
            self._consumed = consumed
            yield document

    def batches(self, size: int, processes: Processes | None = None) -> Iterator[list[TrainingDocument]]:
        """Documents in batches, as many in every process: all stop when one of them has no full batch left.

        Unlike a loader's, these batches count as taken only when they are handed out, so that :attr:`state` is exact.

        Args:
            size: documents of a batch in each process.
            processes: the processes that agree; all of them have to take part.

        Raises:
            DocumentError: a process has no full batch at all.
        """
        batches = _full_batches(self._documents(), size)
        begins = not self._skip
        while True:
            window = list(islice(batches, _BATCHES_AHEAD))
            agreed = min(processes.gather(len(window))) if processes is not None else len(window)
            if begins and not agreed:
                raise DocumentError(
                    f"{self._settings.name}: a process of {self._processes} has fewer than {size} documents to train "
                    "on; make batches smaller or use fewer processes"
                )
            begins = False
            for batch in window[:agreed]:
                self._consumed = batch[-1][0]
                yield [document for _, document in batch]
            if agreed < _BATCHES_AHEAD:
                return

    def _documents(self) -> Iterator[tuple[int, TrainingDocument]]:
        """Documents to train on, each with the number of documents that have been taken when it has."""
        worker = get_worker_info()
        part, parts = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        share, shares = self._rank * parts + part, self._processes * parts
        skip, self._skip = self._skip, 0
        self._consumed = skip
        self.report = report = CorpusReport()
        draw = np.random.default_rng([self._seed, self._epoch, share])
        own = islice(CorpusSource(self._settings).documents(report), share, None, shares)
        waiting = islice(_shuffled(own, self._settings.shuffle_buffer, draw), skip, None)
        tokenised = tokenise_in_order(waiting, self._segmenter, self._settings.processes)
        for consumed, document in enumerate(tokenised, start=skip + 1):
            self._tell_errors(report, share)
            if len(document.lengths) < self._settings.least_passages:
                report.too_short += 1
                continue
            report.keep(document.coverage)
            yield consumed, document.unpacked()
        self._tell_errors(report, share)
        # Where there are several shares, one of them may be empty.
        if not report.kept and not skip and (shares == 1 or not report.documents):
            raise nothing_to_train_on(self._settings, report)

    def _tell_errors(self, report: CorpusReport, share: int) -> None:
        """Say what could not be read once it is known, by one of those who all read the whole corpus."""
        if share or report.errors <= self._told_errors:
            return
        for error in report.first_errors[self._told_errors :]:
            logger.warning("%s: %s; skipped", error.source, error.reason)
        # The next epoch finds the same ones.
        self._told_errors = report.errors


def _shuffled(items: Iterator[T], buffer: int, draw: np.random.Generator) -> Iterator[T]:
    """Draw each item from a buffer that is filled up from the stream."""
    if buffer == 1:
        yield from items
        return
    waiting = list(islice(items, buffer))
    for item in items:
        place = int(draw.integers(len(waiting)))
        chosen, waiting[place] = waiting[place], item
        yield chosen
    for place in draw.permutation(len(waiting)):
        yield waiting[place]


def _full_batches(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while len(batch := list(islice(items, size))) == size:
        yield batch
