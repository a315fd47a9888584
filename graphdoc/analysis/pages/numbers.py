"""Numbers as pages and figures write them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def finite(value: Any) -> float | None:
    """Return a number, or ``None`` for a missing value."""
    return float(value) if value is not None and math.isfinite(value) else None


def number(value: float | None, decimals: int = 3) -> str:
    """Return a number as text, with a true minus sign, which what rounds to zero has not."""
    return "no value" if value is None else f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def percent(share: float | None) -> str:
    """Return a share in per cent, with as many decimals as its size asks for; nothing for a missing one."""
    if share is None:
        return ""
    size = abs(100 * share)
    return f"{number(100 * share, 0 if size >= 10 else 1 if size >= 1 else 2)} %"


def decimals(values: Iterable[float], significant: int = 4) -> int:
    """Return how many decimals a column needs for its largest number to have so many significant digits.

    >>> decimals([0.0325, 0.0164]), decimals([31.2, 0.5]), decimals([])
    (5, 2, 3)
    """
    largest = max(map(abs, values), default=0.0)
    return max(0, min(6, significant - 1 - math.floor(math.log10(largest)))) if largest else significant - 1
