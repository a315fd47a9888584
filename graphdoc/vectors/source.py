"""The documents of a corpus as they come, of which each process reads its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from ..documents.readers import ReadingReport, Skipped
from ..errors import DocumentError
from ..inference.inputs import AnyDocument


class DocumentSource:
    """The documents as they come, one after the other.

    Of a table of ``datasets`` with ids a process reads the rows of its own shards and the ids of the others, since
    shards are stretches of the input, whose ids have to differ. Of anything else all is read.

    Args:
        documents: the documents.
        report: report of their reader.
    """

    def __init__(self, documents: Iterable[AnyDocument], report: ReadingReport | None) -> None:
        self._table: Any = documents if _is_table_with_ids(documents) else None
        self._read = 0
        self._values = _watched(documents)
        self._report = report

    def require_some(self) -> None:
        """Read on until there is a document.

        Raises:
            DocumentError: there is none, or it cannot be read.
        """
        first = list(islice(self._values, 1))
        if not first:
            raise nothing_to_encode(self._report.skipped if self._report is not None else ())
        self._values = chain(first, self._values)

    def take(self, count: int, *, only_ids: bool = False) -> Iterator[AnyDocument]:
        """The next documents.

        Args:
            count: how many; fewer at the end.
            only_ids: rows with nothing but an id will do.
        """
        if self._table is None:
            return islice(self._values, count)
        start, self._read = self._read, min(self._read + count, len(self._table))
        if start == self._read:
            return iter(())
        table = self._table.select_columns(["id"]) if only_ids else self._table
        return _watched(table.select(range(start, self._read)))


def nothing_to_encode(skipped: Sequence[Skipped]) -> DocumentError:
    """What to say where nothing can be encoded.

    Args:
        skipped: what was skipped instead.
    """
    if not skipped:
        return DocumentError("there are no documents to encode; check where they are read from")
    return DocumentError(
        f"there are no documents to encode: all {len(skipped)} were skipped, the first because "
        f"{skipped[0].reason} ({skipped[0].source})"
    )


def _is_table_with_ids(documents: Any) -> bool:
    """Whether rows can be read by their number, and their ids alone."""
    if not all(hasattr(documents, name) for name in ("select", "select_columns", "features", "format")):
        return False
    if getattr(documents.features.get("id"), "dtype", None) not in ("string", "large_string"):
        return False
    # A row without an id is known by its text, and what a format makes of a row may need all columns.
    is_plain = documents.format["type"] is None and documents.format["columns"] == documents.column_names
    return bool(is_plain and documents.data.column("id").null_count == 0)


def _watched(documents: Iterable[AnyDocument]) -> Iterator[AnyDocument]:
    try:
        yield from documents
    except OSError as error:
        raise DocumentError(f"documents cannot be read on: {error}; check where they come from") from error
