"""Bootstrap resamples and the intervals that they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with what resampling says of it.

    Args:
        value: the value.
        interval: the middle 95 % of its resamples; None without resamples.
    """

    value: float
    interval: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {"value": self.value, "interval": self.interval and list(self.interval)}


def interval(samples: Floats | None) -> tuple[float, float] | None:
    """The middle 95 % of some values, None if there are none that are numbers."""
    if samples is None or not np.isfinite(samples).any():
        return None
    ends = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(samples, [ends, 1 - ends])
    return float(low), float(high)


def resampled(rows: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Draw rows with replacement, again and again.

    Args:
        rows: number of rows.
        resamples: number of resamples.
        seed: draws the rows; the same ones for as many rows, so that differences can be taken resample by resample.

    Yields:
        How often each row was drawn, ``(rows,)``.
    """
    draw = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(draw.integers(rows, size=rows), minlength=rows)


def resampled_means(values: Floats, resamples: int, seed: int) -> Floats:
    """Means of rows that are drawn with replacement.

    Args:
        values: ``(rows, ...)``.
        resamples: number of resamples.
        seed: draws the rows.

    Returns:
        ``(resamples, ...)``.
    """
    count, flat = len(values), values.reshape(len(values), -1)
    means = [weights @ flat / count for weights in resampled(count, resamples, seed)]
    return np.array(means).reshape(resamples, *values.shape[1:])
