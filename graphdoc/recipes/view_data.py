"""Where the batches of views come from: pairs of documents, whose views are drawn once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..corpus.prepare import training_segmenter
from ..corpus.view_pool import prepare_view_pool
from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from ..errors import DocumentError, EvaluationError
from ..evaluation.trec import ranked, read_qrels, read_run
from ..matching.matcher import ViewDrawer, view_reader
from ..matching.sentence_source import SentenceFeatures
from ..matching.special_tokens import SpecialTokens
from ..sampling import EpochBatches, RowLists
from ..segmentation.segmenter import Segmenter
from ..settings.view_training import PairSourceSettings, ViewRunSettings
from .base import Start
from .corpus_data import CorpusData
from .corpus_pairs import CorpusPairs
from .view_batch import ContrastCollator, FirstDocuments, ViewCollator, ViewSource

Rows = npt.NDArray[np.int64]


class ViewData(CorpusData):
    """Batches of the views of pairs.

    Args:
        start: what the recipe begins with; its model has its head and its settings of views.

    Attributes:
        found: the pairs that are trained on.

    Raises:
        DocumentError: pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        ModelError: views are longer than the model reads.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, start: Start[ViewRunSettings]) -> None:
        settings, encoder = start.settings, start.encoder
        self._special = SpecialTokens.of(encoder.tokenizer)
        # Before the corpus is made ready, which takes longer than finding a mistake here.
        self.reader = view_reader(settings.views, encoder, self._special, settings.model.start)
        given = pairs_of(settings.pairs)
        super().__init__(start)
        self.found = CorpusPairs.of(self._corpus, given, settings.pairs.unknown, setting="pairs.unknown=leave_out")
        rows = self.found.rows
        language = encoder.model.config.language
        model = encoder.model.subtopic_folder
        drawer = ViewDrawer(settings.views, language, self.reader.room(settings.views.view_tokens), model)
        segmenter = training_segmenter(encoder.segmenter, settings.corpus)
        self._segmenter = Segmenter(segmenter.tokenizer, replace(segmenter.config, unit="sentence", context="none"))
        pool = prepare_view_pool(
            self._corpus,
            rows,
            drawer,
            self._special,
            settings.views_drawn,
            self._texts_of,
            SentenceFeatures(drawer.finder, model, encoder.device),
            start.processes,
            order=settings.pool_order,
            workers=settings.corpus.processes,
            show_progress=start.show_progress,
        )
        counts = self._corpus.passage_counts[np.unique(rows)]
        field = settings.views.receptive_field
        self._beyond = 0 if field is None else int(np.maximum(counts - field, 0).sum())
        self._views = settings.views_drawn
        self.documents = len(self.found.ids)
        source = ViewSource(self._corpus, rows, pool, self._special, settings)
        groups = self._corpus.groups[rows]
        collate, chosen = COLLATORS[settings.loss.kind](self, source, groups)
        examples = FirstDocuments(self._corpus, rows)
        training, processes = settings.training, start.processes

        def batches_of() -> EpochBatches:
            return EpochBatches(
                examples.passage_counts,
                training.batch_size,
                training.seed,
                processes.rank,
                processes.count,
                rows=chosen,
            )

        self._load(batches_of, collate, examples)

    def _texts_of(self, rows: Rows) -> Iterator[tuple[int, Sequence[str]]]:
        """The sentences of some documents, cut as the corpus was."""
        row_of = {self._corpus[row].id: row for row in rows.tolist()}
        for one in self._segmenter.segment_many(self.documents_of(rows)):
            row = row_of[one.document.id]
            if len(one.passages) != self._corpus.passage_counts[row]:
                raise DocumentError(
                    f"{self._source.name}: document {one.document.id!r} has changed since the corpus was made ready; "
                    "start the run again"
                )
            yield row, one.texts

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {
            **self._corpus.record(),
            **self.found.record(),
            "views_of_a_pair": self._views,
            "sentences_beyond_field": self._beyond,
        }

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        lines = [self.report.summary(), self.found.describe()]
        if self._beyond:
            lines.append(f"{self._beyond:,} of their sentences lie beyond views.receptive_field")
        return lines


def pairs_of(settings: PairSourceSettings) -> Pairs:
    """The pairs that a run is trained on, of a file or of judgements and the hits of a first stage.

    Raises:
        DocumentError: the file cannot be read, or its lines contradict each other.
        EvaluationError: judgements or hits cannot be read, or nothing is judged relevant.
    """
    if settings.file is not None:
        return read_pair_file(settings.file)
    assert settings.qrels is not None and settings.run is not None
    judged, run = read_qrels(settings.qrels), read_run(settings.run)
    pairs = []
    for query, grades in judged.items():
        relevant = [document for document, grade in grades.items() if grade >= settings.least_grade]
        hits = ranked(run.get(query, {}))[: settings.depth]
        pairs += [LabelledPair(query, document, 1) for document in relevant]
        if relevant:
            pairs += [LabelledPair(query, hit, 0) for hit in hits if hit not in grades and hit != query]
    if not any(pair.label for pair in pairs):
        raise EvaluationError(
            f"{settings.qrels}: no document is judged {settings.least_grade} or more; lower pairs.least_grade, or "
            "give other judgements"
        )
    return Pairs(tuple(pairs), settings.qrels)


def _labelled(data: ViewData, source: ViewSource, groups: Rows) -> tuple[ViewCollator, Rows | None]:
    return ViewCollator(source, data.reader, data.found.labels, groups), None


def _contrasted(data: ViewData, source: ViewSource, groups: Rows) -> tuple[ViewCollator, Rows | None]:
    labels, firsts = data.found.labels, data.found.rows[:, 0]
    matching, others = (_by_first(firsts, np.flatnonzero(labels == label)) for label in (1, 0))
    nothing = np.empty(0, np.int64)
    collate = ContrastCollator(
        source,
        data.reader,
        labels,
        groups,
        negatives=RowLists.of(others.get(first, nothing) for first in firsts.tolist()),
        answers=RowLists.of(groups[matching.get(first, nothing), 1] for first in firsts.tolist()),
    )
    return collate, np.flatnonzero(labels == 1)


def _by_first(firsts: Rows, numbers: Rows) -> dict[int, Rows]:
    """Numbers of pairs by the row of their first document."""
    found: dict[int, list[int]] = {}
    for number in numbers.tolist():
        found.setdefault(int(firsts[number]), []).append(number)
    return {first: np.array(own, np.int64) for first, own in found.items()}


# By the kind of loss: what makes batches, and the pairs that they are made of (None for all).
COLLATORS: dict[str, Callable[[ViewData, ViewSource, Rows], tuple[ViewCollator, Rows | None]]] = {
    "cross_entropy": _labelled,
    "cosine": _labelled,
    "contrast": _contrasted,
}
