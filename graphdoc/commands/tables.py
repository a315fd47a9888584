"""Tables of commands: columns and rows are described once, and shown on the terminal, as CSV or as Markdown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from ..runtime.files import csv_text, write_text
from ..runtime.text import counted, markdown, one_line

# A table on the terminal is to be read; everything is in the files.
MOST_ROWS = 60


def shown(value: Any) -> str:
    """A value as people read it: numbers with three decimals, counts with commas, a dash for None.

    >>> [shown(value) for value in (0.5, 12345, "koji", None)]
    ['0.500', '12,345', 'koji', '-']
    """
    if value is None:
        return "-"
    number = getattr(value, "value", value)
    if isinstance(number, float):
        return f"{number:.3f}"
    return f"{number:,}" if isinstance(number, int) else str(number)


def signed(value: Any) -> str:
    """A number with its sign; as :func:`shown` for all else."""
    return f"{value:+.3f}" if isinstance(value, float) else shown(value)


def percent(value: float) -> str:
    """A share in percent."""
    return f"{value:.0%}"


def half_interval(value: Any) -> str:
    """An estimate with half of its interval, as a terminal has room for; as :func:`shown` for all else."""
    ends = getattr(value, "interval", None)
    return shown(value) + (f" ± {(ends[1] - ends[0]) / 2:.3f}" if ends else "")


def whole_interval(value: Any) -> str:
    """An estimate with its interval; as :func:`shown` for all else."""
    ends = getattr(value, "interval", None)
    return shown(value) + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else "")


def signed_interval(value: Any) -> str:
    """A difference with its sign and its interval; as :func:`shown` for all else."""
    ends = getattr(value, "interval", None)
    return signed(getattr(value, "value", value)) + (f" [{ends[0]:+.3f}, {ends[1]:+.3f}]" if ends else "")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        heading: what stands above it.
        text: writes a value for the terminal; None leaves the column out there.
        markdown: writes a value for Markdown; None writes it as for the terminal.
        width: most characters on the terminal; None for as many as fit.
        left: whether it is aligned to the left, as names and texts are.
    """

    heading: str
    text: Callable[[Any], str] | None = shown
    markdown: Callable[[Any], str] | None = None
    width: int | None = None
    left: bool = False


def names(heading: str, width: int | None = None) -> Column:
    """A column of names or texts."""
    return Column(heading, width=width, left=True)


class Table:
    """A table.

    Values come from outside as much as from here: no markup, control character or formula in them has an effect on
    a terminal, in Markdown or in a spreadsheet.

    Args:
        columns: the columns; a string stands for a column of numbers with this heading.
        rows: a value for every column, in every row.
    """

    def __init__(self, columns: Sequence[Column | str], rows: Iterable[Sequence[Any]] = ()) -> None:
        self.columns = [Column(column) if isinstance(column, str) else column for column in columns]
        self.rows = list(rows)

    def add(self, *values: Any) -> None:
        """Add a row."""
        self.rows.append(values)

    def print(self, target: Console, noun: str | None = None) -> None:
        """Show the table on a terminal.

        Args:
            target: the terminal.
            noun: what a row stands for; then the first rows are shown, and how many more there are. None for all.
        """
        result = RichTable(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
        for column in self.columns:
            if column.text is not None:
                justify: JustifyMethod = "left" if column.left else "right"
                head = Text(column.heading)
                result.add_column(head, justify=justify, no_wrap=not column.left, overflow="ellipsis")
        for row in self.rows if noun is None else self.rows[:MOST_ROWS]:
            cells = zip(self.columns, row, strict=True)
            result.add_row(*(plain(write(value), column.width) for column, value in cells if (write := column.text)))
        target.print(result)
        if noun is not None:
            more_rows(target, len(self.rows), noun)

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [[column.heading for column in self.columns]]
        lines.append(["---" if column.left else "---:" for column in self.columns])
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            lines.append([_markdown_cell(column, value) for column, value in cells])
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def csv(self) -> str:
        """The table as CSV, with values as they are."""
        return csv_text([column.heading for column in self.columns], self.rows)

    def write_csv(self, path: str | Path) -> None:
        """Write the table as CSV.

        Raises:
            OutputError: the file cannot be written.
        """
        write_text(path, self.csv())


def _markdown_cell(column: Column, value: Any) -> str:
    """A value as Markdown; only text can hold markup."""
    return markdown(value) if isinstance(value, str) else (column.markdown or column.text or shown)(value)


def console() -> Console:
    """Where summaries go: a terminal's width, or one that does not fold lines in a file or pipe."""
    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 120)


def plain(text: str, width: int | None = None) -> Text:
    """Text from outside, shown as it is and on one line, spaces in front kept: no markup in it has an effect."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    return Text(indent + one_line(text, width and max(1, width - len(indent))))


def more_rows(target: Console, total: int, noun: str, most: int = MOST_ROWS) -> None:
    """Say how many rows are not shown."""
    if total > most:
        target.print(plain(f"... and {counted(total - most, f'more {noun}')}; --json writes all"))
