"""Importing large libraries without waiting for more than their own code."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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


def defer_package(name: str) -> None:
    """Let a package run its own first lines when something in it is asked for, not when a module below it is imported.

    For packages that import all that they have, where another library needs a part.

    Args:
        name: the package; nothing happens if there is none, or it has been imported.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, importlib.util.module_from_spec(spec)

    def complete(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        vars(package).pop("__getattr__", None)
        loader.exec_module(package)
        return getattr(package, attribute)

    vars(package)["__getattr__"] = complete
    sys.modules[name] = package
