"""Training a model to match pairs of long documents, view by view (SST, section 3.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch

from ..checkpoints.folders import checkpoint_folder
from ..corpus.corpus import TrainingCorpus
from ..corpus.document import TrainingDocument
from ..corpus.source import training_segmenter
from ..corpus.view_pool import ViewPool, prepare_view_pool
from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from ..encoder import DocumentEncoder
from ..errors import EvaluationError, SettingsError
from ..evaluation.trec import ranked, read_qrels, read_run
from ..losses import ClassificationLoss, InfoNCELoss, PairCosineLoss
from ..matching.matcher import ViewSampler, view_reader
from ..matching.reader import DualReader, ReceptiveField, SentenceFeatures, SpecialTokens, ViewReader, ViewTokens
from ..registry import SUBTOPICS, VIEW_READERS, load
from ..runtime.arrays import Rows
from ..sampling.batches import EpochBatches, random_generator
from ..sampling.negatives import RowLists
from ..segmentation.segmenter import Segmenter
from ..settings.document import DEFAULT_SUBTOPIC_MODEL
from ..settings.finetuning import MatchedPairSettings, ViewRunSettings
from ..training.objectives import ClassificationObjective, PairObjective, QueryObjective, TrainingBatch
from ..training.run import begin_training
from .base import CorpusRecipe, Examples, LossSettings, changed_since
from .pairs import CorpusPairs, PairValidation


def begin_views(encoder: DocumentEncoder, settings: ViewRunSettings) -> None:
    """Give a model the settings of its views, and a head where views are read together.

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
        model.remove_head()
    elif model.config.labels != list(reader.labels):
        model.add_head(reader.labels)
    model.config.views = settings.views.as_values()
    finder = load(SUBTOPICS[settings.views.subtopics])
    named = settings.views.subtopic_model or (DEFAULT_SUBTOPIC_MODEL if finder.reads_vectors else None)
    model.subtopic_folder = None if named is None else checkpoint_folder(named)
    begin_training(encoder, settings.model)


@dataclass(frozen=True)
class ViewCollator:
    """Makes batches of the views of pairs, in the processes that load ahead.

    Args:
        corpus: the documents, cut into sentences.
        pairs: the pairs.
        pool: their views.
        special: special tokens of the tokenizer.
        reader: how views are read.
        settings: which views an epoch reads.
        negatives: for the contrast, numbers of the pairs of every first document that do not match.
        answers: then groups of all documents that match it.
    """

    corpus: TrainingCorpus
    pairs: CorpusPairs
    pool: ViewPool
    special: SpecialTokens
    reader: ViewReader
    settings: ViewRunSettings
    negatives: RowLists | None = None
    answers: RowLists | None = None

    def __call__(self, places: Sequence[tuple[TrainingDocument, int, int]]) -> TrainingBatch:
        """Make a batch of pairs of one epoch, each with some that do not match where that is asked for."""
        numbers, epoch, at_once = [number for _, _, number in places], places[0][1], self.settings.views_at_once
        ids = tuple(" ".join(self.corpus[row].id for row in self.pairs.rows[number].tolist()) for number in numbers)
        if self.negatives is None:
            labels = torch.from_numpy(self.pairs.labels[numbers])
            graphs, roles = self.reader.graphs(self.views(numbers, epoch), at_once), self.reader.roles(len(numbers))
            return TrainingBatch(graphs, ids, {"class": labels, "label": labels}, roles)
        assert isinstance(self.reader, DualReader) and self.answers is not None
        others = [other for number in numbers for other in self.sampled_negatives(number, epoch)]
        matching, apart = self.views(numbers, epoch), self.views(others, epoch)
        texts = [first for first, _ in matching] + [second for _, second in [*matching, *apart]]
        pairs = len(numbers)
        targets = {
            "positive": torch.arange(pairs),
            "answers": torch.from_numpy(self.answers.padded(numbers)),
            "group": torch.from_numpy(self.corpus.groups[self.pairs.rows[[*numbers, *others], 1]]),
        }
        roles = {"query": slice(pairs), "candidate": slice(pairs, 2 * pairs + len(others))}
        return TrainingBatch(self.reader.single_graphs(texts, at_once), ids, targets, roles)

    def sampled_negatives(self, number: int, epoch: int) -> list[int]:
        """Pairs of the same first document that do not match, others in every epoch."""
        assert self.negatives is not None
        draw = random_generator(self.settings.training.seed, "negative pairs", epoch, number)
        sampled: list[int] = draw.permutation(self.negatives[number])[: self.settings.loss.negatives_per_pair].tolist()
        return sampled

    def views(self, pairs: Sequence[int], epoch: int) -> list[ViewTokens]:
        """The views that an epoch reads of some pairs, pair after pair, without special tokens."""
        kept, views = self.settings.views.receptive_field, []
        for pair in pairs:
            examples = [self.corpus[row] for row in self.pairs.rows[pair].tolist()]
            first, second = (ReceptiveField.from_tokens(one.id, one.token_ids, kept, self.special) for one in examples)
            for view in (self.pool.view(pair, number) for number in self.view_numbers(pair, epoch)):
                views.append((first.tokens_of(view.first), second.tokens_of(view.second)))
        return views

    def view_numbers(self, pair: int, epoch: int) -> Sequence[int]:
        """The views that an epoch reads of a pair; of views in order one of the epoch's range."""
        numbers = self.settings.view_numbers(epoch)
        if self.settings.pool_range is None:
            return numbers
        draw = random_generator(self.settings.training.seed, "view of a range", epoch, pair)
        return [numbers[int(draw.integers(len(numbers)))]]


class ViewRecipe(CorpusRecipe[ViewRunSettings]):
    """Trains a model to match pairs of documents view by view.

    Attributes:
        pairs: the pairs that are trained on.

    Raises:
        DocumentError: pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        ModelError: views are longer than the model reads.
        SettingsError: the model has graph layers, or batches are too small for the processes.
    """

    summary = "Matching of pairs of documents view by view (SST)"
    batch_unit = "pairs"
    losses: ClassVar = {
        ClassificationLoss: LossSettings(ClassificationObjective, chosen_by={"kind": "cross_entropy"}),
        PairCosineLoss: LossSettings(PairObjective, ("margin",), {"kind": "cosine"}),
        InfoNCELoss: LossSettings(
            partial(QueryObjective, once=False),
            ("temperature",),
            {"kind": "contrast"},
            {"similarity": "cosine", "directions": "one"},
        ),
    }

    def begin(self) -> None:
        """Give the model the settings of its views, make the objective, and read the pairs."""
        run, settings, encoder = self.run, self.settings, self.run.encoder
        begin_views(encoder, settings)
        self._validation = PairValidation(run)
        self.evaluation = self._validation.evaluation
        self.objective = self.objective_of(settings.loss, run.loss)
        self._special = SpecialTokens.from_tokenizer(encoder.tokenizer)
        self._reader = view_reader(settings.views, encoder, self._special, settings.model.start)
        self._listed = pairs_of(settings.pairs)

    def divide(self) -> None:
        """Find the documents of the pairs, draw their views, and plan the batches."""
        run, settings, encoder = self.run, self.settings, self.run.encoder
        special, reader = self._special, self._reader
        corpus, model, unknown = self.corpus, encoder.model.subtopic_folder, settings.pairs.on_unknown
        self.pairs = CorpusPairs.from_pairs(corpus, self._listed, unknown, setting="pairs.unknown=leave_out")
        rows, labels = self.pairs.rows, self.pairs.labels
        room = reader.room(settings.views.view_tokens)
        sampler = ViewSampler(settings.views, encoder.model.config.language, room, model)
        segmenter = training_segmenter(encoder.segmenter, settings.corpus)
        self._segmenter = Segmenter(segmenter.tokenizer, replace(segmenter.config, unit="sentence", context="none"))
        pool = prepare_view_pool(
            corpus, rows, sampler, special, settings.views_per_pair, self._texts_of,
            SentenceFeatures(sampler.finder, model, encoder.device), run.processes,
            is_ordered=settings.pool_range is not None, workers=settings.corpus.processes,
            show_progress_bar=run.show_progress_bar,
        )  # fmt: skip
        field = settings.views.receptive_field
        counts = corpus.passage_counts[np.unique(rows)]
        self._beyond = 0 if field is None else int(np.maximum(counts - field, 0).sum())
        chosen, negatives, answers = None, None, None
        if settings.loss.kind == "contrast":
            firsts, chosen = rows[:, 0].tolist(), np.flatnonzero(labels == 1)
            matching, others = _by_first(firsts, chosen), _by_first(firsts, np.flatnonzero(labels == 0))
            negatives = RowLists.from_lists(np.array(others[first], np.int64) for first in firsts)
            answers = RowLists.from_lists(corpus.groups[rows[matching[first], 1]] for first in firsts)
        self._collator = ViewCollator(corpus, self.pairs, pool, special, reader, settings, negatives, answers)
        # Views have the same length, whatever their documents.
        ones, examples = np.ones(len(rows), np.int64), Examples(corpus, rows[:, 0])
        self.plan(EpochBatches, ones, examples=examples, rows=chosen)

    def collator(self) -> ViewCollator:
        """The collator of views."""
        return self._collator

    def _texts_of(self, rows: Rows) -> Iterator[tuple[int, Sequence[str]]]:
        row_of = {self.corpus[row].id: row for row in rows.tolist()}
        for one in self._segmenter.segment_many(self.documents_of(rows)):
            row = row_of[one.document.id]
            if len(one.passages) != self.corpus.passage_counts[row]:
                raise changed_since(self.settings.corpus, one.document.id)
            yield row, one.texts

    def counts(self) -> dict[str, Any]:
        """Counts of the training and validation data."""
        views = {"views_of_a_pair": self.settings.views_per_pair, "sentences_beyond_field": self._beyond}
        return {**self.pairs.counts(), **views, **self._validation.counts(self.pairs.ids)}


def pairs_of(settings: MatchedPairSettings) -> Pairs:
    """The pairs that a run is trained on, of a file or of judgements and the hits of a first stage."""
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


def _by_first(firsts: Sequence[int], numbers: Rows) -> dict[int, list[int]]:
    """Numbers of pairs by the row of their first document."""
    found: dict[int, list[int]] = defaultdict(list)
    for number in numbers.tolist():
        found[firsts[number]].append(number)
    return found
