"""Tables as CSV that a spreadsheet opens without running anything in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from .files import write_atomically

# What a spreadsheet takes for the beginning of a formula, also behind a tab or a line end.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n")


def safe_cell(value: Any) -> Any:
    """A value as it may stand in a cell: text that a spreadsheet would compute gets an apostrophe in front.

    Source: OWASP, CSV injection.

    >>> [safe_cell(value) for value in ("=1+1", "koji", -0.5, float("nan"))]
    ["'=1+1", 'koji', -0.5, None]
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_SIGNS) else value
    return None if isinstance(value, float) and value != value else value


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as the text of a CSV file; NaN and None are empty cells (see :func:`safe_cell`)."""
    target = io.StringIO()
    write_rows(target, header, rows)
    return target.getvalue()


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table as CSV, row by row and atomically; halves of surrogate pairs become "?".

    Args:
        path: the file.
        header: names of the columns.
        rows: a cell for every column; text is escaped (see :func:`safe_cell`).

    Raises:
        OutputError: the file cannot be written.
    """

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            write_rows(file, header, rows)

    return write_atomically(path, write)


def write_rows(target: TextIO, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table as CSV into an open file (see :func:`write_csv`)."""
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(map(_written, header))
    writer.writerows(map(_written, row) for row in rows)


def _written(value: Any) -> Any:
    """A safe cell; Python's writer leaves a carriage return unquoted, which readers take for the end of the row."""
    safe = safe_cell(value)
    return safe.replace("\r\n", "\n").replace("\r", "\n") if isinstance(safe, str) else safe
