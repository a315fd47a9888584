"""Folders and glob patterns: which files they mean, in which order, the ids those files get, and what they reach."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import DocumentError
from ..parsing.formats import KNOWN_SUFFIXES, is_corpus, reading_error, split_suffix
from .records import Places

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


@dataclass(frozen=True, slots=True)
class NotRead:
    """A file or folder that is passed over, and why."""

    path: Path
    reason: str


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


def find_files(source: str) -> Iterator[FoundFile | NotRead]:
    """Find the files that a folder or a glob pattern means, sorted by path.

    Hidden files are passed over. Links are followed, but nothing is read twice, so loops end. An id is
    the path relative to the folder (for a pattern: to the part before the first wildcard) without suffix; files that
    would share it keep their suffix.

    Args:
        source: the folder or pattern; ``**`` stands for any number of folders. A folder that matches means all in it.

    Yields:
        The files, and what is passed over.

    Raises:
        DocumentError: there is no such folder, it cannot be listed, or nothing in it can be read.
    """
    root, pattern = _split_pattern(source)
    if not root.is_dir():
        raise DocumentError("no file matches the pattern; check it")
    files: list[Path] = []
    passed_over: list[NotRead] = []
    for found in _walk(root, pattern):
        path = found.path if isinstance(found, NotRead) else found
        if pattern and not matches(path.relative_to(root).parts, pattern):
            continue
        if isinstance(found, NotRead):
            passed_over.append(found)
        elif not split_suffix(found)[1]:
            passed_over.append(NotRead(found, f"unknown type {found.suffix or '(no suffix)'}"))
        else:
            files.append(found)
    files = list(_without_links(files, passed_over))
    if not files:
        raise _nothing_to_read(passed_over)
    yield from sorted(passed_over, key=lambda entry: entry.path.parts)
    ids = _ids([path.relative_to(root) for path in files])
    for path in sorted(ids, key=lambda path: path.parts):
        yield FoundFile(root / path, ids[path], path.parts[0] if len(path.parts) > 1 else None)


def _ids(files: list[Path]) -> dict[Path, str]:
    """The ids of files: their paths without suffix, with it where two would be the same."""
    ids = {path: path.with_name(split_suffix(path)[0]).as_posix() for path in files}
    # The rows of a corpus have ids of their own.
    single = [path for path in files if not is_corpus(split_suffix(path)[1])]
    while True:
        taken = Counter(ids[path] for path in single)
        clashing = [path for path in files if taken[ids[path]] > 1 and ids[path] != path.as_posix()]
        if not clashing:
            return ids
        # A name with its suffix may be another one's without: tide.md and tide.md.html.
        ids.update((path, path.as_posix()) for path in clashing)


def _without_links(files: list[Path], passed_over: list[NotRead]) -> Iterator[Path]:
    """The files without links to others of them."""
    links = {path: path.resolve() for path in files if path.is_symlink()}
    own = {path.resolve() for path in files if path not in links} if links else set()
    for path in files:
        if links.get(path) in own:
            passed_over.append(NotRead(path, "a link to a file that is read already"))
        else:
            yield path


def _split_pattern(source: str) -> tuple[Path, tuple[str, ...]]:
    """The folder before the first wildcard of a pattern, and the parts from there on; no parts without wildcards."""
    if Path(source).is_dir() or not is_pattern(source):
        return Path(source), ()
    parts = Path(source).parts
    first = next(number for number, part in enumerate(parts) if is_pattern(part))
    return Path(*parts[:first]), parts[first:]


def matches(parts: tuple[str, ...], pattern: tuple[str, ...], *, below: bool = False) -> bool:
    """Whether a path, or a folder that it lies in, matches; with ``below``, whether something inside it may.

    Args:
        parts: the path, from the folder before the first wildcard on.
        pattern: the parts of the pattern.
        below: see above.
    """
    reached = {0}
    for part in parts:
        reached = _step(reached, part, pattern)
        if len(pattern) in reached:
            return True
    return below and bool(reached)


def _step(reached: set[int], part: str, pattern: tuple[str, ...]) -> set[int]:
    following: set[int] = set()
    waiting = list(reached)
    while waiting:
        position = waiting.pop()
        if position == len(pattern):
            continue
        if pattern[position] == "**":
            following.add(position)
            # At the end of a pattern ** means everything below, otherwise it may also stand for nothing.
            if position + 1 == len(pattern):
                following.add(position + 1)
            else:
                waiting.append(position + 1)
        elif fnmatchcase(part, pattern[position]):
            following.add(position + 1)
    return following


def _walk(root: Path, pattern: tuple[str, ...]) -> Iterator[Path | NotRead]:
    visited: set[tuple[int, int]] = set()
    folders = [root]
    links: list[Path] = []
    while folders or links:
        # Real folders come first: a folder then gets the ids of its own place, not those of a link to it.
        linked = not folders
        folder = links.pop() if linked else folders.pop()
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            if folder == root:
                raise reading_error(error) from None
            yield NotRead(folder, f"a folder that cannot be listed: {error.strerror or error}")
            continue
        if (status.st_dev, status.st_ino) in visited:
            yield NotRead(folder, "a link to a folder that is read already")
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
                reason = "a broken link" if entry.is_symlink() else f"not readable: {error.strerror or error}"
                yield NotRead(path, reason)
                continue
            if is_folder:
                if not pattern or matches(path.relative_to(root).parts, pattern, below=True):
                    (links if entry.is_symlink() else folders).append(path)
            elif is_file:
                yield path
            else:
                yield NotRead(path, "a broken link" if entry.is_symlink() else "not a regular file")


def _nothing_to_read(passed_over: list[NotRead]) -> DocumentError:
    reasons = Counter(entry.reason for entry in passed_over).most_common(5)
    there = ", ".join(f"{count} of {reason}" for reason, count in reasons) or "nothing"
    return DocumentError(f"there is no file to read: it holds {there}; known types are {KNOWN_SUFFIXES}")


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
    def of(cls, sources: Sequence[Any]) -> ClashingIds:
        """Look through sources that are listed one by one; only names are read."""
        paths = [str(source) for source in sources if isinstance(source, str | PathLike)]
        places = Places()
        # A file that several sources give is one, by whatever name.
        found = Counter(id for id, _ in {(id, places.of(file)) for path in paths for id, file in _files_of(path)})
        ids = frozenset(id for id, count in found.items() if count > 1)
        roots = {path: _split_pattern(path)[0] for path in paths if ids and is_folder_or_pattern(path)}
        names = {root: root.resolve() for root in roots.values()}
        common = Counter(root.name for root in set(names.values()))
        return cls(
            ids,
            {
                path: names[root].name if common[names[root].name] == 1 and names[root].name else root.as_posix()
                for path, root in roots.items()
            },
        )

    def of_file(self, path: Path) -> str:
        """The id of a file that is named itself."""
        stem = split_suffix(path)[0]
        return path.as_posix() if stem in self.ids else stem

    def of_found(self, source: str, file: FoundFile) -> str:
        """The id of a file that a folder or pattern holds."""
        return f"{self.prefixes[source]}/{file.id}" if file.id in self.ids and source in self.prefixes else file.id


def _files_of(source: str) -> Iterator[tuple[str, Path]]:
    """The files of a source with the ids that they would have by themselves; no corpora, whose rows have ids."""
    if not is_folder_or_pattern(source):
        stem, kind = split_suffix(Path(source))
        if kind and not is_corpus(kind):
            yield stem, Path(source)
        return
    try:
        for file in find_files(source):
            if isinstance(file, FoundFile) and not is_corpus(split_suffix(file.path)[1]):
                yield file.id, file.path
    except DocumentError:
        # Said where it is read.
        return


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
    return not pattern or matches(parts, ("**", pattern[-1]) if ".." in pattern else pattern)
