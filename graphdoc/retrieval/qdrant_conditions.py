"""Conditions over rows as Qdrant writes them; one that holds for every row, or for none, is a truth value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Filter = dict[str, Any]
"""A filter as Qdrant's REST interface writes it."""
Condition = Filter | bool
"""What rows have to meet; True where all do, False where none does."""


def present(column: str) -> Filter:
    """Rows that have something in a column."""
    return {"must_not": [{"is_empty": {"key": column}}]}


def every(parts: Iterable[Condition]) -> Condition:
    """What holds where all of several conditions hold."""
    kept = [part for part in parts if part is not True]
    if any(part is False for part in kept):
        return False
    return {"must": kept} if kept else True


def some(parts: Iterable[Condition]) -> Condition:
    """What holds where at least one of several conditions holds."""
    kept = [part for part in parts if part is not False]
    if any(part is True for part in kept):
        return True
    return {"should": kept} if kept else False
