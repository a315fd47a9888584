"""Memory of LanceDB: what it reads ahead, and what is given back to the system once it is free."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

# Read ahead of those who wait for it; 2 GB where nothing is said, which maintenance fills.
_READ_AHEAD = 32 << 20


def limit_reading_ahead() -> None:
    """Bound what LanceDB reads ahead, unless its own variable says how much; it looks when it is imported."""
    os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", str(_READ_AHEAD))


@contextmanager
def free_memory_returned() -> Iterator[None]:
    """Give the system back what is free once some work is done.

    Arrow's own pool and the C library keep what they were once given. Tables of many sizes leave holes in it, so that
    an index of some hundred thousand passages holds half a gigabyte that nobody uses.
    """
    _pool.enter()
    try:
        yield
    finally:
        _pool.leave()
        _trim()(0)


class _SystemPool:
    """Arrow takes memory from the system while any thread is within; what was there before comes back after it."""

    def __init__(self) -> None:
        self._lock, self._within, self._before = Lock(), 0, pa.default_memory_pool()

    def enter(self) -> None:
        with self._lock:
            if not self._within:
                self._before = pa.default_memory_pool()
                pa.set_memory_pool(pa.system_memory_pool())
            self._within += 1

    def leave(self) -> None:
        with self._lock:
            self._within = max(0, self._within - 1)
            if not self._within:
                pa.set_memory_pool(self._before)

    def forget(self) -> None:
        """In a process that was forked, the threads that were within are not there."""
        self._lock = Lock()
        if self._within:
            self._within = 0
            pa.set_memory_pool(self._before)


_pool = _SystemPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


@cache
def _trim() -> Callable[[int], Any]:
    """What gives free memory back; only the GNU C library has it."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda _: None
