"""Folders and glob patterns: which files they mean, in which order, and the ids those files get."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ...errors import DocumentError
from ..parsing.formats import KNOWN_SUFFIXES, is_corpus, reading_error, split_suffix

_MAGIC = re.compile(r"[*?\[]")
_UNKNOWN = "unknown type"


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
    root, pattern = split_pattern(source)
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
            passed_over.append(NotRead(found, f"{_UNKNOWN} {found.suffix or '(no suffix)'}"))
        else:
            files.append(found)
    files = list(_without_links(files, passed_over))
    if not files:
        raise _nothing_to_read(passed_over, bool(pattern))
    yield from sorted(passed_over, key=lambda entry: entry.path.parts)
    ids = _ids([path.relative_to(root) for path in files])
    for own in sorted(ids, key=lambda path: path.parts):
        yield FoundFile(root / own, ids[own], own.parts[0] if len(own.parts) > 1 else None)


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


def split_pattern(source: str) -> tuple[Path, tuple[str, ...]]:
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


def _nothing_to_read(passed_over: list[NotRead], by_pattern: bool) -> DocumentError:
    where = "nothing that matches the pattern" if by_pattern else "nothing in the folder"
    if not passed_over:
        return DocumentError(f"{where} is a file of a known type; known are {KNOWN_SUFFIXES}")
    unreadable = Counter(entry.reason for entry in passed_over if not entry.reason.startswith(_UNKNOWN))
    reasons = "; ".join(f"{count} passed over: {reason}" for reason, count in unreadable.most_common(3))
    suffixes = Counter(
        entry.path.suffix or "(no suffix)" for entry in passed_over if entry.reason.startswith(_UNKNOWN)
    )
    if not suffixes:
        return DocumentError(f"{where} can be read ({reasons})")
    there = ", ".join(f"{count} {suffix}" for suffix, count in suffixes.most_common(5))
    there += f"; {reasons}" if reasons else ""
    return DocumentError(f"{where} is of a known type (there are {there}); known are {KNOWN_SUFFIXES}")
