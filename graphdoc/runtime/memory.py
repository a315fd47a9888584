"""Memory: how much is free, giving it back to the system, and quick imports of large libraries."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _trim() -> Callable[[int], Any] | None:
    """``malloc_trim`` of the GNU C library, None elsewhere."""
    try:
        return ctypes.CDLL(None).malloc_trim if sys.platform.startswith("linux") else None
    except (OSError, AttributeError):
        return None


def give_back_memory() -> None:
    """Give freed memory back to the system, where the C library is asked to.

    Tensors whose sizes never repeat, as batches of documents have them, leave holes in its heap: encoding 1,000 short
    documents left about 50 MB behind, and the next 1,000 as much again.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


def free_memory() -> int | None:
    """Bytes that this process may still take without the system ending it; None where the system does not say."""
    free = [*_available(Path("/proc/meminfo")), *_left_in_group(Path("/sys/fs/cgroup"))]
    return min(free, default=None)


def _available(path: Path) -> list[int]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        return [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        return []


def _left_in_group(folder: Path) -> list[int]:
    """What a container may still take: its limit, without what it has taken apart from files kept in memory."""
    try:
        limit, taken = (int((folder / f"memory.{name}").read_text()) for name in ("max", "current"))
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return [max(0, limit - taken + int(counts["inactive_file"]))]
    except (OSError, ValueError, KeyError):
        return []


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what makes hundreds of thousands of objects that stay, such as torch and transformers.

    The garbage collector would look through all of them again and again, which takes a fifth of the time; it rests
    meanwhile, and then counts them among what has stayed for long.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        # Both together move all objects to the oldest generation, without a look at any.
        gc.freeze()
        gc.unfreeze()
