"""What commands print: tables, and lines about documents and how they were read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from ..documents.document import Document
from ..runtime.files import csv_text, write_text
from ..runtime.text import counted, markdown, one_line
from ..segmentation.spans import PASSAGE_LIMIT, REPEATED, Coverage

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport

MOST_LISTED = 20
# Of a line that quotes a text.
LINE_WIDTH = 118
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


def indented(document: Document, number: int) -> str:
    """The name of a section, set in by its depth."""
    return "  " * max(0, len(document.sections[number].path) - 1) + document.section_name(number)


def headings_above(document: Document, shown: Sequence[int], row: int) -> list[str]:
    """Headings without text of their own that enclose a section and stand between it and the one shown before it.

    Args:
        document: the document.
        shown: numbers of the sections that are shown, those with text.
        row: which of them.
    """
    number = shown[row]
    path = document.sections[number].path
    between = range(shown[row - 1] + 1 if row else 0, number)
    above = [one for one in between if path[: len(document.sections[one].path)] == document.sections[one].path]
    return [indented(document, one) for one in above]


def coverage_line(name: str, coverage: Coverage) -> Text:
    """One line that says how much of a document was encoded, and why not all."""
    line = f"{name}: {counted(coverage.encoded_passages, 'passage')}, {counted(coverage.encoded_tokens, 'token')}"
    if coverage.left_out:
        reasons = ", ".join(f"{counted(count, 'character')}: {reason}" for reason, count in coverage.left_out.items())
        hint = "; --max-passages all encodes every one" if PASSAGE_LIMIT in coverage.left_out else ""
        hint += "; --repeats keep encodes those that repeat" if REPEATED in coverage.left_out else ""
        share = f"only {coverage.share:.0%}" if coverage.share >= 0.01 else "less than 1%"
        line += f"; {share} of the text was encoded ({reasons}{hint})"
    if coverage.furniture:
        line += f"; besides, {counted(coverage.furniture, 'character')} of navigation and the like were not read"
    if coverage.kept_repeats:
        line += "; little but repeated passages, which count here"
    if coverage.split_sentences:
        were = "was" if coverage.split_sentences == 1 else "were"
        line += f"; {counted(coverage.split_sentences, 'over-long sentence')} {were} split"
    return plain(line)


def print_lines(target: Console, lines: Sequence[str]) -> None:
    """Print lines: folded between words on a terminal, whole in a file or pipe."""
    for line in lines:
        target.print(plain(line), soft_wrap=not target.is_terminal)


def print_passage(target: Console, line: str) -> None:
    """Print a line that quotes a text, as far as there is room."""
    target.print(plain(line, LINE_WIDTH), no_wrap=True, overflow="ellipsis")


def list_left_out(target: Console, report: ReadingReport) -> None:
    """Say what was not read."""
    for word, entries in (("skipped", report.skipped), ("ignored", report.ignored)):
        print_lines(target, [f"{word} {entry.source}: {entry.reason}" for entry in entries[:MOST_LISTED]])
        if len(entries) > MOST_LISTED:
            print_lines(target, [f"... and {len(entries) - MOST_LISTED:,} more {word}"])
    if report.skipped:
        print_lines(target, [read_and_skipped(report)])


def read_and_skipped(report: ReadingReport) -> str:
    """How many documents were read, and how many were not."""
    return f"{counted(report.documents, 'document')} read, {len(report.skipped):,} skipped"


def list_without_id(target: Console, report: ReadingReport) -> None:
    """Say how many documents got an id that says nothing."""
    if report.without_id:
        line = f"{counted(report.without_id, 'document')} had no id and got a hash of the content"
        print_lines(target, [f"{line}; name a column with --column id=NAME"])
