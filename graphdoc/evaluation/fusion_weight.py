"""The weight with which two rankings are fused, chosen by cross-validation over queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import EvaluationError
from ..runtime.text import require_whole
from .folds import folds_of
from .ranking import DEFAULT_MEASURES, score_run
from .trec import Qrels, Run

FOLDS = 5
WEIGHTS = tuple(step / 10 for step in range(11))

Fusion = Callable[[dict[str, float], dict[str, float], float], dict[str, float]]


@dataclass(frozen=True)
class BestWeight:
    """A weight that was chosen by cross-validation.

    Args:
        weight: the best one on all queries, to search with from now on.
        fold_weights: ``(folds,)``, the best one on the queries of all other folds.
        folds: number of the fold of every query, by query id.
        run: scores by query id and document id, every query fused with the weight that was chosen without it.
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
        return {
            "weight": self.weight,
            "fold_weights": list(self.fold_weights),
            "folds": dict(self.folds),
            "measure": self.measure,
            "means": {str(weight): mean for weight, mean in self.means.items()},
        }


def best_weight(
    words: Run,
    vectors: Run,
    qrels: Qrels,
    fuse: Fusion,
    *,
    measure: str = DEFAULT_MEASURES[0],
    weights: Sequence[float] = WEIGHTS,
    folds: int = FOLDS,
    seed: int = 0,
    own: Mapping[str, Collection[str]] | None = None,
) -> BestWeight:
    """Choose the weight of a fusion by k-fold cross-validation (Graph-RoBERTa, section 3.3).

    For each fold the weight is taken that is best on the queries of all others, and the queries of the fold are fused
    with it; so no query has a say in its own weight. Of several equally good weights the first is taken.

    Args:
        words: scores of the ranking by words, by query id and document id.
        vectors: scores of the ranking by vectors, the same; a query that either lacks has an empty ranking there.
        qrels: grades by query id and document id; queries without a positive are left out.
        fuse: makes the fused scores of one query from those of both rankings and a weight.
        measure: the measure whose mean is to be greatest.
        weights: what is tried.
        folds: number of folds, of as equal size as can be.
        seed: draws the folds.
        own: documents taken out first, by query id (see :func:`~graphdoc.evaluation.ranking.score_run`).

    Raises:
        EvaluationError: there are fewer queries with a positive than folds, or no weights.
        MissingExtraError: ``ir_measures`` is not installed.
        SettingsError: the measure is unknown, or ``folds`` no whole number of at least 2.

    >>> words = {"q1": {"a": 1.0, "b": 0.0}, "q2": {"a": 0.0, "b": 1.0}}
    >>> vectors = {"q1": {"a": 0.0, "b": 1.0}, "q2": {"a": 1.0, "b": 0.0}}
    >>> def fuse(words, vectors, weight):
    ...     return {one: weight * words[one] + (1 - weight) * vectors[one] for one in words}
    >>> best_weight(words, vectors, {"q1": {"a": 1}, "q2": {"b": 1}}, fuse, folds=2).weight
    0.6
    """
    require_whole("folds", folds, least=2, may_be_none=False)
    if not weights:
        raise EvaluationError("there are no weights to choose from; give at least one")

    def fused(query: str, weight: float) -> dict[str, float]:
        own_words, own_vectors = dict(words.get(query, {})), dict(vectors.get(query, {}))
        return fuse(own_words, own_vectors, weight) if own_words or own_vectors else {}

    tried = [
        score_run({query: fused(query, weight) for query in qrels}, qrels, [measure], own=own) for weight in weights
    ]
    queries = tried[0].queries
    if len(queries) < folds:
        raise EvaluationError(
            f"there are {len(queries):,} queries with a positive for {folds} folds; give more queries, or fewer folds"
        )
    # (weights, queries)
    values = np.stack([one.values[:, 0] for one in tried])
    fold = folds_of(queries, folds, seed)
    chosen = [_best(values[:, fold != number]) for number in range(folds)]
    return BestWeight(
        weight=weights[_best(values)],
        fold_weights=tuple(weights[best] for best in chosen),
        folds=dict(zip(queries, fold.tolist(), strict=True)),
        run={query: fused(query, weights[chosen[fold[row]]]) for row, query in enumerate(queries)},
        measure=tried[0].measures[0],
        means=dict(zip(weights, values.mean(axis=1).tolist(), strict=True)),
    )


def _best(values: np.ndarray[Any, np.dtype[np.float64]]) -> int:
    """The first of the greatest means; sums that differ by rounding alone are equal."""
    means = values.mean(axis=1)
    return int(np.flatnonzero(means >= means.max() - 1e-12)[0])
