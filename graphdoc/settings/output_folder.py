"""Where a run writes: a folder that is named, and that no corpus reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

# What a run or a prepared corpus leaves that readers of documents take for documents.
_READABLE = ("README.md", "config.json", "log.jsonl", "manifest.json", "merges.txt", "projection.csv")
_WILD = re.compile(r"[*?\[]")


def output_folder(output: str) -> Path:
    """The folder that a setting names, with the home folder for ``~``; ``~name`` of nobody is a name like others."""
    try:
        return Path(output).expanduser()
    except RuntimeError:
        return Path(output)


def place_among_documents(folder: Path, sources: Iterable[str]) -> str | None:
    """The source of documents that would read what is written into a folder, None if there is none.

    Args:
        folder: where something is written.
        sources: where documents are read: paths and patterns.
    """
    for source in sources:
        try:
            if _reads(source, folder):
                return source
        except (OSError, RuntimeError):
            # Whoever reads or writes there says better what is wrong, such as a link that leads to itself.
            continue
    return None


def _reads(source: str, folder: Path) -> bool:
    """Whether a source of documents holds the files of a folder."""
    path = Path(source).expanduser()
    if path.is_dir():
        inner = folder.resolve()
        if not inner.is_relative_to(path.resolve()):
            return False
        # Readers pass over what is hidden.
        return not any(part.startswith(".") for part in inner.relative_to(path.resolve()).parts)
    if "**" not in path.parts:
        return False
    fixed = path.parts[: next(number for number, part in enumerate(path.parts) if _WILD.search(part))]
    is_inside = folder.resolve().is_relative_to(Path(*fixed).resolve())
    return is_inside and any(fnmatch(name, path.name) for name in _READABLE)
