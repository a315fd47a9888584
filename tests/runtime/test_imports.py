"""Imports without the garbage collector, which is afterwards as it was before, and without what nobody asked for."""

from __future__ import annotations

import gc
import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
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


def test_what_asks_for_all_gets_all_and_threads_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_package").mkdir()
    lines = ["import time", "first = 1", "time.sleep(.2)", "last = 2", "__version__ = '7'"]
    (tmp_path / "slow_package" / "__init__.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    try:
        defer_package("slow_package")
        package = sys.modules["slow_package"]
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda name: getattr(package, name), ["first", "last", "first", "last"]))
        assert found == [1, 2, 1, 2] and package.__version__ == "7"
        sys.modules.pop("slow_package")
        defer_package("slow_package")
        names: dict[str, object] = {}
        exec("from slow_package import *", names)
        assert names["last"] == 2
    finally:
        sys.modules.pop("slow_package", None)


def test_a_package_that_fails_says_so_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "__init__.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        defer_package("broken_package")
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError):
                sys.modules["broken_package"].anything  # noqa: B018
    finally:
        sys.modules.pop("broken_package", None)
