"""How well a similarity separates pairs that belong together from pairs that do not, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    precision_recall_fscore_support,
    roc_auc_score,
)

from ..errors import EvaluationError
from .resampling import RESAMPLES, Estimate, Floats, resampled

Criterion = Literal["f1", "accuracy"]

METRICS = ("precision", "recall", "f1", "accuracy", "auc", "average_precision")
# Numbers that differ by less, in proportion to the largest, are the same but for rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class PairScores:
    """How well a similarity separates pairs of the two labels.

    Args:
        pairs: number of pairs.
        similar: number of those with label 1.
        threshold: pairs of at least this similarity are taken for similar.
        values: every metric of ``METRICS``; those of ranking are None where not both labels occur.
        samples: the metrics over bootstrap resamples, ``(resamples,)`` each; not a number where a resample has but one
            label.
    """

    pairs: int
    similar: int
    threshold: float
    values: Mapping[str, float | None]
    samples: Mapping[str, Floats] = field(default_factory=dict, repr=False)

    def interval(self, metric: str) -> tuple[float, float] | None:
        """The middle 95 % of a metric's resamples; None without resamples, or for a metric that has no value."""
        estimate = self.estimate(metric)
        return None if estimate is None else estimate.interval

    def estimate(self, metric: str) -> Estimate | None:
        """A metric with its interval; None for a metric that has no value."""
        value = self.values[metric]
        return None if value is None else Estimate(value, self.samples.get(metric))

    def ahead_of(self, other: PairScores) -> dict[str, Estimate]:
        """By how much it is ahead of other scores of the same pairs, by metric that both have a value of."""
        both = ((name, self.estimate(name), other.estimate(name)) for name in METRICS)
        return {name: mine - theirs for name, mine, theirs in both if mine is not None and theirs is not None}

    def to_dict(self) -> dict[str, Any]:
        """Everything but the resamples as plain values for JSON."""
        intervals = {name: self.interval(name) for name in METRICS}
        return {
            "pairs": self.pairs,
            "similar": self.similar,
            "threshold": self.threshold,
            **self.values,
            "intervals": {name: ends and list(ends) for name, ends in intervals.items()},
        }


def best_threshold(labels: Sequence[int], similarities: npt.ArrayLike, by: Criterion = "f1") -> float:
    """The threshold that separates some pairs best, halfway between two similarities.

    Args:
        labels: ``(pairs,)``, 1 for pairs that belong together, else 0.
        similarities: ``(pairs,)``.
        by: what is to be greatest, ``f1`` or ``accuracy``; of several equal ones the highest threshold that takes any
            pair is taken.

    Raises:
        EvaluationError: there are no pairs, or none of label 1; similarities are not as many, or no numbers.

    >>> best_threshold([1, 1, 0], [0.9, 0.75, 0.25])
    0.5
    """
    truth, scores = np.asarray(labels) == 1, np.asarray(similarities, np.float64)
    _require_numbers(truth, scores)
    if not truth.any():
        raise EvaluationError("no pair has the label 1, so that there is no best threshold; give pairs of both labels")
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    # Only where the next similarity is another one can a threshold lie.
    ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    hits = truth[order].cumsum()[ends]
    taken = ends + 1
    f1, accuracy = 2 * hits / (taken + truth.sum()), (2 * hits - taken + (~truth).sum()) / len(truth)
    worth = f1 if by == "f1" else accuracy
    best = int(worth.argmax())
    if by == "accuracy" and (~truth).mean() > worth[best]:
        return float(np.nextafter(ordered[0], np.inf))
    last = ordered[ends[best]]
    if best == len(ends) - 1:
        return float(last)
    middle = (last + ordered[ends[best] + 1]) / 2
    # Between neighbouring numbers there is no middle.
    return float(middle if middle > ordered[ends[best] + 1] else last)


def _require_numbers(labels: npt.NDArray[Any], similarities: Floats) -> None:
    if similarities.shape != labels.shape:
        raise EvaluationError(f"there are {similarities.size:,} similarities for {labels.size:,} pairs")
    if wrong := int((~np.isfinite(similarities)).sum()):
        raise EvaluationError(f"{wrong:,} of {similarities.size:,} similarities are NaN or infinite")


def standard_scores(values: Floats, reference: Floats | None = None) -> Floats:
    """Z-scores; 0 where numbers differ by no more than rounding.

    Args:
        values: ``(pairs,)``.
        reference: ``(other pairs,)``, numbers whose mean and deviation are taken; None for those of ``values``.
    """
    reference = values if reference is None else reference
    deviation = float(reference.std())
    if deviation <= _ROUNDING * max(1.0, float(np.abs(reference).max(initial=0.0))):
        return np.zeros_like(values)
    return np.asarray((values - reference.mean()) / deviation, np.float64)


def pair_auc(labels: npt.ArrayLike, similarities: npt.ArrayLike) -> float:
    """Area under the ROC curve: how often a pair of label 1 is more similar than one of label 0; ties count half.

    Args:
        labels: ``(pairs,)``, 0 and 1, both of which occur.
        similarities: ``(pairs,)``.

    >>> pair_auc([1, 1, 0, 0], [0.9, 0.4, 0.6, 0.2])
    0.75
    """
    return float(roc_auc_score(labels, similarities))


def score_pairs(
    labels: Sequence[int],
    similarities: npt.ArrayLike,
    threshold: float,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PairScores:
    """Measure how well a similarity separates pairs of the two labels.

    Resamples are drawn by pairs, with replacement; the threshold stays. The same seed draws the same pairs for every
    similarity of as many pairs, so that differences between two of them can be taken resample by resample. Pairs that
    share documents are not independent, which makes intervals a little too narrow.

    Args:
        labels: ``(pairs,)``, 1 for pairs that belong together, else 0.
        similarities: ``(pairs,)``.
        threshold: pairs of at least this similarity are taken for similar.
        resamples: number of bootstrap resamples; 0 for no intervals.
        seed: draws the resamples.

    Raises:
        EvaluationError: there are no pairs; similarities are not as many, or no numbers.

    >>> scores = score_pairs([1, 0, 1], [0.9, 0.6, 0.4], threshold=0.5, resamples=0)
    >>> scores.values["auc"]
    0.5
    """
    truth, scores = np.asarray(labels, np.int64), np.asarray(similarities, np.float64)
    if not len(truth):
        raise EvaluationError("there are no pairs to measure; give at least one")
    _require_numbers(truth, scores)
    predicted = scores >= threshold
    precision, recall, f1, _ = precision_recall_fscore_support(truth, predicted, average="binary", zero_division=0.0)
    both = 0 < truth.sum() < len(truth)
    values = {
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
        "accuracy": float(accuracy_score(truth, predicted)),
        "auc": pair_auc(truth, scores) if both else None,
        "average_precision": float(average_precision_score(truth, scores)) if both else None,
    }
    samples = _resampled(truth, scores, threshold, resamples, seed) if resamples else {}
    return PairScores(len(truth), int(truth.sum()), float(threshold), values, samples)


def _resampled(
    truth: npt.NDArray[np.int64], scores: Floats, threshold: float, resamples: int, seed: int
) -> dict[str, Floats]:
    """All metrics of every resample: pairs are sorted once, and counted as often as they were drawn."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    taken = int((ordered >= threshold).sum())
    result = {name: np.empty(resamples) for name in METRICS}
    with np.errstate(invalid="ignore", divide="ignore"):
        for number, drawn in enumerate(resampled(len(truth), resamples, seed)):
            weights = drawn[order]
            hits = np.append(0, (weights * truth[order]).cumsum())
            false = np.append(0, weights.cumsum()) - hits
            similar, others = hits[-1], false[-1]
            right = hits[taken] + others - false[taken]
            # Where equal similarities end, and at nothing.
            steps = np.append(0, ends + 1)
            x, y = false[steps], hits[steps]
            for name, value in {
                "precision": hits[taken] / max(hits[taken] + false[taken], 1),
                "recall": hits[taken] / max(similar, 1),
                "f1": 2 * hits[taken] / max(similar + hits[taken] + false[taken], 1),
                "accuracy": right / len(truth),
                "auc": np.trapezoid(y, x) / (similar * others),
                "average_precision": np.nansum(np.diff(y) * y[1:] / (x + y)[1:]) / (similar if others else np.nan),
            }.items():
                result[name][number] = value
    return result
