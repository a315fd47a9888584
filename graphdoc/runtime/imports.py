"""Importing large libraries without waiting for more than their own code."""

from __future__ import annotations

import gc
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Names with underscores that users of a package ask for; the others are those of the import system.
_PUBLIC = ("__all__", "__version__")


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
        name: the package, of the first level; nothing happens if there is none, or it has been imported.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, importlib.util.module_from_spec(spec)
    # A thread that asks meanwhile waits until the package is whole; its own lines see what they have made so far.
    lock = threading.RLock()
    is_running = is_whole = False

    def complete(attribute: str) -> Any:
        nonlocal is_running, is_whole
        with lock:
            is_internal = attribute.startswith("__") and attribute not in _PUBLIC
            if not is_internal and not is_whole and not is_running:
                is_running = True
                try:
                    loader.exec_module(package)
                    is_whole = True
                finally:
                    is_running = False
                if attribute in vars(package):
                    return vars(package)[attribute]
            elif attribute in vars(package):
                return vars(package)[attribute]
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

    vars(package)["__getattr__"] = complete
    sys.modules[name] = package
