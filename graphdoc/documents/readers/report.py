"""What became of all that was found where documents are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..section import clean_text


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
