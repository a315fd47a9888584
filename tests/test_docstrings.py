"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import graphdoc

FOLDER = Path(graphdoc.__file__).parent


def modules_with_examples() -> list[str]:
    files = {
        module.name: FOLDER.parent / (module.name.replace(".", "/") + ".py")
        for module in pkgutil.walk_packages([str(FOLDER)], "graphdoc.")
        if not module.ispkg
    }
    return sorted(name for name, path in files.items() if ">>>" in path.read_text(encoding="utf-8"))


def test_examples_are_found() -> None:
    assert {"graphdoc.encoder", "graphdoc.losses.contrastive", "graphdoc.documents.document"} <= set(
        modules_with_examples()
    )


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_give_what_they_show(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def public_functions() -> list[str]:
    """The functions that packages offer by name, ``module:name``."""
    below = [module.name for module in pkgutil.walk_packages([str(FOLDER)], "graphdoc.") if module.ispkg]
    packages = [importlib.import_module(name) for name in ("graphdoc", *below)]
    return sorted(
        {
            f"{found.__module__}:{found.__name__}"
            for package in packages
            for name in getattr(package, "__all__", ())
            if inspect.isfunction(found := getattr(package, name))
        }
    )


def test_public_functions_have_examples() -> None:
    for name in public_functions():
        module, _, function = name.partition(":")
        assert ">>>" in (getattr(importlib.import_module(module), function).__doc__ or ""), name
