"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
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
    assert {"graphdoc.encoder", "graphdoc.losses.info_nce", "graphdoc.documents.document"} <= set(
        modules_with_examples()
    )


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_give_what_they_show(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
