"""The queries of a run, and measuring a model by the rankings of its vectors for them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..corpus.document import CorpusReport
from ..corpus.source import CorpusSource, nothing_to_train_on
from ..documents.document import Document
from ..documents.parsing.formats import numbered_lines
from ..documents.section import clean_text
from ..encoder import DocumentEncoder
from ..errors import DocumentError, EvaluationError
from ..evaluation import Judgements, read_judgements, score_run, write_run
from ..evaluation.measures import metric_name
from ..evaluation.query_ranking import DEPTH, RankingEvaluator
from ..evaluation.resampling import folds_of
from ..inference.precision import training_precision
from ..runtime.text import counted
from ..sampling.batches import random_generator
from ..segmentation.sentences import first_sentence
from ..settings.finetuning import TEXT_COLUMN, MadeFrom, RetrievalSettings
from ..training.recipe import RunEvaluation
from ..training.run import RunContext
from ..training.run_folder import MODEL_FOLDER
from .base import prepared_once

logger = logging.getLogger(__name__)

# The ranking of the queries of the fold that is tested, in a run's folder, and how many documents of each it has.
TEST_RUN, TEST_DEPTH = "test.run", 1000
# A text that more documents share, such as the heading References, is no query.
MOST_DOCUMENTS = 3
# Draws the folds, the same for all runs.
FOLD_SEED = 0

_TEXTS: dict[MadeFrom, Callable[[Document], list[str]]] = {
    "titles": lambda document: [document.title],
    "headings": lambda document: [section.heading for section in document.sections],
    "first_sentences": lambda document: [first_sentence(document)],
}


@dataclass(frozen=True)
class QuerySets:
    """The queries of a run.

    Args:
        train: those that are trained on.
        validation: those that are measured while the model is trained; None for none.
        test: those of the fold that is tested; None without folds.
        source_documents: documents by query id that queries were made of, which are neither answers nor negatives.
        made_from: how many queries were made of what.
        left_out: how many were left out, by reason.
    """

    train: Judgements
    validation: Judgements | None
    test: Judgements | None
    source_documents: Mapping[str, frozenset[str]] = field(default_factory=dict)
    made_from: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def counts(self) -> dict[str, Any]:
        """Counts of measured, tested and left-out queries, and of what queries were made of."""
        texts, measured = set(self.train.queries.values()), list[str]()
        if self.validation is not None:
            measured = list(self.validation.queries.values())
        return {
            "queries_made_of": {kind.replace("_", " "): count for kind, count in self.made_from.items()},
            "measured_queries": len(measured),
            "measured_queries_with_a_text_that_is_trained_on": sum(text in texts for text in measured),
            "tested_queries": 0 if self.test is None else len(self.test),
            "queries_left_out": self.left_out,
        }


def read_query_sets(settings: RetrievalSettings) -> QuerySets:
    """Read the queries of a run, or make them of its documents, and divide them.

    Raises:
        EvaluationError: queries or judgements cannot be read, or none are left to train on.
        DocumentError: queries are made of documents, and there are none.
    """
    queries, validation = settings.queries, settings.validation
    made, left_out = Counter[str](), dict[str, int]()
    if queries.made_from:
        judgements, made, left_out = make_queries(settings)
    else:
        judgements = _read(settings, queries.source or "", queries.split)
    sources = judgements.sources(queries.source_grade)
    judgements = judgements.without(sources)
    test, left = _fold(settings, judgements)
    measured: Judgements | None
    if validation.source is not None or validation.split is not None:
        source = validation.source or queries.source or ""
        measured = _read(settings, source, validation.split)
        own_sources = measured.sources(queries.source_grade)
        measured, sources = measured.without(own_sources), sources | own_sources
        if source == queries.source:
            # Those that are tested do not choose the checkpoint.
            tested = {} if test is None else test.queries
            measured = _chosen(measured, [query for query in measured.queries if query not in tested], "to measure")
            left = _chosen(left, [query for query in left.queries if query not in measured.queries])
    else:
        measured, left = _held_out(settings, left)
    if measured is not None and validation.most_queries is not None:
        order = random_generator(settings.training.seed, "most queries").permutation(sorted(measured.queries))
        measured = _chosen(measured, order[: validation.most_queries].tolist())
    return QuerySets(left, measured, test, sources, made, {**left_out, **judgements.left_out})


def make_queries(settings: RetrievalSettings) -> tuple[Judgements, Counter[str], dict[str, int]]:
    """Make queries of the documents of a run.

    Texts that differ in capitals or white space alone are one query, with several answers where they are of several
    documents. The vectors of documents know neither their titles nor their headings; first sentences that become
    queries are left out of what is trained on.

    Returns:
        The queries, how many there are of each kind, and how many were left out by reason.

    Raises:
        DocumentError: there are no documents.
        EvaluationError: no query can be made of them.
    """
    made_from, corpus, report = settings.queries.made_from, settings.corpus, CorpusReport()
    # By case-folded text: its first spelling, its kind, and the ids of its documents.
    texts: dict[str, tuple[str, MadeFrom, dict[str, None]]] = {}
    for _, document in CorpusSource(corpus).documents(report):
        for kind in made_from:
            for text in map(" ".join, map(str.split, _TEXTS[kind](document))):
                if key := text.casefold():
                    texts.setdefault(key, (text, kind, {}))[2][document.id] = None
    if not report.documents:
        raise nothing_to_train_on(corpus, report)
    counts: Counter[str] = Counter()
    shared, queries, qrels = 0, dict[str, str](), dict[str, dict[str, int]]()
    for text, kind, ids in texts.values():
        if len(ids) > MOST_DOCUMENTS:
            shared += 1
            continue
        counts[kind] += 1
        queries[id := f"{kind}-{counts[kind]}"] = text
        qrels[id] = dict.fromkeys(ids, 1)
    if not queries:
        raise EvaluationError(
            f"{corpus.name}: no query can be made of {', '.join(made_from)}: documents have none, or more than "
            f"{MOST_DOCUMENTS} share them ({shared:,}); make them of something else (queries.made_from), or give "
            "queries.source"
        )
    left_out = {f"texts that more than {MOST_DOCUMENTS} documents share": shared} if shared else {}
    return Judgements.from_qrels(queries, qrels, source=corpus.name), counts, left_out


def _read(settings: RetrievalSettings, source: str, split: str | None) -> Judgements:
    queries = settings.queries
    is_same, is_folder = source == queries.source, Path(source).is_dir()
    column = queries.text_column if is_folder or is_same else TEXT_COLUMN
    return read_judgements(source, split=split, only=queries.only if is_same else (), text_column=column)


def _fold(settings: RetrievalSettings, judgements: Judgements) -> tuple[Judgements | None, Judgements]:
    folds, ids = settings.folds, list(judgements.queries)
    if folds.number is None:
        return None, judgements
    if folds.file is not None:
        fold_of = _read_folds(folds.file, folds.number)
        if missing := next((id for id in ids if id not in fold_of), None):
            raise EvaluationError(f"{folds.file}: query {missing!r} has no fold; give every query one")
    else:
        numbers = folds_of(ids, folds.number, FOLD_SEED).tolist()
        fold_of = {id: number + 1 for id, number in zip(ids, numbers, strict=True)}
    tested = [id for id in ids if fold_of[id] == folds.fold]
    if not tested or len(tested) == len(ids):
        raise EvaluationError(
            f"{folds.file or judgements.source}: folds.fold={folds.fold} of folds.number={folds.number} has "
            f"{len(tested):,} of {counted(len(ids), 'query')}; there have to be some to test, and others to train on"
        )
    return _chosen(judgements, tested), _chosen(judgements, [id for id in ids if fold_of[id] != folds.fold])


def _read_folds(path: str, number: int) -> dict[str, int]:
    result: dict[str, int] = {}
    try:
        for line_number, line in numbered_lines(path):
            query, _, cell = (part.strip() for part in clean_text(line).strip().partition("\t"))
            fold = int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 10 else 0
            if not query or not 1 <= fold <= number or result.setdefault(query, fold) != fold:
                raise EvaluationError(
                    f"{path}:{line_number}: the id of a query, here {query!r}, and its fold, 1 to {number} and the "
                    "same in all its lines, are expected with a tab between; mend the line"
                )
    except DocumentError as error:
        raise EvaluationError(str(error)) from error.__cause__
    return result


def _held_out(settings: RetrievalSettings, judgements: Judgements) -> tuple[Judgements | None, Judgements]:
    """Queries that are measured and not trained on, and the others; of made queries all of a document together."""
    share, most = settings.validation.share, settings.validation.most_queries
    if not share:
        return None, judgements
    unit: Callable[[str], str] = (lambda query: judgements.positives(query)[0]) if settings.queries.made_from else str
    units = {query: unit(query) for query in judgements.queries}
    sizes = Counter(units.values())
    drawn = random_generator(settings.training.seed, "validation").permutation(sorted(sizes)).tolist()
    held_out = drawn[: max(1, round(len(sizes) * share))]
    if most:
        held_out = held_out[: 1 + int(np.searchsorted(np.cumsum([sizes[one] for one in held_out]), most))]
    if len(held_out) == len(sizes):
        raise EvaluationError(
            f"{judgements.source}: validation.share={share:g} of {counted(len(units), 'query')} leaves none to train "
            "on; give more queries, or lower it"
        )
    chosen = set(held_out)
    return (
        _chosen(judgements, [query for query, one in units.items() if one in chosen]),
        _chosen(judgements, [query for query, one in units.items() if one not in chosen]),
    )


def _chosen(judgements: Judgements, ids: Sequence[str] | Collection[str], what: str = "to train on") -> Judgements:
    """Some of the queries, with their judgements; counts of what was left out stay behind."""
    if not ids:
        raise EvaluationError(
            f"{judgements.source}: none of {counted(len(judgements), 'query')} is left {what}; give more queries, or "
            "measure and test fewer"
        )
    queries = {id: judgements.queries[id] for id in ids}
    return Judgements(queries, {id: judgements.qrels[id] for id in ids}, judgements.source)


class QueryMeasurement:
    """Measures a model by the rankings of its vectors: on held-out queries during training, on a fold at the end.

    Raises:
        EvaluationError: several documents have one id, or no answer is among them.
    """

    def __init__(self, run: RunContext[RetrievalSettings], sets: QuerySets) -> None:
        self._run, self._sets, self._settings = run, sets, run.settings

    def evaluation(self) -> RunEvaluation | None:
        """How a run measures its model; None where there are no queries to measure."""
        queries, validation = self._sets.validation, self._settings.validation
        if queries is None:
            return None
        measure = prepared_once(self._run, self._evaluator(queries, validation.documents))
        return RunEvaluation(measure, metric_name(validation.best), True, size=len(queries))

    def write_test_run(self) -> str | None:
        """Rank all documents for the queries of the tested fold by the trained model, and write the ranking.

        Returns:
            What was found, in a line of the first process.
        """
        folder, folds, queries = self._settings.folder, self._settings.folds, self._sets.test
        if queries is None:
            return None
        if not (folder / MODEL_FOLDER).is_dir():
            return f"{folder / TEST_RUN} is written when the run is over"
        encoder = DocumentEncoder.from_pretrained(folder / MODEL_FOLDER, device=self._run.encoder.device)
        processes, evaluator = self._run.processes, self._evaluator(queries, None, TEST_DEPTH)
        run = evaluator.rank(encoder, processes)
        if not processes.is_first:
            return None
        path = write_run(folder / TEST_RUN, run)
        scores = score_run(run, queries.qrels, evaluator.measures, excluded=self._sets.source_documents or None).means
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        return f"fold {folds.fold} of {folds.number}, {len(queries):,} queries: {numbers}; wrote {path}"

    def _evaluator(self, queries: Judgements, others: int | None, depth: int = DEPTH) -> RankingEvaluator:
        """The evaluator that ranks answers, and a number of other documents, for some queries."""
        settings = self._settings
        documents = ranked_documents(settings, queries, others)
        answers = {id for query in queries.queries for id in queries.positives(query)}
        unknown, name = len(answers.difference(one.id for one in documents)), settings.corpus.name
        if unknown == len(answers):
            raise EvaluationError(
                f"{queries.source}: none of the documents that answer the queries to measure is in {name}; give their "
                "documents, or other queries"
            )
        if unknown and self._run.processes.is_first:
            logger.warning(
                "%s: %s of queries to measure or test not in %s; they count as not found",
                queries.source, counted(unknown, "answer"), name,
            )  # fmt: skip
        return RankingEvaluator(
            documents,
            queries.queries,
            queries.qrels,
            excluded=self._sets.source_documents,
            primary_metric=settings.validation.best,
            level=settings.loss.level,
            depth=depth,
            dtype=training_precision(self._run.encoder.device),
        )


def ranked_documents(settings: RetrievalSettings, queries: Judgements, others: int | None) -> list[Document]:
    """The documents that are ranked: answers, and all others or a sample of them, drawn by the seed alone.

    Raises:
        EvaluationError: several documents have one id.
    """
    everything = settings.corpus.replace(leave_out_splits=[], deduplicate=False)
    source = CorpusSource(everything, settings.leaves_out_first_sentence)
    answers = {id for grades in queries.qrels.values() for id, grade in grades.items() if grade > 0}
    kept: dict[str, Document] = {}
    sample: list[Document] = []
    draw, seen = random_generator(settings.training.seed, "ranked documents"), 0
    for _, document in source.documents(CorpusReport()):
        if document.is_empty:
            continue
        if document.id in kept:
            raise EvaluationError(
                f"{settings.corpus.name}: several documents have the id {document.id!r}; give every document an id of "
                "its own (corpus.columns.id)"
            )
        if others is None or document.id in answers:
            kept[document.id] = document
            continue
        # A sample of fixed size from a stream whose length is not known.
        seen += 1
        if len(sample) < others:
            sample.append(document)
        elif (place := int(draw.integers(seen))) < others:
            sample[place] = document
    return [*kept.values(), *sample]
