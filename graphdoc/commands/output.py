"""Output of commands: files, tables, and lines about documents and how they were read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from ..documents.document import Document
from ..documents.readers.folders import source_reaching
from ..errors import OutputError
from ..runtime.files import note_own_file, require_own_files, write_csv, write_text
from ..runtime.text import counted, markdown, one_line

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..segmentation.spans import Coverage
    from ..similarity import Comparison

IMAGES = (".png", ".svg", ".pdf")
# Skipped or ignored entries that are named one by one.
MOST_LISTED = 20
# Of a line that quotes a text.
LINE_WIDTH = 118
# A table on the terminal is to be read; everything is in the files.
MOST_ROWS = 60


class Outputs:
    """The files that a command is asked to write, by option, checked before the long work against what it reads."""

    def __init__(
        self, sources: Iterable[str | None], *, folders: Iterable[str | Path | None] = (), **files: str | None
    ) -> None:
        self._files = {option: path for option, path in files.items() if path is not None}
        _check_files(self._files)
        check_apart(sources, self.paths, folders)

    @property
    def paths(self) -> list[str]:
        """The files that are asked for, without standard output."""
        return [path for path in self._files.values() if path != "-"]

    def write(self, **writers: Callable[[str], object]) -> Terminal:
        """Write the files that are asked for; the summary goes nowhere if standard output has the JSON."""
        for option, path in self._files.items():
            writers[option](path)
        return Terminal(quiet=self._files.get("json") == "-")

    def report(self, target: Terminal, report: ReadingReport | None = None, *folders: Path) -> None:
        """Say what was not read, and what was written."""
        if report is not None:
            target.left_out(report)
        target.written([*self.paths, *folders])


class Reports:
    """Reports on the closest pairs, in a folder next to a page and named after it."""

    def __init__(self, page: str, most: int, *, overwrite: bool) -> None:
        self.most, self.folder = most, folder_next_to(page, "reports")
        if self.folder.exists() and not self.folder.is_dir():
            raise OutputError(f"{self.folder} is a file, and reports go to a folder of this name; move it")
        if not overwrite:
            require_own_files(self.folder, [f"{number:04}.html" for number in range(1, most + 1)])

    def write(
        self, pairs: Sequence[tuple[int, int, float]], compare: Callable[[int, int], Comparison | None]
    ) -> dict[tuple[int, int], str]:
        """Write a report on every pair of documents that can be compared, and give links as the page has them."""
        from ..runtime.progress import progress_bar

        links = {}
        with progress_bar(None, len(pairs), "Comparing", "pairs") as bar:
            for number, (a, b, _) in enumerate(pairs, start=1):
                if comparison := compare(a, b):
                    path = comparison.to_html(self.folder / f"{number:04}.html")
                    note_own_file(path)
                    links[a, b] = f"{quote(self.folder.name)}/{path.name}"
                bar.update(1)
        return links


def folder_next_to(file: str, what: str) -> Path:
    """A folder next to a file, named after it and what it holds."""
    path = Path(file)
    return path.with_name(f"{path.stem}-{what}")


def write_json(path: str, content: Any) -> None:
    """Write JSON to a file, or to standard output for ``-``."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if path == "-":
        print(text)
    else:
        write_text(path, text + "\n")


def _check_files(files: dict[str, str]) -> None:
    taken: set[str] = set()
    for option, path in files.items():
        if path == "-":
            if option != "json":
                raise OutputError(f"--{option} cannot go to standard output, only --json can; name a file")
            continue
        _require_name(path)
        if os.path.realpath(path) in taken:
            raise OutputError(f"{path} is given for two outputs; give each its own file")
        taken.add(os.path.realpath(path))
        if option == "plot" and Path(path).suffix.lower() not in IMAGES:
            raise OutputError(f"{path} has no image suffix; use .png, .svg or .pdf")
        try:
            folder = next(parent for parent in Path(path).absolute().parents if parent.exists())
            is_writable = not Path(path).is_dir() and folder.is_dir() and os.access(folder, os.W_OK)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}; give another place") from error
        if not is_writable:
            raise OutputError(f"{path} cannot be written: it is a folder, or in none that may be written to")


def _require_name(path: str) -> None:
    if not path or "\0" in path:
        raise OutputError(f"{path!r} is no name for an output; give another one")


def check_apart(sources: Iterable[str | None], files: Iterable[str], folders: Iterable[str | Path | None] = ()) -> None:
    """Refuse outputs that would replace what is read, or be read themselves by the next run."""
    read = [source for source in sources if source and source != "-" and "\0" not in source]
    places = [(file, False) for file in files]
    places += [(str(folder), True) for folder in folders if folder is not None]
    for place, is_folder in places:
        _require_name(place)
        source = source_reaching(place, read, is_folder=is_folder)
        if source is not None and not is_folder and os.path.lexists(place):
            raise OutputError(f"{place} is read, and would be replaced; give another place")
        if source is not None:
            raise OutputError(f"{place} lies in {source}, all of which is read; give a place outside")


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


def whole_percent(value: float) -> str:
    """A share in whole per cent."""
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
class TableColumn:
    """A column of a table: its heading, how values are written, most characters, and whether it is aligned left."""

    heading: str
    text: Callable[[Any], str] = shown
    width: int | None = None
    left: bool = False


def names(heading: str, width: int | None = None) -> TableColumn:
    """A column of names or texts."""
    return TableColumn(heading, width=width, left=True)


class Table:
    """A table.

    Values come from outside as much as from here: no markup, control character or formula in them has an effect on
    a terminal, in Markdown or in a spreadsheet. A string stands for a column of numbers with this heading.
    """

    def __init__(self, columns: Sequence[TableColumn | str], rows: Iterable[Sequence[Any]] = ()) -> None:
        self.columns = [TableColumn(column) if isinstance(column, str) else column for column in columns]
        self.rows = list(rows)

    def add(self, *values: Any) -> None:
        """Add a row."""
        self.rows.append(values)

    def print(self, target: Terminal, noun: str | None = None) -> None:
        """Show the table; with a noun for its rows, only the first of them and how many more there are."""
        result = RichTable(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
        for column in self.columns:
            side: JustifyMethod = "left" if column.left else "right"
            result.add_column(Text(column.heading), justify=side, no_wrap=not column.left, overflow="ellipsis")
        for row in self.rows if noun is None else self.rows[:MOST_ROWS]:
            cells = zip(self.columns, row, strict=True)
            result.add_row(*(plain(column.text(value), column.width) for column, value in cells))
        target.print(result)
        if noun is not None:
            target.more(len(self.rows), noun)

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [[column.heading for column in self.columns]]
        lines.append(["---" if column.left else "---:" for column in self.columns])
        for row in self.rows:
            # Only text can hold markup.
            cells = zip(self.columns, row, strict=True)
            lines.append([markdown(cell) if isinstance(cell, str) else column.text(cell) for column, cell in cells])
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def write_csv(self, path: str | Path) -> None:
        """Write the table as CSV, with values as they are."""
        write_csv(path, [column.heading for column in self.columns], self.rows)


class Terminal(Console):
    """Where summaries go: as wide as the terminal, or without folding lines in a file or pipe.

    What is printed comes from outside as much as from here: no markup or control character in it has an effect.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(highlight=False, width=None if sys.stdout.isatty() else 120, quiet=quiet)

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines: folded between words on a terminal, whole in a file or pipe."""
        for line in lines:
            self.print(plain(line), soft_wrap=not self.is_terminal)

    def passage(self, line: str) -> None:
        """Print a line that quotes a text, as far as there is room."""
        self.print(plain(line, LINE_WIDTH), no_wrap=True, overflow="ellipsis")

    def more(self, total: int, noun: str, most: int = MOST_ROWS) -> None:
        """Say how many rows are not shown."""
        if total > most:
            self.print(plain(f"... and {counted(total - most, f'more {noun}')}; --json writes all"))

    def written(self, paths: Iterable[str | Path]) -> None:
        """Say which files and folders were written."""
        for path in paths:
            self.print(plain(f"wrote {path}"), soft_wrap=True)

    def coverage(self, name: str, coverage: Coverage) -> None:
        """Say in one line how much of a document was encoded, and why not all."""
        # Help shall not wait for what cuts documents.
        from ..segmentation.spans import PASSAGE_LIMIT, REPEATED

        line = f"{name}: {counted(coverage.encoded_passages, 'passage')}, {counted(coverage.encoded_tokens, 'token')}"
        if left_out := coverage.left_out:
            reasons = ", ".join(f"{counted(count, 'character')}: {reason}" for reason, count in left_out.items())
            hint = "; --max-passages all encodes every one" if PASSAGE_LIMIT in left_out else ""
            hint += "; --repeats keep encodes those that repeat" if REPEATED in left_out else ""
            share = f"only {coverage.share:.0%}" if coverage.share >= 0.01 else "less than 1%"
            line += f"; {share} of the text was encoded ({reasons}{hint})"
        if coverage.furniture:
            line += f"; besides, {counted(coverage.furniture, 'character')} of navigation and the like were not read"
        if coverage.kept_repeats:
            line += "; little but repeated passages, which count here"
        if coverage.split_sentences:
            were = "was" if coverage.split_sentences == 1 else "were"
            line += f"; {counted(coverage.split_sentences, 'over-long sentence')} {were} split"
        self.print(plain(line))

    def left_out(self, report: ReadingReport) -> None:
        """Say what was not read, and how many documents got an id that says nothing."""
        for word, entries in (("skipped", report.skipped), ("ignored", report.ignored)):
            # Rows of one table that lack the same are one line, else other files were not seen for them.
            alike = groupby(entries, key=lambda entry: (entry.source.rpartition(":")[0] or entry.source, entry.reason))
            runs = [list(run) for _, run in alike]
            for first, *others in runs[:MOST_LISTED]:
                more = f" and {counted(len(others), 'more row')}" if others else ""
                self.lines([f"{word} {first.source}{more}: {first.reason}"])
            if hidden := sum(map(len, runs[MOST_LISTED:])):
                self.lines([f"... and {hidden:,} more {word}"])
        if report.skipped:
            self.lines([read_and_skipped(report)])
        self.without_id(report)

    def without_id(self, report: ReadingReport) -> None:
        """Say how many documents got an id that says nothing."""
        if report.without_id:
            line = f"{counted(report.without_id, 'document')} had no id and got a hash of the content"
            self.lines([f"{line}; name a column with --column id=NAME"])


def plain(text: str, width: int | None = None) -> Text:
    """Text from outside, shown as it is and on one line, spaces in front kept: no markup in it has an effect."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    return Text(indent + one_line(text, width and max(1, width - len(indent))))


def titled(document: Document) -> str:
    """The title of a document and its id, or the id alone."""
    return f"{document.title} [{document.id}]" if document.title else document.id


def indented(document: Document, number: int) -> str:
    """The name of a section, set in by its depth."""
    return "  " * max(0, len(document.sections[number].path) - 1) + document.section_name(number)


def read_and_skipped(report: ReadingReport) -> str:
    """The numbers of documents that were read and that were not."""
    return f"{counted(report.documents, 'document')} read, {len(report.skipped):,} skipped"
