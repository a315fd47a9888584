"""Training documents read anew in every epoch, for corpora that should not be copied."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeVar

import numpy as np
from torch.utils.data import IterableDataset

from ..errors import DocumentError
from ..runtime.processes import Processes
from ..runtime.text import one_line
from ..segmentation.segmenter import Segmenter
from ..settings.run import CorpusSettings
from .corpus import training_segmenter
from .document import CorpusReport, TrainingDocument
from .shards import tokenise_in_order
from .source import CorpusSource, nothing_to_train_on

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Batches that are made ready before the processes agree on the number of steps.
_BATCHES_AHEAD = 8
# Documents among which the next one is drawn.
SHUFFLED = 10_000


class StreamingCorpus(IterableDataset[TrainingDocument]):
    """The share of a corpus that one process trains on, cut and tokenised while it is read.

    Of a data set every process reads its own share: some of its files, if their number is a multiple of that of the
    processes, else every so-many-th row. Of other sources every process reads the whole corpus and takes the documents
    whose number, copies not counted, gives its rank when divided by the number of processes. They are drawn from a
    buffer whose choices depend on seed, epoch and rank, and come in the same order whenever these are the same. They
    are cut in ``preparing_processes`` processes, so a loader needs no workers.

    Args:
        settings: where documents come from and how they are made ready; ``streaming`` must be set.
        segmenter: tokenizer and sizes of passages; ``max_passages`` is taken from the settings.
        processes: the processes of the job; None for one.
        seed: seed of the order.
        shuffled: documents among which the next one is drawn.

    Attributes:
        report: counts of the epoch so far: documents, copies and errors of what this process reads; what was kept and
            what was too short of its share.

    Raises:
        ValueError: the settings do not ask for streaming.
    """

    def __init__(
        self,
        settings: CorpusSettings,
        segmenter: Segmenter,
        processes: Processes | None = None,
        *,
        seed: int = 0,
        shuffled: int = SHUFFLED,
    ) -> None:
        if not settings.streaming:
            raise ValueError("streaming is not set; set it, or use prepare_corpus")
        self.report = CorpusReport()
        self._settings = settings
        self._segmenter = training_segmenter(segmenter, settings)
        self._reported_errors = 0
        self._rank, self._processes = (processes.rank, processes.count) if processes is not None else (0, 1)
        self._seed, self._shuffled = seed, shuffled
        self._epoch = 0
        self._consumed = 0
        self._skip = 0

    @property
    def state(self) -> dict[str, int]:
        """Where this process is: the epoch, and the documents of its share that have been taken, short ones too."""
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
        rank, count = self._rank, self._processes
        skip, self._skip = self._skip, 0
        self._consumed = skip
        self.report = report = CorpusReport(unit=self._segmenter.config.unit)
        draw = np.random.default_rng([self._seed, self._epoch, rank])
        source = CorpusSource(self._settings)
        if source.has_shares:
            own = source.documents(report, rank, count)
        else:
            own = islice(source.documents(report), rank, None, count)
        waiting = islice(_shuffled(own, self._shuffled, draw), skip, None)
        tokenised = tokenise_in_order(waiting, self._segmenter, self._settings.processes)
        reports_errors = source.has_shares or not rank
        for consumed, document in enumerate(tokenised, start=skip + 1):
            if reports_errors:
                self._report_errors(report)
            if len(document.passages) < self._settings.least_passages:
                report.too_short += 1
                continue
            report.keep(document.coverage)
            yield consumed, document.unpacked()
        if reports_errors:
            self._report_errors(report)
        # Where there are several shares, one of them may be empty.
        if not report.kept and not skip and (count == 1 or not report.documents):
            raise nothing_to_train_on(self._settings, report)

    def _report_errors(self, report: CorpusReport) -> None:
        """Log what could not be read, as soon as it is known."""
        if report.errors <= self._reported_errors:
            return
        for error in report.first_errors[self._reported_errors :]:
            logger.warning("%s", one_line(f"{error.source}: {error.reason}; skipped"))
        # The next epoch finds the same ones.
        self._reported_errors = report.errors


def _shuffled(items: Iterator[T], buffer: int, draw: np.random.Generator) -> Iterator[T]:
    """Draw each item from a buffer that is filled up from the stream."""
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
