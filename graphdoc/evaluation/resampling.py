"""Bootstrap resamples with the intervals that they give, and folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..runtime.arrays import Floats

Verdict = Literal["better", "worse", "no difference"]

CONFIDENCE = 0.95
RESAMPLES = 1000


@dataclass(frozen=True, eq=False, slots=True)
class Estimate:
    """A value with its bootstrap resamples, which one seed draws alike for as many documents, pairs or queries.

    So the difference of two estimates is paired: it is taken resample by resample.

    Args:
        value: the value.
        samples: the same over resamples, ``(resamples,)``, NaN where it has no value; None without resamples.
    """

    value: float
    samples: Floats | None = field(default=None, repr=False)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The middle 95 % of the resamples; None without any."""
        if self.samples is None or not np.isfinite(self.samples).any():
            return None
        low, high = np.nanquantile(self.samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return float(low), float(high)

    def __sub__(self, other: Estimate) -> Estimate:
        samples = None if self.samples is None or other.samples is None else self.samples - other.samples
        return Estimate(self.value - other.value, samples)

    @property
    def verdict(self) -> Verdict:
        """Verdict on a difference: better or worse where its whole interval is above or below 0.

        >>> Estimate(0.02, np.array([0.01, 0.03])).verdict, Estimate(0.02, np.array([-0.01, 0.05])).verdict
        ('better', 'no difference')
        """
        low, high = self.interval or (0.0, 0.0)
        return "better" if low > 0 else "worse" if high < 0 else "no difference"

    def to_dict(self) -> dict[str, Any]:
        """Value and interval as plain values for JSON."""
        return {"value": self.value, "interval": self.interval and list(self.interval)}


def resampled(rows: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Draw rows with replacement, again and again, alike with one seed: how often each was drawn, ``(rows,)``."""
    draw = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(draw.integers(rows, size=rows), minlength=rows)


def resampled_means(values: Floats, resamples: int, seed: int) -> Floats:
    """Means of resamples of the rows of ``(rows, ...)``: ``(resamples, ...)``."""
    count, flat = len(values), values.reshape(len(values), -1)
    means = [weights @ flat / count for weights in resampled(count, resamples, seed)]
    return np.array(means).reshape(resamples, *values.shape[1:])


def mean_estimate(values: npt.ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """The mean of one value a document or query, ``(rows,)``, with its resamples."""
    rows = np.asarray(values, np.float64)
    return Estimate(float(rows.mean()), resampled_means(rows, resamples, seed) if resamples else None)


def folds_of(ids: Sequence[str], folds: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Draw folds of as equal size as can be, whatever the order of the ids: ``(ids,)``, numbers from 0.

    >>> folds_of(["a", "b", "c", "d"], 2).tolist()
    [1, 0, 0, 1]
    """
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
    result = np.empty(len(ids), np.int64)
    result[np.random.default_rng(seed).permutation(order)] = np.arange(len(ids)) % folds
    return result
