"""Measuring a model by the rankings of its vectors: on held-out queries while it is trained, on a fold at the end."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from ..corpus.report import CorpusReport
from ..corpus.source import CorpusSource
from ..corpus.stored import open_corpus
from ..documents.document import Document
from ..documents.section import Section
from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..evaluation import Judgements, score_run, write_run
from ..evaluation.labels import plain_document
from ..evaluation.measures import metric_name
from ..evaluation.query_ranking import DEPTH, RankingEvaluator
from ..runtime.text import counted
from ..sampling.draws import random_generator
from ..segmentation.spans import Coverage, SegmentedDocument, Span
from ..settings.retrieve import RetrievalSettings
from ..training.loop import RunEvaluation
from ..training.run_folder import MODEL_FOLDER
from .base import Start, prepared_once, transformer_precision
from .query_sets import QuerySets

logger = logging.getLogger(__name__)

# As many as a corpus can keep of a document.
MOST_PASSAGES = 10**6
# The ranking of the queries of the fold that is tested, in a run's folder.
TEST_RUN = "test.run"


def evaluation_of(
    start: Start[RetrievalSettings], sets: QuerySets, encoded: list[SegmentedDocument] | None = None
) -> RunEvaluation | None:
    """How a run measures its model: documents are ranked for the queries to measure; None where there are none.

    Args:
        start: what the recipe begins with.
        sets: the queries.
        encoded: all documents as :func:`encoded_documents` gives them; None where the passage encoder is trained.
    """
    if sets.validation is None:
        return None
    settings, queries = start.settings, sets.validation
    validation = settings.validation
    if encoded is not None and validation.documents is None:
        evaluator = _evaluator(start, sets, queries, encoded).with_queries_cut(start.encoder)
        return RunEvaluation(partial(evaluator, start.encoder), evaluator.best, True, validation.at_start)
    ready = prepared_once(
        start, lambda: _evaluator(start, sets, queries, ranked_documents(settings, queries, validation.documents))
    )

    def measure() -> Mapping[str, float]:
        evaluator = ready()
        assert evaluator is not None
        return evaluator(start.encoder)

    return RunEvaluation(measure, metric_name(validation.best), True, validation.at_start)


def write_test_run(
    start: Start[RetrievalSettings], sets: QuerySets, encoded: list[SegmentedDocument] | None = None
) -> str:
    """Rank all documents for the queries of the tested fold by the trained model, and write the ranking.

    Args:
        start: what the recipe begins with.
        sets: the queries.
        encoded: all documents as :func:`encoded_documents` gives them; None where the passage encoder is trained.

    Returns:
        What was found, in a line.
    """
    folder, settings = start.settings.folder, start.settings
    model = folder / MODEL_FOLDER
    if sets.test is None or not model.is_dir():
        return f"{folder / TEST_RUN} is written when the run is over"
    encoder = DocumentEncoder.from_pretrained(model, device=start.encoder.device)
    documents = ranked_documents(settings, sets.test, None) if encoded is None else encoded
    evaluator = _evaluator(start, sets, sets.test, documents, settings.folds.depth)
    run = evaluator.rank(encoder)
    path = write_run(Path(folder) / TEST_RUN, run)
    scores = score_run(run, sets.test.qrels, evaluator.measures, own=sets.own or None).means
    numbers = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
    return (
        f"fold {settings.folds.fold} of {settings.folds.number}, {len(sets.test):,} queries: {numbers}; wrote {path}"
    )


def _evaluator(
    start: Start[RetrievalSettings],
    sets: QuerySets,
    queries: Judgements,
    documents: Sequence[Document | SegmentedDocument],
    depth: int = DEPTH,
) -> RankingEvaluator:
    """What ranks documents for some queries."""
    settings = start.settings
    unknown = _require_answers(settings, queries, {plain_document(one).id for one in documents})
    if unknown and start.processes.is_first:
        logger.warning(
            "%s: %s of queries to measure or test not in %s; they count as not found",
            queries.source,
            counted(unknown, "answer"),
            settings.corpus.name,
        )
    return RankingEvaluator(
        documents,
        queries.queries,
        queries.qrels,
        own={query: documents for query, documents in sets.own.items() if query in queries.queries},
        best=settings.validation.best,
        unit=settings.loss.unit,
        depth=depth,
        dtype=transformer_precision(settings.training),
    )


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


def encoded_documents(start: Start[RetrievalSettings]) -> list[SegmentedDocument]:
    """All documents as they are ranked, with the vectors that a frozen passage encoder gives their passages.

    They are kept with the corpus, so that other runs need not encode them again; all processes share the work.

    Args:
        start: what the recipe begins with.

    Raises:
        EvaluationError: several documents have one id.
    """
    settings = start.settings
    most = start.encoder.model.config.max_passages or MOST_PASSAGES
    whole = settings.corpus.replace(max_passages=most, least_passages=1, leave_out_splits=[], deduplicate=False)
    corpus, vectors = open_corpus(settings.replace(corpus=whole), start.encoder, start.processes, start.show_progress)
    assert vectors is not None, "the passage encoder is frozen"
    found, ids = [], set[str]()
    for row in range(len(corpus)):
        document = corpus[row]
        if document.id in ids:
            raise _repeated(settings, document.id)
        ids.add(document.id)
        parts = zip(document.sections.tolist(), document.token_ids, strict=True)
        found.append(
            SegmentedDocument(
                Document(document.id, (Section(""),)),
                tuple(Span(section, 0, 0, len(tokens)) for section, tokens in parts),
                tuple(tuple(tokens.tolist()) for tokens in document.token_ids),
                Coverage(),
                vectors.vectors_of(row),
            )
        )
    return found


def _require_answers(settings: RetrievalSettings, queries: Judgements, documents: Collection[str]) -> int:
    """Refuse documents among which no query has an answer, and count the answers that are not among them."""
    answers = {id for query in queries.queries for id in queries.positives(query)}
    unknown = answers.difference(documents)
    if len(unknown) == len(answers):
        raise EvaluationError(
            f"{queries.source}: none of the documents that answer the queries to measure is in "
            f"{settings.corpus.name}; give their documents, or other queries"
        )
    return len(unknown)


def _repeated(settings: RetrievalSettings, id: str) -> EvaluationError:
    return EvaluationError(
        f"{settings.corpus.name}: several documents have the id {id!r}; give every document an id of its own "
        "(corpus.columns.id)"
    )
