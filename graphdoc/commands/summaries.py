"""What commands print for people to read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..documents.document import Document
from ..runtime.plain_text import one_line
from ..runtime.wording import counted
from ..segmentation.coverage import Coverage
from ..segmentation.segmenter import PASSAGE_LIMIT

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport

# A table on the terminal is to be read; everything is in the files.
MOST_ROWS = 60
MOST_LISTED = 20


def console() -> Console:
    """Where summaries go: a terminal's width, or one that does not fold lines in a file or pipe."""
    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 120)


def plain(text: str, width: int | None = None) -> Text:
    """Text of a document, shown as it is and on one line, spaces in front kept: no markup of it is obeyed."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    return Text(indent + one_line(text, width and max(1, width - len(indent))))


def table(*columns: tuple[str, str]) -> Table:
    """An empty table from names and justifications (``left`` or ``right``)."""
    result = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for name, justify in columns:
        right = justify == "right"
        result.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="ellipsis")
    return result


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


def more_rows(target: Console, shown: int, total: int, thing: str) -> None:
    """Say how many rows a table leaves out."""
    if total > shown:
        target.print(plain(f"... and {counted(total - shown, f'more {thing}')}; --json writes all"))


def coverage_line(name: str, coverage: Coverage) -> Text:
    """One line that says how much of a document was encoded, and why not all."""
    line = f"{name}: {counted(coverage.encoded_passages, 'passage')}, {counted(coverage.encoded_tokens, 'token')}"
    if coverage.left_out:
        reasons = ", ".join(f"{counted(count, 'character')}: {reason}" for reason, count in coverage.left_out.items())
        hint = "; --max-passages all encodes every one" if PASSAGE_LIMIT in coverage.left_out else ""
        share = f"only {coverage.share:.0%}" if coverage.share >= 0.01 else "less than 1%"
        line += f"; {share} of the text was encoded ({reasons}{hint})"
    if coverage.split_sentences:
        were = "was" if coverage.split_sentences == 1 else "were"
        line += f"; {counted(coverage.split_sentences, 'over-long sentence')} {were} split"
    return plain(line)


def list_left_out(target: Console, report: ReadingReport) -> None:
    """Say what was not read."""
    for word, entries in (("skipped", report.skipped), ("ignored", report.ignored)):
        for entry in entries[:MOST_LISTED]:
            target.print(plain(f"{word} {entry.source}: {entry.reason}"), soft_wrap=True)
        if len(entries) > MOST_LISTED:
            target.print(plain(f"... and {len(entries) - MOST_LISTED:,} more {word}"))


def list_without_id(target: Console, report: ReadingReport) -> None:
    """Say how many documents got an id that says nothing."""
    if report.without_id:
        line = f"{counted(report.without_id, 'document')} had no id and got a hash of the content"
        target.print(plain(f"{line}; name a column with --id-column"), soft_wrap=True)


def written(target: Console, paths: Iterable[str | Path | None]) -> None:
    """Say which files were written."""
    for path in paths:
        if path is not None and str(path) != "-":
            target.print(plain(f"wrote {path}"), soft_wrap=True)
