"""Measures of a similarity on pairs that belong together and others, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from ..errors import EvaluationError
from ..runtime.arrays import Floats
from .resampling import RESAMPLES, Estimate, resampled

Criterion = Literal["f1", "accuracy"]

METRICS = ("precision", "recall", "f1", "accuracy", "auc", "average_precision")
# Numbers that differ by less, in proportion to the largest, are the same but for rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class PairScores:
    """Measures of a similarity on pairs of two labels.

    Args:
        pairs: number of pairs.
        similar: number of those with label 1.
        threshold: pairs of at least this similarity are taken for similar.
        estimates: the metrics of ``METRICS``; without AUC and average precision where not both labels occur.
    """

    pairs: int
    similar: int
    threshold: float
    estimates: Mapping[str, Estimate]

    @property
    def values(self) -> dict[str, float | None]:
        """Every metric of ``METRICS``; None for one that has no value."""
        return {name: self.estimates[name].value if name in self.estimates else None for name in METRICS}

    def to_dict(self) -> dict[str, Any]:
        """Everything but the resamples as plain values for JSON."""
        intervals = {name: self.estimates[name].interval if name in self.estimates else None for name in METRICS}
        return {
            "pairs": self.pairs,
            "similar": self.similar,
            "threshold": self.threshold,
            **self.values,
            "intervals": {name: ends and list(ends) for name, ends in intervals.items()},
        }


def best_threshold(labels: npt.ArrayLike, similarities: npt.ArrayLike, by: Criterion = "f1") -> float:
    """The threshold that separates pairs, ``(pairs,)``, of label 1 from those of 0 best, halfway between similarities.

    ``by`` is what is to be greatest; of several equal ones the highest threshold that takes any pair is taken.

    >>> best_threshold([1, 1, 0], [0.9, 0.75, 0.25])
    0.5
    """
    truth, scores = _checked(labels, similarities)
    order, ends = _ranked(scores)
    ordered, hits, taken = scores[order], truth[order].cumsum()[ends], ends + 1
    f1 = 2 * hits / (taken + truth.sum())
    worth = f1 if by == "f1" else (2 * hits - taken + (truth == 0).sum()) / len(truth)
    best = int(worth.argmax())
    if by == "accuracy" and (truth == 0).mean() > worth[best]:
        return float(np.nextafter(ordered[0], np.inf))
    last = ordered[ends[best]]
    if best == len(ends) - 1:
        return float(last)
    middle = (last + ordered[ends[best] + 1]) / 2
    # Between neighbouring numbers there is no middle.
    return float(middle if middle > ordered[ends[best] + 1] else last)


def pair_auc(labels: npt.ArrayLike, similarities: npt.ArrayLike) -> float:
    """Area under the ROC curve: how often a pair of label 1 is more similar than one of label 0; ties count half.

    Both are ``(pairs,)``, and both labels occur.

    >>> pair_auc([1, 1, 0, 0], [0.9, 0.4, 0.6, 0.2])
    0.75
    """
    return float(roc_auc_score(labels, similarities))


def score_pairs(
    labels: npt.ArrayLike, similarities: npt.ArrayLike, threshold: float, *, resamples: int = RESAMPLES, seed: int = 0
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
        seed: draws them.

    >>> scores = score_pairs([1, 0, 1], [0.9, 0.6, 0.4], threshold=0.5, resamples=0)
    >>> scores.values["auc"]
    0.5
    """
    truth, scores = _checked(labels, similarities)
    order, ends = _ranked(scores)
    taken, truth_in_order = int((scores >= threshold).sum()), truth[order]

    def metrics(counts: npt.NDArray[np.int64]) -> list[float]:
        """The metrics of ``METRICS`` by how often every pair occurs, in the order of falling similarity."""
        hits = np.append(0, (counts * truth_in_order).cumsum())
        false = np.append(0, counts.cumsum()) - hits
        similar, others, right, wrong = hits[-1], false[-1], hits[taken], false[taken]
        # Where equal similarities end, and at nothing.
        steps = np.append(0, ends + 1)
        x, y = false[steps], hits[steps]
        with np.errstate(invalid="ignore", divide="ignore"):
            return [
                right / max(right + wrong, 1),
                right / max(similar, 1),
                2 * right / max(similar + right + wrong, 1),
                (right + others - wrong) / len(truth),
                np.trapezoid(y, x) / (similar * others),
                np.nansum(np.diff(y) * y[1:] / (x + y)[1:]) / (similar if others else np.nan),
            ]

    values = metrics(np.ones(len(truth), np.int64))
    samples = np.array([metrics(counts[order]) for counts in resampled(len(truth), resamples, seed)])
    estimates = {
        name: Estimate(float(value), samples[:, column] if resamples else None)
        for column, (name, value) in enumerate(zip(METRICS, values, strict=True))
        if np.isfinite(value)
    }
    return PairScores(len(truth), int(truth.sum()), float(threshold), estimates)


def _checked(labels: npt.ArrayLike, similarities: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], Floats]:
    truth, scores = np.asarray(labels, np.int64), np.asarray(similarities, np.float64)
    if not len(truth):
        raise EvaluationError("there are no pairs to measure; give at least one")
    if scores.shape != truth.shape:
        raise EvaluationError(f"there are {scores.size:,} similarities for {truth.size:,} pairs")
    if wrong := int((~np.isfinite(scores)).sum()):
        raise EvaluationError(f"{wrong:,} of {scores.size:,} similarities are NaN or infinite")
    return truth, scores


def _ranked(scores: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs by falling similarity, and the places in this order where equal similarities end."""
    order = np.argsort(-scores, kind="stable")
    return order, np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)


def standard_scores(values: Floats, reference: Floats | None = None) -> Floats:
    """Z-scores by the mean and deviation of other numbers, if any; 0 where these differ by no more than rounding."""
    reference = values if reference is None else reference
    deviation = float(reference.std())
    if deviation <= _ROUNDING * max(1.0, float(np.abs(reference).max(initial=0.0))):
        return np.zeros_like(values)
    return np.asarray((values - reference.mean()) / deviation, np.float64)
