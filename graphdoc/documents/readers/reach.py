"""Which places a source of documents reaches: what is written there would be read as documents."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..parsing.formats import split_suffix
from .folders import matches, split_pattern

# What runs, indexes, folders of vectors and commands leave in a folder that readers of documents take for documents.
_LEFT_IN_FOLDERS = (
    *("README.md", "config.json", "log.jsonl", "manifest.json", "merges.txt", "projection.csv", "qrels.tsv"),
    *("shard-00000.parquet", "001.html"),
)


def source_reaching(place: str | Path, sources: Iterable[str], *, is_folder: bool) -> str | None:
    """The source of documents that would read what is written to a place, None if there is none.

    A folder or pattern reads what has a known suffix and is not hidden, in whatever depth.

    Args:
        place: a file that is written, or a folder that files are written to.
        sources: where documents are read: files, ``corpus.jsonl#ID``, folders and patterns.
        is_folder: whether the place is a folder.
    """
    for source in sources:
        try:
            if _reaches(source, Path(place), is_folder):
                return source
        except (OSError, RuntimeError, ValueError):
            # Whoever reads or writes there says better what is wrong, such as a link that leads to itself.
            continue
    return None


def _reaches(source: str, place: Path, is_folder: bool) -> bool:
    path, inner = Path(source).expanduser(), place.resolve()
    if not path.exists():
        # One document of a corpus.
        file = Path(str(path).partition("#")[0])
        path = file if file.is_file() else path
    root, pattern = split_pattern(str(path))
    if not pattern and not root.is_dir():
        return not is_folder and root.resolve() == inner
    names = _LEFT_IN_FOLDERS if is_folder else ("",)
    # Readers follow links to folders: a place may be reached by its name where it really lies elsewhere.
    for at, top in ((inner, root.resolve()), (place.absolute(), root.absolute())):
        parts = at.relative_to(top).parts if at.is_relative_to(top) else (".elsewhere",)
        # What is hidden is passed over.
        is_hidden = any(part.startswith(".") and part != ".." for part in parts)
        if not is_hidden and any(_is_read((*parts, name) if name else parts, pattern) for name in names):
            return True
    return False


def _is_read(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a folder or a pattern reads a file at a place below its first folder."""
    if not parts or not split_suffix(Path(parts[-1]))[1]:
        return False
    # What leads up again may lead anywhere.
    return not pattern or matches(parts, ("**", pattern[-1]) if ".." in pattern else pattern)
