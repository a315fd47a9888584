"""How large the package is, beside the budgets of its design.

``python benchmarks/size.py``

Lines count docstrings and comments. Options count once for every command that has them, settings once where they are
declared, and tests as pytest collects them.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from reporting import ROOT

PACKAGE = ROOT / "graphdoc"
PAGES = (".js", ".css", ".html")
# Lines and files at most, by the folder of a room; a room that is not named is new.
ROOMS = {
    "documents": (8_700, 45), "segmentation": (1_250, 5), "graphs": (1_100, 5), "modeling": (1_950, 9),
    "losses": (1_000, 6), "sampling": (1_300, 7), "training": (2_000, 8), "recipes": (3_000, 10),
    "settings": (1_600, 7), "corpus": (1_150, 5), "checkpoints": (950, 5), "inference": (1_700, 8),
    "similarity": (1_650, 6), "matching and subtopics": (1_350, 6), "runtime": (750, 6), "retrieval": (3_000, 12),
    "evaluation": (2_900, 14), "commands": (3_300, 18), "analysis": (5_600, 50), "vectors": (850, 4),
    "overview": (650, 4), "integrations": (450, 4), "prediction": (500, 2), "serving": (280, 2),
    "encoder, registry, errors, ...": (600, 4),
}  # fmt: skip
# Budgets that the room named here shares.
VIEWS = "matching and subtopics"
OF_ANOTHER_ROOM = {"cli.py": "commands", "matching": VIEWS, "subtopics": VIEWS, "trainer.py": "recipes"}
ALONE = "encoder, registry, errors, ..."


def lines(files: Iterable[Path]) -> int:
    """Lines of some files."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def python_files(folder: Path) -> list[Path]:
    """The modules below a folder."""
    return sorted(folder.rglob("*.py"))


def rooms() -> dict[str, tuple[int, int]]:
    """Lines and files of every room of the package, with the scripts, styles and templates of its pages."""
    files: dict[str, list[Path]] = {}
    for file in (file for file in PACKAGE.rglob("*") if file.suffix in (".py", *PAGES)):
        parts = file.relative_to(PACKAGE).parts
        own = parts[0] if len(parts) > 1 else ALONE
        room = OF_ANOTHER_ROOM.get(parts[0], own)
        files.setdefault(room, []).append(file)
    return {room: (lines(found), len(found)) for room, found in files.items()}


def collected_tests() -> int:
    """Test cases that pytest collects."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return sum("::" in line for line in run.stdout.splitlines())


def commands_and_options() -> tuple[int, int]:
    """Commands, where those of a group are one, and the options over all of them."""
    from graphdoc.cli import COMMANDS, build_app

    options = 0
    for words in COMMANDS:
        app = build_app()
        for word in words.split():
            app = app[word]
        options += sum(one.parse and one.names[0].startswith("--") for one in app.assemble_argument_collection())
    return len({words.partition(" ")[0] for words in COMMANDS}), options


def settings_fields() -> int:
    """Fields that settings declare, each where it is declared."""
    import graphdoc.settings
    from graphdoc.settings.base import Settings

    for module in pkgutil.iter_modules(graphdoc.settings.__path__):
        importlib.import_module(f"graphdoc.settings.{module.name}")
    count = 0
    for kind in set(_below(Settings)):
        inherited = {name for base in kind.__mro__[1:] for name in getattr(base, "model_fields", ())}
        declared = {*kind.__annotations__, *(kind.model_fields.keys() - inherited)}
        count += len(declared & kind.model_fields.keys())
    return count


def _below(kind: type) -> Iterator[type]:
    for part in kind.__subclasses__():
        yield part
        yield from _below(part)


def row(name: str, today: int, most: int | None) -> str:
    """A line of the table; what is above its budget is marked."""
    budget = "-" if most is None else f"{most:,}"
    return f"{name:<42}{today:>9,}{budget:>9}{'  *' if most is not None and today > most else ''}"


def main() -> None:
    """Print the table."""
    print(f"{'':<42}{'today':>9}{'budget':>9}\n")
    for name, (size, files) in sorted(rooms().items()):
        most = ROOMS.get(name, (None, None))
        print(row(f"{name}: lines", size, most[0]))
        print(row(f"{name}: files", files, most[1]))
    package = python_files(PACKAGE)
    print(row("graphdoc: lines of Python", lines(package), 50_000))
    print(row("graphdoc: files of Python", len(package), 260))
    pages = [file for file in PACKAGE.rglob("*") if file.suffix in PAGES]
    print(row("scripts, styles, templates of pages: lines", lines(pages), 3_600))
    print(row("tests: lines", lines(python_files(ROOT / "tests")), 28_000))
    print(row("tests: cases", collected_tests(), 3_200))
    print(row("benchmarks: lines", lines(python_files(ROOT / "benchmarks")), 5_500))
    docs = sorted((ROOT / "docs").glob("*.md"))
    print(row("docs: words", sum(len(file.read_text(encoding="utf-8").split()) for file in docs), 25_000))
    print(row("docs: pages", len(docs), 14))
    commands, options = commands_and_options()
    print(row("commands", commands, 15))
    print(row("options over all commands", options, 240))
    print(row("settings fields", settings_fields(), 180), flush=True)
    if (entered := ROOT / "benchmarks" / "entered_files.py").exists():
        print("\nfiles entered (budgets: encoding two texts 18, a training step 12, a query 20)")
        subprocess.run([sys.executable, str(entered)], cwd=ROOT, check=False)


if __name__ == "__main__":
    main()
