"""Where the batches of pretraining come from: a corpus that is stored, or one that is streamed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..corpus.passage_vectors import PassageVectors
from ..corpus.report import CorpusReport
from ..corpus.stream import StreamingCorpus
from ..errors import DocumentError, ModelError, SettingsError
from ..graphs.kinds import GraphKind
from ..runtime.text import counted
from ..sampling import DocumentSplit, EpochBatches
from ..sampling.draws import Rows, random_generator
from ..settings.sub_documents import PretrainingSettings
from ..training.batch import TrainingBatch, TrainingExample
from ..training.loading import StreamLoader
from ..training.task import TaskData
from .base import Start
from .corpus_data import CorpusData
from .parts_batch import vectors_at
from .sub_document_batch import sub_document_batch

logger = logging.getLogger(__name__)

# The draw of documents that are held out belongs to no epoch of training.
HELD_OUT_EPOCH = -1


@dataclass(frozen=True)
class SubDocumentCollator:
    """Makes batches of sub-documents, in the processes that load ahead.

    Args:
        split: how documents are split.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
    """

    split: DocumentSplit
    graph: GraphKind | None
    passage_vectors: PassageVectors | None = None

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of documents of one epoch."""
        return sub_document_batch(
            [example for example, _, _ in places],
            self.split,
            places[0][1],
            graph=self.graph,
            passage_vectors=vectors_at(self.passage_vectors, [row for _, _, row in places]),
        )


class StoredData(CorpusData):
    """Batches of a corpus that was cut and tokenised once.

    Args:
        start: what the recipe begins with.
        split: how documents are split.

    Attributes:
        held_out: batches of the documents that are held out.

    Raises:
        DocumentError: there are too few documents.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, start: Start[PretrainingSettings], split: DocumentSplit) -> None:
        super().__init__(start)
        training, processes = self._training, self._processes
        collator = SubDocumentCollator(split, self._config.vector_graph, self._vectors)
        rows, held_out = self._hold_out(start.settings)
        self.documents, self._held_out_documents = len(rows), len(held_out)

        def batches_of() -> EpochBatches:
            return EpochBatches(
                self._corpus.passage_counts,
                training.batch_size,
                training.seed,
                processes.rank,
                processes.count,
                rows=rows,
            )

        self._load(batches_of, collator)
        if self.documents < training.batch_size and processes.is_first:
            logger.warning(
                "there are %d documents, fewer than batch_size=%d: every batch holds all of them, and the run has %s; "
                "more of them take more epochs",
                self.documents,
                training.batch_size,
                counted(self.steps, "step"),
            )
        self.held_out = [
            collator([(self._corpus[row], HELD_OUT_EPOCH, row) for row in part.tolist()])
            for part in held_out_parts(held_out, training.batch_size)
        ]

    def describe(self) -> list[str]:
        """What there is to train on, in a line or two."""
        return [
            self.report.summary(),
            f"{self.documents:,} documents to train on, {self._held_out_documents:,} held out",
        ]

    def record(self) -> dict[str, Any]:
        """What a run writes down about its corpus."""
        return {**self._corpus.record(), "held_out": self._held_out_documents}

    def _hold_out(self, settings: PretrainingSettings) -> tuple[Rows, Rows]:
        """Rows that are trained on, and rows that are held out."""
        count = len(self._corpus)
        order = random_generator(settings.training.seed, "held out").permutation(count)
        share = settings.evaluation.held_out
        held_out = max(2, round(count * share)) if share else 0
        if count - held_out < 2:
            raise DocumentError(
                f"{settings.corpus.name} has {counted(count, 'document')} of two passages or more"
                + (f", of which {held_out} are held out" if held_out else "")
                + f"; there have to be 2 to train on ({self.report.summary()})"
            )
        return np.sort(order[held_out:]), np.sort(order[:held_out])


def held_out_parts(rows: Rows, batch_size: int) -> list[Rows]:
    """Deal documents that are held out to batches of nearly one size, since the loss grows with it; none of one."""
    if not len(rows):
        return []
    return np.array_split(rows, min(max(1, round(len(rows) / batch_size)), len(rows) // 2))


class StreamedData(TaskData):
    """Batches of a corpus that is read and cut anew in every epoch, without being copied.

    Args:
        start: what the recipe begins with.
        split: how documents are split.

    Raises:
        SettingsError: something is asked for that a stream cannot give.
    """

    def __init__(self, start: Start[PretrainingSettings], split: DocumentSplit) -> None:
        settings, processes = start.settings, start.processes
        training = settings.training
        assert training.max_steps is not None, "settings of a stream have them"
        if training.batch_size % processes.count:
            raise SettingsError(
                f"training.batch_size={training.batch_size} is no multiple of the {processes.count} processes, as "
                "corpus.streaming needs; change one of them"
            )
        self._processes = processes
        self._corpus = StreamingCorpus(settings.corpus, start.encoder.segmenter, processes, seed=training.seed)
        self._name = settings.corpus.name
        self.batch_size, self.steps = training.batch_size, training.max_steps
        self.documents = training.batch_size * training.max_steps
        self.held_out: list[TrainingBatch] = []
        collator = SubDocumentCollator(split, start.encoder.model.config.vector_graph)
        self.loader = StreamLoader(self._corpus, training.batch_size // processes.count, collator, processes)

    @property
    def report(self) -> CorpusReport:
        """What was read, kept and left out of the epoch so far."""
        return self._corpus.report

    def describe(self) -> list[str]:
        """What there is to train on."""
        return [f"streaming {self._name}, in a share for each process"]

    def record(self) -> dict[str, Any]:
        """What a run writes down about its corpus."""
        return {"streamed": self._name}

    def state(self) -> dict[str, Any]:
        """The place in the stream, the same in every process."""
        return {**self._corpus.state, "processes": self._processes.count}

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Go on from a place in the stream.

        Raises:
            ModelError: it was reached by another number of processes, whose shares were others.
        """
        if state["processes"] != self._processes.count:
            raise ModelError(
                f"the run was streamed by {state['processes']} processes, whose shares of the corpus are not those of "
                f"{self._processes.count}; resume it with {state['processes']}, or start anew"
            )
        self._corpus.load_state(state)


PretrainingData = StoredData | StreamedData


def open_data(start: Start[PretrainingSettings], split: DocumentSplit) -> PretrainingData:
    """Open the corpus of a run, stored or streamed as the settings say.

    Args:
        start: what the recipe begins with.
        split: how documents are split.
    """
    return StreamedData(start, split) if start.settings.corpus.streaming else StoredData(start, split)
