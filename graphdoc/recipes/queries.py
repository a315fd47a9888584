"""The queries of a run, and measuring a model by the rankings of its vectors for them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ..corpus.corpus import TrainingCorpus, prepare_run_corpus
from ..corpus.document import CorpusReport
from ..corpus.parts import frozen_vectors
from ..corpus.source import CorpusSource, nothing_to_train_on
from ..documents.document import Document
from ..documents.parsing.formats import numbered_lines
from ..documents.section import Section, clean_text
from ..encoder import DocumentEncoder
from ..errors import DocumentError, EvaluationError
from ..evaluation import Judgements, own_documents, read_judgements, score_run, write_run
from ..evaluation.measures import metric_name
from ..evaluation.query_ranking import DEPTH, RankingEvaluator
from ..evaluation.resampling import folds_of
from ..inference.precision import training_precision
from ..runtime.text import counted, left_out_line
from ..sampling.batches import random_generator
from ..segmentation.sentences import first_sentence
from ..segmentation.spans import Coverage, SegmentedDocument, Span
from ..settings.finetuning import TEXT_COLUMN, MadeFrom, RetrievalSettings
from ..training.loop import RunEvaluation
from ..training.run import RunContext
from ..training.run_folder import MODEL_FOLDER
from .base import prepared_once

_TEXTS: dict[MadeFrom, Callable[[Document], list[str]]] = {
    "titles": lambda document: [document.title],
    "headings": lambda document: [section.heading for section in document.sections],
    "first_sentences": lambda document: [first_sentence(document)],
}


def make_queries(
    documents: Iterable[Document], made_from: Sequence[MadeFrom], most_documents: int, source: str = ""
) -> tuple[Judgements, dict[str, int], dict[str, int]]:
    """Make queries of documents.

    Texts that differ in capitals or white space alone are one query, with several answers where they are of several
    documents. The vectors of documents know neither their titles nor their headings; first sentences have to be taken
    out of their text (``corpus.leave_out_first_sentence``).

    Args:
        documents: the documents.
        made_from: what queries are made of.
        most_documents: documents that a text may be of; such as ``References`` says nothing.
        source: what the documents are called in messages.

    Returns:
        The queries, how many there are of each kind, and how many were left out by reason.

    Raises:
        EvaluationError: there is none.

    >>> shore = Document.from_text("Waves break.", id="d1", title="The shore")
    >>> made, counts, left_out = make_queries([shore], ["titles"], 1)
    >>> dict(made.queries), made.qrels, counts["titles"]
    ({'titles-1': 'The shore'}, {'titles-1': {'d1': 1}}, 1)
    """
    # By the text in one case: as it is written first, what it is, and the ids of the documents that it is of.
    texts: dict[str, tuple[str, MadeFrom, dict[str, None]]] = {}
    for document in documents:
        for kind in made_from:
            for text in map(" ".join, map(str.split, _TEXTS[kind](document))):
                if key := text.casefold():
                    texts.setdefault(key, (text, kind, {}))[2][document.id] = None
    counts: Counter[str] = Counter()
    shared, queries, qrels = 0, dict[str, str](), dict[str, dict[str, int]]()
    for text, kind, ids in texts.values():
        if len(ids) > most_documents:
            shared += 1
            continue
        counts[kind] += 1
        queries[id := f"{kind}-{counts[kind]}"] = text
        qrels[id] = dict.fromkeys(ids, 1)
    if not queries:
        raise EvaluationError(
            f"{source}: no query can be made of {', '.join(made_from)}: documents have none"
            + (f", or more than {most_documents} share them ({shared:,})" if shared else "")
            + "; make them of something else (queries.made_from), or give queries.source"
        )
    left_out = {f"texts that more than {most_documents} documents share (queries.most_documents)": shared}
    return Judgements.of(queries, qrels, source=source), dict(counts), left_out if shared else {}


@dataclass(frozen=True)
class QuerySets:
    """The queries of a run.

    Args:
        train: those that are trained on.
        validation: those that are measured while the model is trained; None for none.
        test: those of the fold that is tested; None without folds.
        own: documents by query id that queries were made of, which are neither answers nor negatives.
        made: how many queries were made of what.
        left_out: how many were left out, by reason.
    """

    train: Judgements
    validation: Judgements | None
    test: Judgements | None
    own: Mapping[str, frozenset[str]] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def describe(self) -> list[str]:
        """What there is to train on and to measure, in a few lines."""
        lines = []
        if self.made:
            kinds = [f"{count:,} of {kind.replace('_', ' ')}" for kind, count in self.made.items()]
            lines.append(f"queries made of documents: {', '.join(kinds)}")
        parts = [("to train on", self.train), ("to measure", self.validation), ("to test", self.test)]
        lines.append(", ".join(f"{queries_counted(len(one))} {what}" for what, one in parts if one is not None))
        lines += [left_out_line(count, reason) for reason, count in self.left_out.items()]
        texts = set(self.train.queries.values())
        if seen := sum(text in texts for text in (self.validation.queries.values() if self.validation else ())):
            lines.append(f"{queries_counted(seen)} to measure with a text that is trained on too")
        return lines


def read_query_sets(settings: RetrievalSettings) -> QuerySets:
    """Read the queries of a run, or make them of its documents, and divide them.

    Args:
        settings: the settings of the run.

    Raises:
        EvaluationError: queries or judgements cannot be read, or none are left to train on.
        DocumentError: queries are made of documents, and there are none.
    """
    queries, validation, seed = settings.queries, settings.validation, settings.training.seed
    if queries.made_from:
        given, made, left_out = _made_of_documents(settings)
    else:
        given, made, left_out = _read(settings, queries.source or "", queries.split), {}, {}
    given, own = _without_own(given, queries.own_grade)
    test, left = _fold(settings, given)
    measured: Judgements | None
    if validation.source is not None or validation.split is not None:
        source = validation.source or queries.source or ""
        measured, measured_own = _without_own(_read(settings, source, validation.split), queries.own_grade)
        own = {**own, **measured_own}
        if source == queries.source:
            # Those that are tested do not choose the checkpoint.
            tested = {} if test is None else test.queries
            measured = _chosen(measured, [query for query in measured.queries if query not in tested], "to measure")
            left = _chosen(left, [query for query in left.queries if query not in measured.queries])
    else:
        measured, left = _held_out(settings, left)
    if measured is not None and validation.most_queries is not None:
        order = random_generator(seed, "most queries").permutation(sorted(measured.queries))
        measured = _chosen(measured, order[: validation.most_queries].tolist())
    return QuerySets(left, measured, test, own, made, {**left_out, **given.left_out})


def _made_of_documents(settings: RetrievalSettings) -> tuple[Judgements, dict[str, int], dict[str, int]]:
    """Queries that are made of the documents of a run (see :func:`make_queries`)."""
    queries, corpus, report = settings.queries, settings.corpus, CorpusReport()
    # First sentences that become queries are left out of what is trained on.
    documents = CorpusSource(corpus.replace(leave_out_first_sentence=False)).documents(report)
    texts = (document for _, document in documents)
    try:
        return make_queries(texts, queries.made_from, queries.most_documents, corpus.name)
    except EvaluationError:
        if report.documents:
            raise
        raise nothing_to_train_on(corpus, report) from None


def queries_counted(number: int) -> str:
    """A number of queries in words, such as ``1 query``."""
    return f"{number:,} {'query' if number == 1 else 'queries'}"


def _read(settings: RetrievalSettings, source: str, split: str | None) -> Judgements:
    queries = settings.queries
    is_same, is_folder = source == queries.source, Path(source).is_dir()
    return read_judgements(
        source,
        split=split,
        only=queries.only if is_same else (),
        text_column=queries.text_column if is_folder or is_same else TEXT_COLUMN,
    )


def _without_own(given: Judgements, grade: int | None) -> tuple[Judgements, dict[str, frozenset[str]]]:
    """Judgements without the documents that queries were made of, and these documents by query id."""
    if grade is None:
        return given, {}
    if not (own := own_documents(given.qrels, grade)):
        raise EvaluationError(
            f"{given.source}: no judgement has the grade queries.own_grade={grade}; leave it out, or check the grades"
        )
    return given.without(own), own


def _fold(settings: RetrievalSettings, given: Judgements) -> tuple[Judgements | None, Judgements]:
    """The queries of the fold that is tested, and the others."""
    folds, ids = settings.folds, list(given.queries)
    if folds.number is None:
        return None, given
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
            f"{folds.file or given.source}: folds.fold={folds.fold} of folds.number={folds.number} has "
            f"{len(tested):,} of {queries_counted(len(ids))}; there have to be some to test, and others to train on"
        )
    return _chosen(given, tested), _chosen(given, [id for id in ids if fold_of[id] != folds.fold])


def _read_folds(path: str, number: int) -> dict[str, int]:
    """The fold of every query of a file."""
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


def _held_out(settings: RetrievalSettings, given: Judgements) -> tuple[Judgements | None, Judgements]:
    """Queries that are measured and not trained on, and the others; of made queries all of a document together."""
    share = settings.validation.share
    if not share:
        return None, given
    unit: Callable[[str], str] = (lambda query: given.positives(query)[0]) if settings.queries.made_from else str
    units = {query: unit(query) for query in given.queries}
    there = sorted(set(units.values()))
    count = max(1, round(len(there) * share))
    if count >= len(there):
        raise EvaluationError(
            f"{given.source}: validation.share={share:g} of {queries_counted(len(units))} leaves none to train on; "
            "give more queries, or lower it"
        )
    held_out = set(random_generator(settings.training.seed, "validation").permutation(there)[:count].tolist())
    return (
        _chosen(given, [query for query, one in units.items() if one in held_out]),
        _chosen(given, [query for query, one in units.items() if one not in held_out]),
    )


def _chosen(given: Judgements, ids: Sequence[str] | Collection[str], what: str = "to train on") -> Judgements:
    """Some of the queries, with their judgements; what was left out stays with those that are many."""
    if not ids:
        raise EvaluationError(
            f"{given.source}: none of {queries_counted(len(given))} is left {what}; give more queries, or measure and "
            "test fewer"
        )
    return Judgements({id: given.queries[id] for id in ids}, {id: given.qrels[id] for id in ids}, given.source)


logger = logging.getLogger(__name__)

# As many as a corpus can keep of a document.
MOST_PASSAGES = 10**6
# The ranking of the queries of the fold that is tested, in a run's folder.
TEST_RUN = "test.run"
# Documents of that ranking.
TEST_DEPTH = 1000
# Draws the folds, the same for all runs.
FOLD_SEED = 0


class Ranking:
    """Measures a model by the rankings of its vectors: on held-out queries meanwhile, on a fold at the end.

    Args:
        run: settings, model and processes.
        sets: the queries.

    Raises:
        EvaluationError: several documents have one id, or no answer is among them.
    """

    def __init__(self, run: RunContext[RetrievalSettings], sets: QuerySets) -> None:
        self._run, self._sets, self._settings = run, sets, run.settings
        self._samples = run.settings.validation.documents is not None
        is_whole = sets.test is not None or (sets.validation is not None and not self._samples)
        # With a frozen passage encoder, the passages of all documents are encoded once, and kept with the corpus.
        self._whole = self._prepared() if run.settings.model.tune == "frozen" and is_whole else None
        self._documents: list[SegmentedDocument] | None = None

    def evaluation(self) -> RunEvaluation | None:
        """How a run measures its model; None where there are no queries to measure."""
        queries, validation, encoder = self._sets.validation, self._settings.validation, self._run.encoder
        if queries is None:
            return None
        if self._whole is None or self._samples:
            measure = prepared_once(self._run, lambda: self._of_texts(queries, validation.documents))
        else:
            self._require_answers(queries, self._whole.ids)

            @cache
            def ready() -> RankingEvaluator:
                return self._evaluator(queries, self._documents or ()).with_queries_cut(encoder)

            def measure() -> Mapping[str, float]:
                return ready()(encoder)

        return RunEvaluation(measure, metric_name(validation.best), True)

    def encode(self) -> None:
        """Encode the passages of all documents, where that is done once; in all processes."""
        if self._whole is None:
            return
        run, corpus = self._run, self._whole
        vectors = frozen_vectors(run.settings, corpus, run.encoder, run.processes, run.show_progress)
        assert vectors is not None, "the passage encoder is frozen"
        self._documents = []
        for row in range(len(corpus)):
            document = corpus[row]
            parts = zip(document.sections.tolist(), document.token_ids, strict=True)
            self._documents.append(
                SegmentedDocument(
                    Document(document.id, (Section(""),)),
                    tuple(Span(section, 0, 0, len(tokens)) for section, tokens in parts),
                    tuple(tuple(tokens.tolist()) for tokens in document.token_ids),
                    Coverage(),
                    vectors.vectors_of(row),
                )
            )

    def write_test_run(self) -> str:
        """Rank all documents for the queries of the tested fold by the trained model, and write the ranking.

        Returns:
            What was found, in a line.
        """
        folder, folds, queries = self._settings.folder, self._settings.folds, self._sets.test
        model = folder / MODEL_FOLDER
        if queries is None or not model.is_dir():
            return f"{folder / TEST_RUN} is written when the run is over"
        encoder = DocumentEncoder.from_pretrained(model, device=self._run.encoder.device)
        if self._documents is None:
            evaluator = self._of_texts(queries, None, TEST_DEPTH)
        else:
            evaluator = self._evaluator(queries, self._documents, TEST_DEPTH)
        run = evaluator.rank(encoder)
        path = write_run(folder / TEST_RUN, run)
        scores = score_run(run, queries.qrels, evaluator.measures, own=self._sets.own or None).means
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        return f"fold {folds.fold} of {folds.number}, {len(queries):,} queries: {numbers}; wrote {path}"

    def _prepared(self) -> TrainingCorpus:
        """All documents, whole as they are ranked."""
        run = self._run
        config = run.encoder.model.config
        whole = self._settings.corpus.replace(
            max_passages=config.max_passages or MOST_PASSAGES, least_passages=1, leave_out_splits=[], deduplicate=False
        )
        corpus = prepare_run_corpus(
            self._settings.replace(corpus=whole), run.encoder.segmenter, config.paragraph, run.processes,
            show_progress=run.show_progress,
        )  # fmt: skip
        ids = corpus.ids
        if (repeated := next((id for id, count in Counter(ids).items() if count > 1), None)) is not None:
            raise _repeated(self._settings, repeated)
        return corpus

    def _of_texts(self, queries: Judgements, others: int | None, depth: int = DEPTH) -> RankingEvaluator:
        documents = ranked_documents(self._settings, queries, others)
        self._require_answers(queries, [one.id for one in documents])
        return self._evaluator(queries, documents, depth)

    def _evaluator(
        self, queries: Judgements, documents: Sequence[Document | SegmentedDocument], depth: int = DEPTH
    ) -> RankingEvaluator:
        """What ranks documents for some queries."""
        settings = self._settings
        return RankingEvaluator(
            documents,
            queries.queries,
            queries.qrels,
            own={query: documents for query, documents in self._sets.own.items() if query in queries.queries},
            best=settings.validation.best,
            unit=settings.loss.unit,
            depth=depth,
            dtype=training_precision(self._run.encoder.device),
        )

    def _require_answers(self, queries: Judgements, documents: Collection[str]) -> None:
        """Refuse documents among which no query has an answer, and warn of answers that are not among them."""
        answers = {id for query in queries.queries for id in queries.positives(query)}
        unknown, name = len(answers.difference(documents)), self._settings.corpus.name
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


def ranked_documents(settings: RetrievalSettings, queries: Judgements, others: int | None) -> list[Document]:
    """The documents that are ranked: answers, and all others or a sample of them that depends on the seed alone.

    Args:
        settings: the settings of the run.
        queries: the queries.
        others: how many others; None for all.

    Raises:
        EvaluationError: several documents have one id.
    """
    source = CorpusSource(settings.corpus.replace(leave_out_splits=[], deduplicate=False))
    answers = {id for grades in queries.qrels.values() for id, grade in grades.items() if grade > 0}
    kept: dict[str, Document] = {}
    sample: list[Document] = []
    draw, seen = random_generator(settings.training.seed, "ranked documents"), 0
    for _, document in source.documents(CorpusReport()):
        if document.is_empty:
            continue
        if document.id in kept:
            raise _repeated(settings, document.id)
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


def _repeated(settings: RetrievalSettings, id: str) -> EvaluationError:
    return EvaluationError(
        f"{settings.corpus.name}: several documents have the id {id!r}; give every document an id of its own "
        "(corpus.columns.id)"
    )
