"""Progress bars of long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from operator import length_hint
from typing import Any, Generic, TypeVar

from tqdm.auto import tqdm

T = TypeVar("T")


class Passing(Generic[T]):
    """Items as they come, and how many there will be, which is asked for where a bar is shown.

    >>> number_of(Passing(iter("ab"), lambda: 2))
    2
    """

    def __init__(self, items: Iterator[T], count: Callable[[], int | None]) -> None:
        self._items, self._count = items, count

    def __iter__(self) -> Iterator[T]:
        return self._items

    def __next__(self) -> T:
        return next(self._items)

    def __length_hint__(self) -> int:
        return self._count() or 0


def number_of(items: Iterable[Any]) -> int | None:
    """How many items there are, for a bar; None where nobody knows before they have come."""
    return length_hint(items) or None


def progress_bar(
    show: bool | None, total: int | None = None, doing: str = "Encoding", unit: str = "documents", *, done: int = 0
) -> tqdm[Any]:
    """Make a bar; ``show=None`` shows it on a terminal when the work is long.

    What an earlier run has ``done`` counts; where that is everything, no bar is shown.
    """
    hidden = show is False or (done > 0 and done == total) or (show is None and not sys.stderr.isatty())
    delay = 0.5 if show is None else 0
    # It is drawn by time alone: one long document is hours of no document done.
    return tqdm(total=total, initial=done, desc=doing, unit=f" {unit}", disable=hidden, delay=delay, miniters=0)


class PartProgress:
    """Advances a bar of documents by the parts of some that are worked on together, and says how many are done.

    Args:
        bar: the bar; None shows none.
        documents: number of documents.
        parts: number of their parts.
        noun: what a part is, such as ``sentences``.
    """

    def __init__(self, bar: tqdm[Any] | None, documents: int, parts: int, noun: str) -> None:
        self._bar, self._documents, self._parts, self._noun = bar, documents, parts, noun
        self._done = self._shown = 0

    def __call__(self, parts: int) -> None:
        """Advance by some parts."""
        self._done += parts
        if self._bar is None:
            return
        text = f"{self._done:,} of {self._parts:,} {self._noun}" if self._done < self._parts else ""
        self._bar.set_postfix_str(text, refresh=False)
        whole = self._documents * self._done // self._parts
        self._bar.update(whole - self._shown)
        self._shown = whole
