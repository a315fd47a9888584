"""Tables of tbl(1): rows as lines, cells apart by tabs; the layout is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..outline import Break, one_line
from .lines import Lines
from .page import Page

_TAB = re.compile(r"\btab[ \t]*\((.)\)")
_RULES = frozenset({"_", "=", "\\_", "\\="})
_MARKS = _RULES | {"T{", "T}"}


def write_table(
    events: Iterator[tuple[str, str]], lines: Lines, page: Page, write: Callable[[str, str], None]
) -> tuple[str, str] | None:
    """Write a table up to its end.

    Args:
        events: the lines of the page, from the one after ``.TS`` on.
        lines: their source, which resolves escapes.
        page: where the rows go.
        write: writes a line of a block of text in a cell.

    Returns:
        A heading that begins before the table has ended, None if there is none.
    """
    tab, in_layout, is_first = "\t", True, True
    # A layout that never ends is no layout, and its lines are rows.
    layout: list[str] = []
    following: tuple[str, str] | None = None
    page.gap(Break.PARAGRAPH)
    for name, text in events:
        if name in ("SH", "SS", "Sh", "Ss"):
            following = name, text
            break
        if name == "TE":
            break
        if name in (".", "T&"):
            in_layout = name == "T&"
            layout.clear()
        elif name:
            page.capture()
            write(name, text)
            _write_row(page, [page.captured()])
        elif in_layout:
            if is_first and text.rstrip().endswith(";"):
                found = _TAB.search(text)
                tab = found[1] if found else tab
            in_layout = not text.rstrip().endswith(".")
            is_first = False
            layout.append(text)
        else:
            _write_row(page, _cells(text, tab, events, lines, page, write))
    if in_layout:
        has_options = bool(layout) and layout[0].rstrip().endswith(";")
        for text in layout[has_options:]:
            _write_row(page, [one_line(lines.shown(cell)) for cell in text.split(tab) if cell not in _MARKS])
    page.gap(Break.PARAGRAPH)
    return following


def _cells(
    text: str,
    tab: str,
    events: Iterator[tuple[str, str]],
    lines: Lines,
    page: Page,
    write: Callable[[str, str], None],
) -> list[str]:
    """The cells of a row, of which some go on over several lines as blocks of text."""
    cells: list[str] = []
    while True:
        *before, last = text.split(tab)
        cells += [one_line(lines.shown(cell)) for cell in before if cell not in _RULES]
        if last.strip() != "T{":
            if last not in _RULES:
                cells.append(one_line(lines.shown(last)))
            return cells
        page.capture()
        text = ""
        for name, inside in events:
            if name == "" and inside.startswith("T}"):
                text = inside[2:]
                break
            write(name, inside)
        cells.append(page.captured())
        if not text.startswith(tab):
            return cells
        text = text[len(tab) :]


def _write_row(page: Page, cells: list[str]) -> None:
    if any(cells):
        page.gap(Break.LINE)
        page.put("\t".join(cells))
        page.gap(Break.LINE)
