"""Where a run writes: a folder that is named, and that no corpus reads."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from .corpus import CorpusSettings

# What a run or a prepared corpus leaves that readers of documents take for documents.
_READABLE = ("README.md", "config.json", "log.jsonl", "manifest.json", "merges.txt", "projection.csv")
_WILD = re.compile(r"[*?\[]")


def output_folder(output: str) -> Path:
    """The folder that a setting names, with the home folder for ``~``; ``~name`` of nobody is a name like others."""
    try:
        return Path(output).expanduser()
    except RuntimeError:
        return Path(output)


def require_usable_output(output: str, corpus: CorpusSettings) -> None:
    """Refuse an output that is no name, or that would be read as documents.

    Args:
        output: the setting.
        corpus: where documents are read.

    Raises:
        ValueError: the output is blank, or it or the folder of prepared corpora lies among the documents.
    """
    if not output.strip():
        raise ValueError(f"output={output!r} is no name of a folder; give one")
    for name, folder, way_out in (
        ("output", output_folder(output), "choose an output elsewhere"),
        ("corpus.cache", corpus.corpora_folder, "choose a corpus.cache elsewhere"),
    ):
        for source in corpus.sources:
            try:
                is_read = _reads(source, folder)
            except (OSError, RuntimeError):
                # Whoever reads or writes there says better what is wrong, such as a link that leads to itself.
                continue
            if is_read:
                raise ValueError(
                    f"{name}={folder} lies in corpus.source={source}, so that what is written there would be read as "
                    f"documents; {way_out}, or name the documents more closely"
                )


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
