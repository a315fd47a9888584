"""Widths of bars, in per cent of their track."""

from __future__ import annotations


def width(value: float | None, largest: float) -> float:
    """How much of its track a value fills: its size against the largest one, nothing for a missing one.

    >>> width(1.0, 4.0), width(-1.0, 4.0), width(None, 4.0)
    (25.0, 25.0, 0.0)
    """
    if value is None or not largest:
        return 0.0
    return round(100 * min(1.0, abs(value) / largest), 2)
