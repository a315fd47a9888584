"""Scripts of benchmarks/, pretrain/ and finetune/: what they take from the package is there."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path for folder in ("benchmarks", "pretrain", "finetune") for path in (ROOT / folder).glob("*.py"))


def taken(path: Path) -> Iterator[tuple[str, str]]:
    """Every module of the package that a script imports from, with the name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "graphdoc":
            yield from ((node.module, one.name) for one in node.names)


def test_there_are_scripts_of_all_kinds() -> None:
    assert {path.parent.name for path in SCRIPTS} == {"benchmarks", "pretrain", "finetune"}
    assert sum(1 for path in SCRIPTS for _ in taken(path)) > 100


def test_what_scripts_import_is_there() -> None:
    for path in SCRIPTS:
        for module, name in taken(path):
            there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
            assert there, f"{path.name}: {module} has no {name}"
