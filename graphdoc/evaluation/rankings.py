"""All queries of a set ranked in every way that an index knows, to find out which way suits the documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from ..errors import EvaluationError
from ..retrieval.fusion import Fusion, fused_scores
from ..retrieval.grouping import Scores
from ..retrieval.index import DocumentIndex
from ..retrieval.search import SearchOptions
from ..runtime.progress import progress_bar
from ..runtime.text import require_whole
from .fusion_weight import FOLDS, BestWeight, best_weight
from .ranking import DEFAULT_MEASURES
from .trec import Qrels, Run, leave_out, ranked

# Every way to rank documents with the searches that it takes.
WAYS: dict[str, tuple[str, ...]] = {
    "words": ("words",),
    "words-documents": ("words-documents",),
    "words-both": ("words-both",),
    "vectors": ("vectors",),
    "vectors-documents": ("vectors-documents",),
    "hybrid": ("words", "vectors"),
    "hybrid-weighted": ("words", "vectors"),
}
# What each does, for readers.
EXPLAINED = {
    "words": "BM25 of passages, the best three added up",
    "words-documents": "BM25 of whole documents",
    "words-both": "both of them added up",
    "vectors": "vectors of passages, the best three added up",
    "vectors-documents": "vectors of documents",
    "hybrid": "words and vectors of passages, by reciprocal rank",
    "hybrid-weighted": "the same by a weighted sum, the weight from cross-validation",
}
_SEARCHES: dict[str, SearchOptions] = {
    "words": {"by": "words", "words_unit": "passage"},
    "words-documents": {"by": "words", "words_unit": "document"},
    "words-both": {"by": "words", "words_unit": "both"},
    "vectors": {"by": "vectors", "vectors_unit": "passage"},
    "vectors-documents": {"by": "vectors", "vectors_unit": "document"},
}

Result = TypeVar("Result")


@dataclass(frozen=True)
class Rankings:
    """Queries ranked in several ways.

    Args:
        runs: scores by query id and document id, by name of the way (see ``WAYS``).
        milliseconds: time of every query by way, ``(queries,)``: the search and the fusion, and what the vector of a
            query takes on average, but not the reading of passages to show.
        weight: how the weight of words in ``hybrid-weighted`` was chosen; None where there are too few queries.
    """

    runs: Mapping[str, Run]
    milliseconds: Mapping[str, tuple[float, ...]]
    weight: BestWeight | None

    @property
    def latency(self) -> dict[str, float]:
        """Median time of a query in milliseconds, by way."""
        return {name: float(np.median(values)) for name, values in self.milliseconds.items()}


def rank_queries(
    index: DocumentIndex,
    queries: Mapping[str, str],
    qrels: Qrels,
    *,
    k: int = 1000,
    depth: int | None = None,
    measure: str = DEFAULT_MEASURES[0],
    folds: int = FOLDS,
    seed: int = 0,
    own: Mapping[str, Collection[str]] | None = None,
    show_progress: bool | None = None,
) -> Rankings:
    """Rank documents for every query in every way.

    Args:
        index: the documents.
        queries: texts by query id.
        qrels: grades by query id and document id, which the weight of the fusion is chosen by.
        k: documents that are kept of each ranking.
        depth: rows that each search fetches; None for five a document.
        measure: what the weight makes greatest.
        folds: folds of the cross-validation; where there are fewer queries, there is no ``hybrid-weighted``.
        seed: draws the folds.
        own: documents by query id that are taken out before rankings are joined (see
            :func:`~graphdoc.evaluation.trec.own_documents`).
        show_progress: show a bar; None shows it on a terminal when the work is long.

    Raises:
        EvaluationError: there are no queries.
        RetrievalError: the index cannot be read.
        SettingsError: a setting is out of range.
    """
    require_whole("k", k, may_be_none=False)
    if not queries:
        raise EvaluationError("there are no queries; give at least one")
    searched, times = _search_all(index, queries, k, depth or 5 * k, show_progress)
    if own is not None:
        searched = {name: leave_out(run, own) for name, run in searched.items()}
    runs: dict[str, Run] = {name: searched[name] for name in _SEARCHES}
    joined, fusing = {}, []
    for query in queries:
        joined[query], seconds = _timed(partial(fused, searched["words"][query], searched["vectors"][query]))
        fusing.append(seconds)
    runs["hybrid"] = joined
    judged = sum(any(grade > 0 for grade in qrels.get(query, {}).values()) for query in queries)
    weight = None
    if judged >= folds:
        weight = best_weight(
            searched["words"], searched["vectors"], qrels, weighted, measure=measure, folds=folds, seed=seed, own=own
        )
        runs["hybrid-weighted"] = weight.run
    for name in runs:
        if name not in times:
            parts = [*(times[part] for part in WAYS[name]), fusing]
            times[name] = [sum(one) for one in zip(*parts, strict=True)]
    return Rankings(
        {name: {query: _best(scores, k) for query, scores in run.items()} for name, run in runs.items()},
        {name: tuple(1000 * seconds for seconds in times[name]) for name in runs},
        weight,
    )


def fused(words: Scores, vectors: Scores, fusion: Fusion = "reciprocal_rank", weight: float = 0.5) -> Scores:
    """Scores of both rankings joined, as a search joins them.

    Args:
        words: scores by document of word search.
        vectors: those of vector search.
        fusion: how they are joined.
        weight: weight of words in a weighted fusion, 0 to 1; vectors have the rest.
    """
    weights = {"words": weight, "vectors": 1 - weight} if fusion == "weighted" else None
    return fused_scores({"words": words, "vectors": vectors}, fusion, weights)


def weighted(words: Scores, vectors: Scores, weight: float) -> Scores:
    """Scores of both rankings joined by a weighted sum (see :func:`fused`), as the choice of a weight takes it."""
    return fused(words, vectors, "weighted", weight)


def _search_all(
    index: DocumentIndex, queries: Mapping[str, str], k: int, depth: int, show_progress: bool | None
) -> tuple[dict[str, dict[str, Scores]], dict[str, list[float]]]:
    runs: dict[str, dict[str, Scores]] = {name: {} for name in _SEARCHES}
    times: dict[str, list[float]] = {name: [] for name in _SEARCHES}
    # What is loaded on first use is no part of a query's time.
    index.scores(next(iter(queries.values())), k)
    # Together, so that what is cut is said once.
    vectors, seconds = _timed(lambda: index.encoder.encode_query(list(queries.values())))
    encoding = seconds / len(queries)
    with progress_bar(show_progress, len(queries), "Searching", "queries") as bar:
        for (query, text), vector in zip(queries.items(), vectors, strict=True):
            for name, options in _SEARCHES.items():
                settings: SearchOptions = {**options, "depth": depth}
                found, seconds = _timed(partial(index.scores, text, k, vector=vector, **settings))
                (runs[name][query],) = found.values()
                times[name].append(seconds + (encoding if options["by"] == "vectors" else 0.0))
            bar.update(1)
    return runs, times


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def _best(scores: Mapping[str, float], k: int) -> dict[str, float]:
    return {id: scores[id] for id in ranked(scores)[:k]}
