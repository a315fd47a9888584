"""Folders and glob patterns: which files they mean, in which order, the ids those files get, and what they reach."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import DocumentError
from ..parsing.formats import KNOWN_SUFFIXES, is_corpus, reading_error, split_suffix
from .records import Skipped

_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read.

    Args:
        path: where it is.
        id: id of the document in it, if it holds one.
        folder: name of the outermost folder that it lies in, below the one that is read; None if it lies in none.
    """

    path: Path
    id: str
    folder: str | None = None


def is_pattern(source: str) -> bool:
    """Whether a path has wildcards in it."""
    return _MAGIC.search(source) is not None


def is_folder_or_pattern(source: str) -> bool:
    """Whether a source stands for the files that are found in it."""
    path = Path(source)
    try:
        return path.is_dir() or (not path.exists() and is_pattern(source))
    except (OSError, ValueError):
        return False


def location_of(path: Path) -> str:
    """Where a file lies, by whatever name its folder is reached; a link to a file is a file of its own."""
    folder = str(path.parent)
    # Whoever reads there says better what is wrong with a name.
    with suppress(OSError, ValueError):
        folder = os.path.realpath(folder)
    return f"{folder}{os.sep}{path.name}"


def find_files(source: str) -> Iterator[FoundFile | Skipped]:
    """Find the files that a folder or a glob pattern means, sorted by path, and what is passed over.

    Hidden files are left out. Links are followed, but nothing is read twice, so loops end. An id is the path relative
    to the folder (for a pattern: to the part before the first wildcard) without suffix; files that would share it keep
    their suffix. In a pattern ``**`` stands for any number of folders; a folder that matches means all in it.

    Raises:
        DocumentError: there is no such folder, it cannot be listed, or nothing in it can be read.
    """
    root, pattern = _split_pattern(source)
    if not root.is_dir():
        raise DocumentError("no file matches the pattern; check it")
    files: list[Path] = []
    passed_over: list[tuple[Path, str]] = []
    for path, reason in _walk(root, pattern):
        if not _matches(path.relative_to(root).parts, pattern):
            continue
        if not reason and not split_suffix(path)[1]:
            reason = f"unknown type {path.suffix or '(no suffix)'}"
        if reason:
            passed_over.append((path, reason))
        else:
            files.append(path)
    links = {path: path.resolve() for path in files if path.is_symlink()}
    own = {path.resolve() for path in files if path not in links} if links else set()
    passed_over += [(path, "a link to a file that is read already") for path in links if links[path] in own]
    files = [path for path in files if links.get(path) not in own]
    if not files:
        reasons = Counter(reason for _, reason in passed_over).most_common(5)
        there = ", ".join(f"{count} of {reason}" for reason, count in reasons) or "nothing"
        raise DocumentError(f"there is no file to read: it holds {there}; known types are {KNOWN_SUFFIXES}")
    for path, reason in sorted(passed_over, key=lambda entry: entry[0].parts):
        yield Skipped(str(path), reason)
    ids = _ids([path.relative_to(root) for path in files])
    for path in sorted(ids, key=lambda path: path.parts):
        yield FoundFile(root / path, ids[path], path.parts[0] if len(path.parts) > 1 else None)


def _ids(files: list[Path]) -> dict[Path, str]:
    """The ids of files: their paths without suffix, with it where two would be the same."""
    ids = {path: path.with_name(split_suffix(path)[0]).as_posix() for path in files}
    # The rows of a corpus have ids of their own.
    single = [path for path in files if not _holds_rows(path)]
    while True:
        taken = Counter(ids[path] for path in single)
        clashing = [path for path in files if taken[ids[path]] > 1 and ids[path] != path.as_posix()]
        if not clashing:
            return ids
        # A name with its suffix may be another one's without: tide.md and tide.md.html.
        ids.update((path, path.as_posix()) for path in clashing)


def _split_pattern(source: str) -> tuple[Path, tuple[str, ...]]:
    """The folder before the first wildcard of a pattern, and the parts from there on; no parts without wildcards."""
    if Path(source).is_dir() or not is_pattern(source):
        return Path(source), ()
    parts = Path(source).parts
    first = next(number for number, part in enumerate(parts) if is_pattern(part))
    return Path(*parts[:first]), parts[first:]


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...], *, below: bool = False) -> bool:
    """Whether a path, or a folder that it lies in, matches; with ``below``, whether something inside it may."""
    if not pattern:
        return True
    if not parts:
        return below
    if pattern[0] != "**":
        return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:], below=below)
    # At the end of a pattern ** means everything below, otherwise it may also stand for nothing.
    is_end = len(pattern) == 1
    return is_end or _matches(parts, pattern[1:], below=below) or _matches(parts[1:], pattern, below=below)


def _walk(root: Path, pattern: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """Walk a folder: each file with an empty string, or with the reason why it is passed over."""
    visited: set[tuple[int, int]] = set()
    folders = [root]
    links: list[Path] = []
    while folders or links:
        # Real folders come first: a folder then gets the ids of its own place, not those of a link to it.
        folder = folders.pop() if folders else links.pop()
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            if folder == root:
                raise reading_error(error) from None
            yield folder, f"a folder that cannot be listed: {error.strerror or error}"
            continue
        if (status.st_dev, status.st_ino) in visited:
            yield folder, "a link to a folder that is read already"
            continue
        visited.add((status.st_dev, status.st_ino))
        for entry in entries:
            path = folder / entry.name
            if entry.name.startswith("."):
                continue
            try:
                is_folder, is_file = entry.is_dir(), entry.is_file()
            except OSError as error:
                # A link that leads back to itself is one of the errors.
                yield path, "a broken link" if entry.is_symlink() else f"not readable: {error.strerror or error}"
                continue
            if is_folder:
                if _matches(path.relative_to(root).parts, pattern, below=True):
                    (links if entry.is_symlink() else folders).append(path)
            elif is_file:
                yield path, ""
            else:
                yield path, "a broken link" if entry.is_symlink() else "not a regular file"


@dataclass(frozen=True)
class ClashingIds:
    """Ids that need more to be told apart: files their path as given, what a folder holds the folder's name.

    Args:
        ids: ids that more than one file would get.
        prefixes: what is put in front of them, by the folder or pattern as it was given: the folder's name, or its
            path where two folders have the same name.
    """

    ids: frozenset[str] = frozenset()
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_sources(cls, sources: Sequence[Any]) -> ClashingIds:
        """Look through sources that are listed one by one; only names are read."""
        paths = [str(source) for source in sources if isinstance(source, str | PathLike)]
        # A file that several sources give is one, by whatever name.
        files = {(id, location_of(file)) for path in paths for id, file in _files_of(path) if not _holds_rows(file)}
        ids = frozenset(id for id, count in Counter(id for id, _ in files).items() if count > 1)
        roots = {path: _split_pattern(path)[0] for path in paths if ids and is_folder_or_pattern(path)}
        names = {root: root.resolve().name for root in roots.values()}
        common = Counter(name for name, _ in {(root.resolve().name, root.resolve()) for root in names})
        own = {name for name, count in common.items() if count == 1 and name}
        return cls(ids, {path: names[root] if names[root] in own else root.as_posix() for path, root in roots.items()})

    def of_file(self, path: Path) -> str:
        """The id of a file that is named itself."""
        stem = split_suffix(path)[0]
        return path.as_posix() if stem in self.ids else stem

    def of_found(self, source: str, file: FoundFile) -> str:
        """The id of a file that a folder or pattern holds."""
        return f"{self.prefixes[source]}/{file.id}" if file.id in self.ids and source in self.prefixes else file.id


def number_of_files(sources: Sequence[str]) -> int:
    """How many documents sources hold, by the names of their files; 0 where it takes reading to know."""
    files = [file for source in sources for _, file in _files_of(source)]
    return 0 if "-" in sources or any(map(_holds_rows, files)) else len(files)


def _holds_rows(path: Path) -> bool:
    return is_corpus(split_suffix(path)[1])


def _files_of(source: str) -> Iterator[tuple[str, Path]]:
    """The files of a source with the ids that they would have by themselves."""
    if not is_folder_or_pattern(source):
        stem, kind = split_suffix(Path(source))
        if kind:
            yield stem, Path(source)
        return
    # What is wrong is said where it is read.
    with suppress(DocumentError):
        for file in find_files(source):
            if isinstance(file, FoundFile):
                yield file.id, file.path


# What runs, prepared corpora (manifest.json), vectors and commands leave that readers of documents take for documents.
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
        # Whoever reads or writes there says better what is wrong, such as a link that leads to itself.
        with suppress(OSError, RuntimeError, ValueError):
            if _reaches(source, Path(place), is_folder):
                return source
    return None


def _reaches(source: str, place: Path, is_folder: bool) -> bool:
    path, inner = Path(source).expanduser(), place.resolve()
    if not path.exists():
        # One document of a corpus.
        file = Path(str(path).partition("#")[0])
        path = file if file.is_file() else path
    root, pattern = _split_pattern(str(path))
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
    return _matches(parts, ("**", pattern[-1]) if ".." in pattern else pattern)
