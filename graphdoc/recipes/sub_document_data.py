"""Where the batches of pretraining come from: a corpus that is stored, or one that is streamed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..corpus.passage_vectors import PassageVectors
from ..corpus.report import CorpusReport
from ..corpus.stored import open_corpus
from ..corpus.stream import StreamingCorpus
from ..encoder import DocumentEncoder
from ..errors import DocumentError, ModelError, SettingsError
from ..graphs.kinds.kind import GraphKind
from ..runtime.processes import Processes
from ..runtime.wording import counted
from ..sampling import EpochBatches, SubDocuments
from ..sampling.sub_documents import random_generator
from ..settings.sub_documents import PretrainingSettings
from ..training.batch import TrainingBatch, TrainingExample
from ..training.loading import EpochLoader, StreamLoader
from ..training.task import TaskData
from .sub_document_batch import sub_document_batch

logger = logging.getLogger(__name__)

# The draw of documents that are held out belongs to no epoch of training.
HELD_OUT_EPOCH = -1


@dataclass(frozen=True)
class SubDocumentCollator:
    """Makes batches of sub-documents, in the processes that load ahead.

    Args:
        sub_documents: how documents are split.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
    """

    sub_documents: SubDocuments
    graph: GraphKind | None
    passage_vectors: PassageVectors | None = None

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of documents of one epoch."""
        vectors = None
        if self.passage_vectors is not None:
            vectors = [self.passage_vectors.vectors_of(row) for _, _, row in places]
        return sub_document_batch(
            [example for example, _, _ in places],
            self.sub_documents,
            places[0][1],
            graph=self.graph,
            passage_vectors=vectors,
        )


def _collator(
    settings: PretrainingSettings, encoder: DocumentEncoder, vectors: PassageVectors | None
) -> SubDocumentCollator:
    sub_documents = SubDocuments(settings.split, settings.training.seed)
    return SubDocumentCollator(sub_documents, encoder.model.config.vector_graph, vectors)


class StoredData(TaskData):
    """Batches of a corpus that was cut and tokenised once.

    Args:
        settings: the settings of the run.
        encoder: the model and its tokenizer.
        processes: the processes of the run.
        show_progress: show bars; None shows them on a terminal.

    Attributes:
        documents: documents to train on.
        batch_size: documents of a batch, over all processes.
        held_out: batches of the documents that are held out.
        loader: gives this process's share of every batch.

    Raises:
        DocumentError: there are too few documents.
        SettingsError: batches are too small for the processes.
    """

    def __init__(
        self,
        settings: PretrainingSettings,
        encoder: DocumentEncoder,
        processes: Processes,
        show_progress: bool | None = None,
    ) -> None:
        training = settings.training
        self.corpus, vectors = open_corpus(settings, encoder, processes, show_progress)
        collator = _collator(settings, encoder, vectors)
        rows, held_out = self._hold_out(settings)
        self.documents = len(rows)
        try:
            batches = EpochBatches(
                self.corpus.passage_counts,
                training.batch_size,
                training.seed,
                processes.rank,
                processes.count,
                rows=rows,
            )
        except ValueError as error:
            raise SettingsError(f"{error}; use fewer processes or a larger batch_size") from error
        self.batch_size = batches.batch_size
        self.steps = training.max_steps or int(np.ceil(training.epochs * len(batches)))
        if self.documents < training.batch_size and processes.is_first:
            logger.warning(
                "there are %d documents, fewer than batch_size=%d: every batch holds all of them, and the run has %s; "
                "more of them take more epochs",
                self.documents,
                training.batch_size,
                counted(self.steps, "step"),
            )
        self.loader = EpochLoader(self.corpus, batches, collator, training.loading_processes, steps=self.steps)
        self.held_out = self._held_out_batches(held_out, collator, training.batch_size)
        self._held_out_documents = len(held_out)

    @property
    def report(self) -> CorpusReport:
        """What was read, kept and left out."""
        return self.corpus.report

    def describe(self) -> str:
        """What there is to train on, in a line or two."""
        return (
            f"{self.report.summary()}\n{self.documents:,} documents to train on, {self._held_out_documents:,} held out"
        )

    def record(self) -> dict[str, Any]:
        """What a run writes down about its corpus."""
        return {**self.corpus.record(), "held_out": self._held_out_documents}

    def _hold_out(self, settings: PretrainingSettings) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows that are trained on, and rows that are held out."""
        count = len(self.corpus)
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

    def _held_out_batches(
        self, rows: npt.NDArray[np.int64], collator: SubDocumentCollator, batch_size: int
    ) -> list[TrainingBatch]:
        if not len(rows):
            return []
        # All are measured, in batches of nearly one size, since the loss grows with the size; and in none of one.
        number = min(max(1, round(len(rows) / batch_size)), len(rows) // 2)
        return [
            collator([(self.corpus[row], HELD_OUT_EPOCH, int(row)) for row in part])
            for part in np.array_split(rows, number)
        ]


class StreamedData(TaskData):
    """Batches of a corpus that is read and cut anew in every epoch, without being copied.

    Args:
        settings: the settings of the run.
        encoder: the model and its tokenizer.
        processes: the processes of the run.

    Raises:
        SettingsError: something is asked for that a stream cannot give.
    """

    def __init__(self, settings: PretrainingSettings, encoder: DocumentEncoder, processes: Processes) -> None:
        training = settings.training
        assert training.max_steps is not None, "settings of a stream have them"
        if training.batch_size % processes.count:
            raise SettingsError(
                f"training.batch_size={training.batch_size} is no multiple of the {processes.count} processes, as "
                "corpus.streaming needs; change one of them"
            )
        self._processes = processes
        self._corpus = StreamingCorpus(settings.corpus, encoder.segmenter, processes, seed=training.seed)
        self._name = settings.corpus.name
        self.batch_size, self.steps = training.batch_size, training.max_steps
        self.documents = training.batch_size * training.max_steps
        self.held_out: list[TrainingBatch] = []
        self.loader = StreamLoader(
            self._corpus, training.batch_size // processes.count, _collator(settings, encoder, None), processes
        )

    @property
    def report(self) -> CorpusReport:
        """What was read, kept and left out of the epoch so far."""
        return self._corpus.report

    def describe(self) -> str:
        """What there is to train on."""
        return f"streaming {self._name}, in a share for each process"

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


def open_data(
    settings: PretrainingSettings, encoder: DocumentEncoder, processes: Processes, show_progress: bool | None = None
) -> PretrainingData:
    """Open the corpus of a run, stored or streamed as the settings say."""
    if settings.corpus.streaming:
        return StreamedData(settings, encoder, processes)
    return StoredData(settings, encoder, processes, show_progress)
