"""Imports without the garbage collector, which is afterwards as it was before, and without what nobody asked for."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

import pytest

from graphdoc.runtime.imports import defer_package, quick_imports


def test_the_collector_rests_and_goes_on() -> None:
    assert gc.isenabled()
    with pytest.raises(ImportError), quick_imports():
        assert not gc.isenabled()
        with quick_imports():
            assert not gc.isenabled()
        assert not gc.isenabled()
        import no_such_module  # noqa: F401
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_package_is_run_when_something_in_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package_of_much"
    package.mkdir()
    (package / "__init__.py").write_text("import package_of_much.large as large\nvalue = large.value\n")
    (package / "large.py").write_text("value = 3\n")
    (package / "small.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("package_of_much", "package_of_much.small", "package_of_much.large")
    try:
        defer_package("package_of_much")
        assert importlib.import_module("package_of_much.small").value == 1
        assert "package_of_much.large" not in sys.modules
        found = importlib.import_module("package_of_much")
        assert not hasattr(found, "__wrapped__") and "package_of_much.large" not in sys.modules
        assert found.value == 3 and "package_of_much.large" in sys.modules
        with pytest.raises(AttributeError):
            found.nothing  # noqa: B018
        # What is there already stays as it is.
        defer_package("package_of_much")
        assert importlib.import_module("package_of_much") is found
    finally:
        for name in names:
            sys.modules.pop(name, None)


def test_no_package_is_no_error() -> None:
    defer_package("no_such_package")
    assert "no_such_package" not in sys.modules
