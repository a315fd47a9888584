"""What a source yields before documents are made of it, what became of it, and which ids were seen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import DocumentError
from ..document import Document
from ..section import clean_text


@dataclass(frozen=True, slots=True)
class Record:
    """A document, a row, or the reason why there is none, with the location it was found at.

    Args:
        location: file and line, to name in messages.
        content: what was found; an error's message does not name the location.
        default_id: id for a row that has none.
    """

    location: str
    content: Document | Mapping[str, Any] | DocumentError
    default_id: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not read, a file or a line of it, and why."""

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
        locations: where every document was found, by id; None, the default, notes none.
    """

    documents: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    ignored: list[Skipped] = field(default_factory=list)
    duplicate_ids: list[str] = field(default_factory=list)
    without_id: int = 0
    locations: dict[str, str] | None = None

    def leave_out(self, skipped: Iterable[Skipped]) -> None:
        """Count documents among the skipped that were read, and could not be used."""
        for one in skipped:
            self.documents -= 1
            self.skipped.append(one)


_FEWEST_RECENT = 65_536


class SeenIds:
    """A growing set of ids that remembers the order in which they came.

    Of an id only an 8-byte hash is kept: among a hundred million ids two different ones are taken for the same with a
    probability of about 0.0003.
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        # Hashes in rising order, and how many ids came before each.
        self._older = np.empty((2, 0), np.uint64)

    def add(self, id: str) -> int | None:
        """Add an id; if it was there already, give the number of ids that had been added before it."""
        key = int.from_bytes(hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
        hashes, orders = self._older
        place = int(np.searchsorted(hashes, np.uint64(key)))
        if place < len(hashes) and int(hashes[place]) == key:
            return int(orders[place])
        order = len(hashes) + len(self._recent)
        if (first := self._recent.setdefault(key, order)) != order:
            return first
        if len(self._recent) >= max(_FEWEST_RECENT, len(hashes) // 8):
            recent = np.array([list(self._recent), list(self._recent.values())], np.uint64)
            merged = np.concatenate([self._older, recent], axis=1)
            self._older = merged[:, np.argsort(merged[0])]
            self._recent.clear()
        return None


def with_class_names(rows: Iterable[Any], features: Mapping[str, Any]) -> Iterator[Any]:
    """Rows of a data set with the names of its classes in the place of their numbers, by the types of its columns."""
    parts = {column: kind.get("feature", kind) for column, kind in features.items() if isinstance(kind, Mapping)}
    names = {column: kind["names"] for column, kind in parts.items() if kind.get("_type") == "ClassLabel"}

    def named(value: Any, of: Sequence[str]) -> Any:
        if isinstance(value, list):
            return [named(one, of) for one in value]
        # Rows without a label have -1.
        return value if not isinstance(value, int) else of[value] if 0 <= value < len(of) else None

    for row in rows:
        yield {**row, **{column: named(row.get(column), of) for column, of in names.items()}} if names else row
