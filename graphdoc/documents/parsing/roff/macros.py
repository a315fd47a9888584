"""What writes the macros of a package, whichever it is."""

from __future__ import annotations

from .lines import Lines
from .page import Page


class Macros:
    """Writes what the macros of a package show.

    Args:
        page: where text goes.
        lines: the lines of the source, which resolve escapes.
    """

    def __init__(self, page: Page, lines: Lines) -> None:
        self._page = page
        self._lines = lines
        # What the header of the page says: name, section and so on.
        self.title: list[str] = []
