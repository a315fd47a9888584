"""What a source yields before documents are made of it, what became of it, and which ids and files were seen."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import numpy.typing

from ...errors import DocumentError
from ..document import Document
from ..section import clean_text


@dataclass(frozen=True, slots=True)
class Record:
    """A document, a row, or the reason why there is none, with the place it was found at.

    Args:
        place: file and line, to name in messages.
        content: what was found; an error's message does not name the place.
        default_id: id for a row that has none.
    """

    place: str
    content: Document | Mapping[str, Any] | DocumentError
    default_id: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not read.

    Args:
        source: file, with the line if there is one.
        reason: why it was not read.
    """

    source: str
    reason: str

    def __post_init__(self) -> None:
        # Names of files may hold bytes that are no text.
        for name in ("source", "reason"):
            object.__setattr__(self, name, clean_text(getattr(self, name)))


@dataclass(slots=True)
class ReadingReport:
    """What became of all that was found, filled while documents are read.

    Args:
        documents: number of documents read.
        skipped: documents, rows and files that could not be read and were to be skipped (``on_error``).
        ignored: files and folders inside folders that were passed over: unknown types, broken links, loops.
        duplicate_ids: ids that occurred again; the later documents are among the skipped ones.
        without_id: number of rows read that had no id and got a hash of their content.
        places: where every document was found, by id: a file, or a file and the row in it. None, the default, notes
            none.
    """

    documents: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    ignored: list[Skipped] = field(default_factory=list)
    duplicate_ids: list[str] = field(default_factory=list)
    without_id: int = 0
    places: dict[str, str] | None = None

    def leave_out(self, skipped: Iterable[Skipped]) -> None:
        """Count documents among the skipped that were read, and could not be used."""
        for one in skipped:
            self.documents -= 1
            self.skipped.append(one)


_RECENT = 65_536


class SeenIds:
    """A growing set of ids that remembers where each was seen.

    Of an id only an 8-byte hash is kept: among a hundred million ids two different ones are taken for the same with a
    probability of about 0.0003.
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._hashes: numpy.typing.NDArray[numpy.uint64] = numpy.empty(0, numpy.uint64)
        self._orders: numpy.typing.NDArray[numpy.uint64] = numpy.empty(0, numpy.uint64)
        self._count = 0

    def add(self, id: str) -> int | None:
        """Add an id.

        Args:
            id: the id.

        Returns:
            None if it is new; otherwise how many ids had been added before it was added first.
        """
        key = _key(id)
        found = self._found(key)
        if found is not None:
            return found
        self._recent[key] = self._count
        self._count += 1
        if len(self._recent) >= max(_RECENT, len(self._hashes) // 8):
            self._merge()
        return None

    def __contains__(self, id: str) -> bool:
        return self._found(_key(id)) is not None

    def _found(self, key: int) -> int | None:
        found = self._recent.get(key)
        if found is None and len(self._hashes):
            position = int(numpy.searchsorted(self._hashes, numpy.uint64(key)))
            if position < len(self._hashes) and int(self._hashes[position]) == key:
                found = int(self._orders[position])
        return found

    def _merge(self) -> None:
        hashes = numpy.concatenate([self._hashes, numpy.fromiter(self._recent.keys(), numpy.uint64)])
        orders = numpy.concatenate([self._orders, numpy.fromiter(self._recent.values(), numpy.uint64)])
        order = numpy.argsort(hashes)
        self._hashes, self._orders = hashes[order], orders[order]
        self._recent.clear()


def _key(id: str) -> int:
    # Names of files may hold bytes that are no text.
    digest = hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class Places:
    """Where files lie, by whatever name their folder is reached; a link to a file is a file of its own."""

    def __init__(self) -> None:
        # Files come folder by folder.
        self._folder: tuple[Path, str] | None = None

    def of(self, path: Path) -> str:
        """The place of a file."""
        folder = path.parent
        if self._folder is None or self._folder[0] != folder:
            place = str(folder)
            # Whoever reads there says better what is wrong with a name.
            with suppress(OSError, ValueError):
                place = os.path.realpath(folder)
            self._folder = folder, place
        return f"{self._folder[1]}{os.sep}{path.name}"
