"""Rankings measured: of one system, of systems side by side, and of the weight with which two are fused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EvaluationError, MissingExtraError, SettingsError
from ..runtime.arrays import Floats
from ..runtime.text import require_whole
from .measures import (
    DEFAULT_MEASURES,
    MEASURES,
    RANK_MEASURES,
    Measure,
    RankedDocuments,
    Ranks,
    metric_name,
    require_measures,
)
from .resampling import CONFIDENCE, RESAMPLES, Estimate, folds_of, resampled_means
from .trec import Qrels, Run, leave_out, ranked

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 5
WEIGHTS = tuple(step / 10 for step in range(11))

FuseScores = Callable[[dict[str, float], dict[str, float], float], dict[str, float]]


@dataclass(frozen=True)
class RankingScores:
    """Measures of the rankings of one system.

    Args:
        measures: names of the measures.
        queries: ids of the queries, those with a positive.
        values: ``(queries, measures)``; 0 for a query that the run lacks.
        relevant: number of relevant documents of every query, ``(queries,)``.
    """

    measures: tuple[str, ...]
    queries: tuple[str, ...]
    values: Floats
    relevant: tuple[int, ...]

    def of(self, measure: str) -> Floats:
        """Values of every query, ``(queries,)``, of a measure as users write it."""
        return self.values[:, self.measures.index(str(Measure.parse(measure)))]

    @property
    def weights(self) -> Floats:
        """How much each query counts in the mean of each measure, ``(queries, measures)``, 1 on average.

        Of a mean over pairs of a query and a relevant document, a query counts as often as it has such documents.
        """
        weights = np.ones_like(self.values)
        is_over_pairs = [MEASURES[Measure.parse(name).kind].over_pairs for name in self.measures]
        weights[:, is_over_pairs] = (np.array(self.relevant) / np.mean(self.relevant))[:, None]
        return weights

    @property
    def means(self) -> dict[str, float]:
        """Means over queries, or over pairs of a query and a relevant document, by measure."""
        return dict(zip(self.measures, (self.values * self.weights).mean(axis=0).tolist(), strict=True))

    def metrics(self) -> dict[str, float]:
        """The means by names that trackers take, such as ``ndcg_at_10``."""
        return {metric_name(name): value for name, value in self.means.items()}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        rows = (dict(zip(self.measures, row, strict=True)) for row in self.values.tolist())
        return {"means": self.means, "per_query": dict(zip(self.queries, rows, strict=True))}


def score_run(
    run: Run,
    qrels: Qrels,
    measures: Sequence[str] = DEFAULT_MEASURES,
    *,
    excluded: Mapping[str, Collection[str]] | None = None,
    candidates: RankedDocuments | None = None,
) -> RankingScores:
    """Measure rankings, by ``ir_measures`` where it has the measure.

    Documents of the same score are taken in the order of their ids. A query that the run lacks counts 0. A query
    without a positive is left out. Queries of the run that nobody judged are passed over.

    Args:
        run: the rankings.
        qrels: the judgements.
        measures: as users write them, such as ``ndcg@10``, ``map``, ``p@5``, ``mrr@10``, ``recall@100``, ``success@1``.
        excluded: ids of documents by query id that are taken out of rankings and judgements first (see
            :func:`~graphdoc.evaluation.trec.source_documents`).
        candidates: what was ranked, which some measures need.

    Raises:
        EvaluationError: no query has a positive, or a score is no finite number.
        MissingExtraError: ``ir_measures`` is not installed.
        SettingsError: a measure is unknown or needs ``candidates``, or no measure is named.

    >>> scores = score_run({"q1": {"tide": 0.5, "wave": 0.4, "gate": 0.1}}, {"q1": {"wave": 1}}, ["mrr@10", "p@5"])
    >>> scores.means
    {'MRR@10': 0.5, 'P@5': 0.2}
    """
    wanted = require_measures(measures)
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtraError("ir_measures", "retrieval", "measure rankings") from error
    if excluded is not None:
        run, qrels = leave_out(run, excluded), leave_out(qrels, excluded)
    positives = {query: {id for id, grade in grades.items() if grade > 0} for query, grades in qrels.items()}
    judged = [query for query, ids in positives.items() if ids]
    if not judged:
        raise EvaluationError(f"0 of {len(qrels):,} judged queries have a positive, a document with a grade above 0")
    orders = {query: ranked(run.get(query, {})) for query in judged}
    values = np.zeros((len(judged), len(wanted)))
    columns: dict[Any, list[int]] = {}
    for column, measure in enumerate(wanted):
        if measure.kind not in RANK_MEASURES:
            columns.setdefault(measure.of_library(ir_measures), []).append(column)
            continue
        if candidates is None:
            raise SettingsError(f"the measure {measure} depends on how many documents are ranked; give candidates")
        for row, query in enumerate(judged):
            ranks = [rank for rank, id in enumerate(orders[query], start=1) if id in positives[query]]
            counts = len(positives[query]), candidates.absent.get(query, 0), candidates.count, len(judged)
            values[row, column] = measure.of_ranks(Ranks(ranks, *counts))
    if columns:
        # The libraries hold scores in single precision and each breaks ties differently: give them ranks.
        scores = {query: {id: float(-rank) for rank, id in enumerate(ids)} for query, ids in orders.items() if ids}
        # They know no grades below 0, which mean no more than 0 here.
        gains = {query: {id: max(0, int(grade)) for id, grade in qrels[query].items()} for query in judged}
        rows = {query: row for row, query in enumerate(judged)}
        for metric in ir_measures.iter_calc(list(columns), gains, scores):
            values[rows[metric.query_id], columns[metric.measure]] = metric.value
    relevant = tuple(len(positives[query]) for query in judged)
    return RankingScores(tuple(map(str, wanted)), tuple(judged), values, relevant)


@dataclass(frozen=True)
class RankingTable:
    """Systems by measures, on the same queries.

    Args:
        scores: what was measured of every system, of which there is one at least.
        against: name of the system that the others are held against; None for none.
        resamples: number of bootstrap resamples of the queries.
        seed: of their draws.
    """

    scores: Mapping[str, RankingScores]
    against: str | None = None
    resamples: int = RESAMPLES
    seed: int = 0

    @classmethod
    def from_runs(
        cls,
        runs: Mapping[str, Run],
        qrels: Qrels,
        measures: Sequence[str] = DEFAULT_MEASURES,
        *,
        against: str | None = None,
        candidates: RankedDocuments | None = None,
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> RankingTable:
        """Measure runs by name of the system, each as by :func:`score_run`."""
        if against is not None and against not in runs:
            raise SettingsError(f"against={against!r} is none of the systems; use one of {', '.join(runs)}")
        scores = {name: score_run(run, qrels, measures, candidates=candidates) for name, run in runs.items()}
        return cls(scores, against, resamples, seed)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures."""
        return next(iter(self.scores.values())).measures

    @property
    def queries(self) -> tuple[str, ...]:
        """Ids of the queries."""
        return next(iter(self.scores.values())).queries

    def estimate(self, system: str, measure: str) -> Estimate:
        """A mean with its bootstrap over queries; all systems have the same resamples, so differences are paired."""
        return Estimate(self.scores[system].means[measure], self._samples[system][:, self.measures.index(measure)])

    def difference(self, system: str, measure: str) -> Estimate | None:
        """By how much a system is ahead of :attr:`against`; None for that system itself, or without one."""
        if self.against in (None, system):
            return None
        return self.estimate(system, measure) - self.estimate(str(self.against), measure)

    @cached_property
    def _samples(self) -> dict[str, Floats]:
        """Means of resamples by system, ``(resamples, measures)``."""

        def means(values: Floats) -> Floats:
            return resampled_means(values, self.resamples, self.seed)

        parts = {name: (scores.values, scores.weights) for name, scores in self.scores.items()}
        return {name: means(values * weights) / means(weights) for name, (values, weights) in parts.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row per system: ``system``, every measure, and how far it is ahead of ``against``, with the interval.

        The differences of the system that the others are compared with are not a number.
        """
        import pandas as pd

        rows = []
        for name, scores in self.scores.items():
            row: dict[str, Any] = {"system": name, **scores.means}
            for measure in self.measures if self.against is not None else ():
                ahead = self.difference(name, measure) or Estimate(np.nan)
                low, high = ahead.interval or (np.nan, np.nan)
                row |= {f"{measure} ahead": ahead.value, f"{measure} low": low, f"{measure} high": high}
            rows.append(row)
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        systems = {}
        for name, scores in self.scores.items():
            differences = {measure: self.difference(name, measure) for measure in self.measures}
            systems[name] = {
                **scores.to_dict(),
                "intervals": {measure: self.estimate(name, measure).interval for measure in self.measures},
                "differences": {measure: ahead.to_dict() for measure, ahead in differences.items() if ahead} or None,
            }
        return {
            "queries": len(self.queries),
            "measures": list(self.measures),
            "against": self.against,
            "bootstrap": {"resamples": self.resamples, "seed": self.seed, "confidence": CONFIDENCE},
            "systems": systems,
        }


@dataclass(frozen=True)
class BestWeight:
    """A weight that was chosen by cross-validation.

    Args:
        weight: the best one on all queries, to search with from now on.
        fold_weights: ``(folds,)``, the best one on the queries of all other folds.
        folds: number of the fold of every query.
        run: scores of documents by query, fused with the weight that was chosen without the query.
        measure: the measure that weights were chosen by.
        means: its mean over all queries, by weight.
    """

    weight: float
    fold_weights: tuple[float, ...]
    folds: Mapping[str, int]
    run: Mapping[str, Mapping[str, float]]
    measure: str
    means: Mapping[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the run as plain values for JSON."""
        return {name: value for name, value in vars(self).items() if name != "run"}


def best_weight(
    words: Run,
    vectors: Run,
    qrels: Qrels,
    fuse: FuseScores,
    *,
    measure: str = DEFAULT_MEASURES[0],
    folds: int = FOLDS,
    seed: int = 0,
    excluded: Mapping[str, Collection[str]] | None = None,
) -> BestWeight:
    """Choose the weight of a fusion by k-fold cross-validation (Graph-RoBERTa, section 3.3).

    For each fold the weight is taken that is best on the queries of all others, and the queries of the fold are fused
    with it; so no query has a say in its own weight. Of several equally good weights the first is taken.

    Args:
        words: the ranking by words.
        vectors: the ranking by vectors; a query that either lacks has an empty ranking there.
        qrels: judgements; queries without a positive are left out.
        fuse: makes the fused scores of one query from those of both rankings and a weight.
        measure: the measure whose mean is to be greatest.
        folds: number of folds, of as equal size as can be.
        seed: draws the folds.
        excluded: documents taken out first, by query id (see :func:`score_run`).

    Raises:
        EvaluationError: there are fewer queries with a positive than folds.

    >>> words = {"q1": {"a": 1.0, "b": 0.0}, "q2": {"a": 0.0, "b": 1.0}}
    >>> vectors = {"q1": {"a": 0.0, "b": 1.0}, "q2": {"a": 1.0, "b": 0.0}}
    >>> def fuse(words, vectors, weight):
    ...     return {one: weight * words[one] + (1 - weight) * vectors[one] for one in words}
    >>> best_weight(words, vectors, {"q1": {"a": 1}, "q2": {"b": 1}}, fuse, folds=2).weight
    0.6
    """
    require_whole("folds", folds, least=2, may_be_none=False)

    def fused(query: str, weight: float) -> dict[str, float]:
        by_words, by_vectors = dict(words.get(query, {})), dict(vectors.get(query, {}))
        return fuse(by_words, by_vectors, weight) if by_words or by_vectors else {}

    tried = [
        score_run({query: fused(query, weight) for query in qrels}, qrels, [measure], excluded=excluded)
        for weight in WEIGHTS
    ]
    queries = tried[0].queries
    if len(queries) < folds:
        raise EvaluationError(
            f"there are {len(queries):,} queries with a positive for {folds} folds; give more queries, or fewer folds"
        )
    # (weights, queries)
    values = np.stack([scores.values[:, 0] for scores in tried])
    fold = folds_of(queries, folds, seed)
    chosen = [_best(values[:, fold != number]) for number in range(folds)]
    return BestWeight(
        weight=WEIGHTS[_best(values)],
        fold_weights=tuple(WEIGHTS[best] for best in chosen),
        folds=dict(zip(queries, fold.tolist(), strict=True)),
        run={query: fused(query, WEIGHTS[chosen[fold[row]]]) for row, query in enumerate(queries)},
        measure=tried[0].measures[0],
        means=dict(zip(WEIGHTS, values.mean(axis=1).tolist(), strict=True)),
    )


def _best(values: Floats) -> int:
    """The first of the greatest means; sums that differ by rounding alone are equal."""
    means = values.mean(axis=1)
    return int(np.flatnonzero(means >= means.max() - 1e-12)[0])
