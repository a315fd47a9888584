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
    >>> list(Passing(iter("ab"), lambda: 1 // 0))
    ['a', 'b']
    """

    def __init__(self, items: Iterator[T], count: Callable[[], int | None]) -> None:
        self._items, self._count = items, count

    def __iter__(self) -> Iterator[T]:
        return self._items

    def __next__(self) -> T:
        return next(self._items)

    def count(self) -> int | None:
        """How many there will be; None where nobody knows. No length hint, which every list of them would ask for."""
        return self._count() or None


def number_of(items: Iterable[Any]) -> int | None:
    """How many items there are, for a bar; None where nobody knows before they have come."""
    return items.count() if isinstance(items, Passing) else length_hint(items) or None


def progress_bar(
    show: bool | None,
    total: int | Callable[[], int | None] | None = None,
    doing: str = "Encoding",
    unit: str = "documents",
    *,
    done: int = 0,
) -> tqdm[Any]:
    """Make a bar; ``show=None`` shows it on a terminal when the work is long.

    What an earlier run has ``done`` counts; where that is everything, no bar is shown. What takes long to count can be
    given as a function, which is called for a bar that is shown.

    >>> progress_bar(False, lambda: 1 // 0).close()
    """
    if callable(total):
        total = None if show is False or (show is None and not sys.stderr.isatty()) else total()
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
