"""Training a model to match pairs of long documents, view by view (SST, section 3.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from ..checkpoints.folders import checkpoint_folder
from ..corpus.corpus import TrainingCorpus, training_segmenter
from ..corpus.view_pool import ViewPool, prepare_view_pool
from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from ..encoder import DocumentEncoder
from ..errors import DocumentError, EvaluationError, SettingsError
from ..evaluation.trec import ranked, read_qrels, read_run
from ..graphs.batch import GraphBatch
from ..losses import ClassificationLoss, InfoNCE, Loss, PairCosine
from ..matching.matcher import ViewDrawer, view_reader
from ..matching.reader import DualReader, FieldTokens, SentenceFeatures, SpecialTokens, ViewReader, ViewTokens
from ..registry import SUBTOPICS, VIEW_READERS, load
from ..sampling import EpochBatches, RowLists
from ..sampling.batches import Rows, random_generator
from ..segmentation.segmenter import Segmenter
from ..settings.document import DEFAULT_SUBTOPIC_MODEL
from ..settings.finetuning import MatchedPairSettings, ViewRunSettings
from ..training.data import Role, TrainingBatch, TrainingExample
from ..training.objectives import Classification, Objective, PairSimilarity, QueryContrast
from ..training.run import Recipe, RunContext, begin_training
from .base import CorpusData, Examples, RunOptions, train
from .pairs import CorpusPairs, PairValidation


def train_views(settings: ViewRunSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model to match pairs of documents view by view (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(run: RunContext[ViewRunSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = run.settings
    begin_views(run.encoder, settings)
    validation = PairValidation(run) if settings.validation.pairs else None
    data = ViewData(run)
    measured = "no pairs to measure (validation.pairs): the last model is the result"
    if validation is not None and run.processes.is_first:
        measured = validation.describe(data.found.ids)
    how = _views_and_loss(settings)
    return Recipe(
        data,
        objective_of(settings, run.loss),
        validation.evaluation() if validation else None,
        f"Matching of pairs of documents view by view (SST): {how}",
        [measured, f"{data.steps:,} steps of {data.batch_size:,} pairs; {how}"],
    )


def begin_views(encoder: DocumentEncoder, settings: ViewRunSettings) -> None:
    """Give a model the settings of its views, and a head where views are read together.

    Args:
        encoder: the encoder around the model.
        settings: the settings of the run.

    Raises:
        ModelError: there is no model of that name to find subtopics by.
        SettingsError: the model has graph layers, through which views would not go.
    """
    model = encoder.model
    if model.config.graph_layers:
        raise SettingsError(
            f"model.settings.graph_layers={model.config.graph_layers}: a view is one passage, which has no graph; set "
            "model.settings.graph_layers=0"
        )
    reader = load(VIEW_READERS[settings.views.encoder])
    if not reader.labels:
        # A head for classes would read other vectors than those it was trained on.
        model.remove_head()
    elif model.config.labels != list(reader.labels):
        model.add_head(reader.labels)
    model.config.views = settings.views.as_values()
    finder = load(SUBTOPICS[settings.views.subtopics])
    named = settings.views.subtopic_model or (DEFAULT_SUBTOPIC_MODEL if finder.reads_vectors else None)
    model.subtopic_folder = None if named is None else checkpoint_folder(named)
    begin_training(encoder, settings.model)


def objective_of(settings: ViewRunSettings, given: Loss | None = None) -> Objective:
    """What the model is trained for, by the loss of the settings or by one in hand."""
    loss = settings.loss
    if loss.kind == "cross_entropy":
        return Classification(given or ClassificationLoss())
    if loss.kind == "cosine":
        return PairSimilarity(given or PairCosine(loss.margin))
    return QueryContrast(given or InfoNCE("cosine", loss.temperature), once=False)


def _views_and_loss(settings: ViewRunSettings) -> str:
    """How pairs are read and learned, in a few words."""
    views, loss = settings.views, settings.loss
    drawn = f"{views.sampling} views of {views.view_tokens} tokens by {views.subtopics}"
    if views.together:
        drawn += f", {views.views} at once"
    which = "another one in every epoch" if settings.training_views == "every_epoch" else "always the same"
    if settings.pool_order == "likelihood":
        which += f", of the {settings.ordered_views} most likely of {settings.views_drawn} in order"
    return f"{drawn}, {which}; {views.encoder} encoder, {loss.kind} loss"


@dataclass(frozen=True)
class ViewSource:
    """Gives the tokens of the views of pairs.

    Args:
        corpus: the documents, cut into sentences.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        pool: their views.
        special: special tokens of the tokenizer.
        settings: which views an epoch reads.
    """

    corpus: TrainingCorpus
    rows: Rows
    pool: ViewPool
    special: SpecialTokens
    settings: ViewRunSettings

    def views(self, pairs: Sequence[int], epoch: int) -> list[ViewTokens]:
        """The views that an epoch reads of some pairs, pair after pair, without special tokens."""
        kept, found = self.settings.views.receptive_field, []
        for pair in pairs:
            documents = [self.corpus[row] for row in self.rows[pair].tolist()]
            first, second = (FieldTokens.of(one.id, one.token_ids, kept, self.special) for one in documents)
            for number in self._numbers(pair, epoch):
                view = self.pool.view(pair, number)
                found.append((first.tokens_of(view.first), second.tokens_of(view.second)))
        return found

    def _numbers(self, pair: int, epoch: int) -> Sequence[int]:
        """The views that an epoch reads of a pair; of views in order one of the epoch's range."""
        numbers = self.settings.view_numbers(epoch)
        if self.settings.pool_order == "drawn":
            return numbers
        draw = random_generator(self.settings.training.seed, "view of a range", epoch, pair)
        return [numbers[int(draw.integers(len(numbers)))]]


@dataclass(frozen=True)
class ViewCollator:
    """Makes batches of pairs with labels, in the processes that load ahead.

    Args:
        source: gives views.
        reader: how they are read.
        labels: ``(pairs,)``, 1 for pairs that match, else 0.
        groups: ``(pairs, 2)``, equal numbers for copies of one text.
    """

    source: ViewSource
    reader: ViewReader
    labels: Rows
    groups: Rows

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of pairs of one epoch."""
        numbers, epoch = [number for _, _, number in places], places[0][1]
        graphs = self.reader.graphs(self.source.views(numbers, epoch), self.source.settings.views_at_once)
        labels = torch.from_numpy(self.labels[numbers])
        return _batch(
            self.source, numbers, graphs, {"class": labels, "label": labels}, self.reader.roles(len(numbers))
        )


@dataclass(frozen=True)
class ContrastCollator(ViewCollator):
    """Makes batches of pairs that match, and beside each some that do not, of the same first document.

    Args:
        negatives: for every pair numbers of the pairs of its first document that do not match.
        answers: for every pair groups of all documents that match its first one.
    """

    negatives: RowLists = field(kw_only=True)
    answers: RowLists = field(kw_only=True)

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of pairs of one epoch."""
        assert isinstance(self.reader, DualReader)
        numbers, epoch = [number for _, _, number in places], places[0][1]
        others = [other for number in numbers for other in self._drawn(number, epoch)]
        matching, apart = self.source.views(numbers, epoch), self.source.views(others, epoch)
        texts = [first for first, _ in matching] + [second for _, second in [*matching, *apart]]
        pairs = len(numbers)
        targets = {
            "positive": torch.arange(pairs),
            "answers": torch.from_numpy(self._filled_answers(numbers)),
            "group": torch.from_numpy(self.groups[[*numbers, *others], 1]),
        }
        roles = {"query": slice(pairs), "candidate": slice(pairs, 2 * pairs + len(others))}
        graphs = self.reader.alone(texts, self.source.settings.views_at_once)
        return _batch(self.source, numbers, graphs, targets, roles)

    def _drawn(self, number: int, epoch: int) -> list[int]:
        """Pairs that do not match, drawn anew in every epoch."""
        settings, own = self.source.settings, self.negatives[number]
        draw = random_generator(settings.training.seed, "negative pairs", epoch, number)
        return [int(other) for other in draw.permutation(own)[: settings.loss.negatives]]

    def _filled_answers(self, numbers: Sequence[int]) -> Rows:
        """Groups of what matches, filled up with -1, ``(pairs, most)``."""
        answers = [self.answers[number] for number in numbers]
        filled = np.full((len(answers), max(map(len, answers))), -1, np.int64)
        for row, groups in enumerate(answers):
            filled[row, : len(groups)] = groups
        return filled


def _batch(
    source: ViewSource,
    numbers: Sequence[int],
    graphs: GraphBatch,
    targets: Mapping[str, Tensor],
    roles: Mapping[str, Role],
) -> TrainingBatch:
    ids = tuple(" ".join(source.corpus[row].id for row in source.rows[number].tolist()) for number in numbers)
    return TrainingBatch(graphs=graphs, ids=ids, targets=targets, roles=roles)


class ViewData(CorpusData):
    """Batches of the views of pairs.

    Args:
        run: settings, model and processes; its model has its head and its settings of views.

    Attributes:
        found: the pairs that are trained on.

    Raises:
        DocumentError: pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        ModelError: views are longer than the model reads.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, run: RunContext[ViewRunSettings]) -> None:
        settings, encoder = run.settings, run.encoder
        special = SpecialTokens.of(encoder.tokenizer)
        # Before the corpus is made ready, which takes longer than finding a mistake here.
        self.reader = view_reader(settings.views, encoder, special, settings.model.start)
        given = pairs_of(settings.pairs)
        super().__init__(run)
        self.found = CorpusPairs.of(self._corpus, given, settings.pairs.on_unknown, setting="pairs.unknown=leave_out")
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
            special,
            settings.views_drawn,
            self._texts_of,
            SentenceFeatures(drawer.finder, model, encoder.device),
            run.processes,
            order=settings.pool_order,
            workers=settings.corpus.processes,
            show_progress=run.show_progress,
        )
        counts = self._corpus.passage_counts[np.unique(rows)]
        field = settings.views.receptive_field
        self._beyond = 0 if field is None else int(np.maximum(counts - field, 0).sum())
        self._views = settings.views_drawn
        self.documents = len(self.found.ids)
        source, groups = ViewSource(self._corpus, rows, pool, special, settings), self._corpus.groups[rows]
        make = _contrasted if settings.loss.kind == "contrast" else _labelled
        self._collator, chosen = make(self, source, groups)
        # Views have the same length, whatever their documents.
        examples = Examples(self._corpus, rows[:, 0], np.ones(len(rows), np.int64))
        self.plan(EpochBatches, examples=examples, rows=chosen)

    def collator(self) -> ViewCollator:
        """What makes batches of views."""
        return self._collator

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


def pairs_of(settings: MatchedPairSettings) -> Pairs:
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
