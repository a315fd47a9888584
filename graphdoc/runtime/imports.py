"""Importing large libraries without waiting for more than their own code."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
