"""Measuring a model by the rankings of its vectors: on held-out queries while it is trained, on a fold at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..corpus.report import CorpusReport
from ..corpus.source import CorpusSource
from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..evaluation import Judgements, score_run, write_run
from ..evaluation.query_ranking import DEPTH, RankingEvaluator, metric_name
from ..sampling.draws import random_generator
from ..settings.retrieve import RetrievalSettings
from ..training.loop import RunEvaluation
from ..training.run_folder import MODEL_FOLDER
from .base import Start, prepared_once, transformer_precision
from .query_sets import QuerySets

# The ranking of the queries of the fold that is tested, in a run's folder.
TEST_RUN = "test.run"


def evaluation_of(start: Start[RetrievalSettings], sets: QuerySets) -> RunEvaluation | None:
    """How a run measures its model: documents are ranked for the queries to measure; None where there are none."""
    if sets.validation is None:
        return None
    settings, queries = start.settings, sets.validation
    validation = settings.validation
    ready = prepared_once(start, lambda: _evaluator(settings, sets, queries, validation.documents, validation.best))

    def measure() -> Mapping[str, float]:
        evaluator = ready()
        assert evaluator is not None
        return evaluator(start.encoder)

    return RunEvaluation(measure, metric_name(validation.best), True, validation.at_start)


def write_test_run(start: Start[RetrievalSettings], sets: QuerySets) -> str:
    """Rank all documents for the queries of the tested fold by the trained model, and write the ranking.

    Returns:
        What was found, in a line.
    """
    folder, settings = start.settings.folder, start.settings
    model = folder / MODEL_FOLDER
    if sets.test is None or not model.is_dir():
        return f"{folder / TEST_RUN} is written when the run is over"
    encoder = DocumentEncoder.from_pretrained(model, device=start.encoder.device)
    evaluator = _evaluator(settings, sets, sets.test, None, settings.validation.best, settings.folds.depth)
    run = evaluator.rank(encoder)
    path = write_run(Path(folder) / TEST_RUN, run)
    scores = score_run(run, sets.test.qrels, evaluator.measures, own=sets.own or None).means
    numbers = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
    return (
        f"fold {settings.folds.fold} of {settings.folds.number}, {len(sets.test):,} queries: {numbers}; wrote {path}"
    )


def _evaluator(
    settings: RetrievalSettings,
    sets: QuerySets,
    queries: Judgements,
    others: int | None,
    best: str,
    depth: int = DEPTH,
) -> RankingEvaluator:
    """What ranks the documents of the corpus, of any split, for some queries."""
    own = {query: documents for query, documents in sets.own.items() if query in queries.queries}
    return RankingEvaluator(
        ranked_documents(settings, queries, others),
        queries.queries,
        queries.qrels,
        own=own,
        best=best,
        dtype=transformer_precision(settings.training),
        depth=depth,
    )


def ranked_documents(settings: RetrievalSettings, queries: Judgements, others: int | None) -> list[Document]:
    """The documents that are ranked: answers, and all others or a sample of them that depends on the seed alone.

    Args:
        settings: the settings of the run.
        queries: the queries.
        others: how many others; None for all.

    Raises:
        EvaluationError: no answer is among them, or several documents have one id.
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
    if not answers & kept.keys():
        raise EvaluationError(
            f"{queries.source}: none of the documents that answer the queries to measure is in "
            f"{settings.corpus.name}; give their documents, or other queries"
        )
    return [*kept.values(), *sample]
