"""Lines that several commands print about documents and how they were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ..documents.document import Document
from ..runtime.text import counted
from ..segmentation.spans import PASSAGE_LIMIT, REPEATED, Coverage
from .tables import plain

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport

MOST_LISTED = 20
# Of a line that quotes a text.
LINE_WIDTH = 118


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
        print_lines(target, [f"{line}; name a column with --id-column"])
