"""Quick imports of large libraries."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from typing import Any


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what makes hundreds of thousands of objects that stay, such as torch, while garbage collection rests."""
    # It would look through all of them again and again, which takes a fifth of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
            # Both together move all objects to the oldest generation, without a look at any.
            gc.freeze()
            gc.unfreeze()


def defer_package(name: str) -> None:
    """Let a package run its own first lines when it is first asked for something, not for a module below it."""
    if name in sys.modules or not (spec := find_spec(name)) or not (loader := spec.loader):
        return
    package = sys.modules[name] = module_from_spec(spec)

    def first_used(attribute: str) -> Any:
        del vars(package)["__getattr__"]
        loader.exec_module(package)
        return getattr(package, attribute)

    vars(package)["__getattr__"] = first_used
