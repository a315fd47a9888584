"""The text of a page while it is formatted: filled or as it stands, into the outline, a heading, a tag or a cell."""

from __future__ import annotations

from ..outline import Break, Outline, one_line


class Page:
    """Takes words and lines, and puts between them what roff would.

    Args:
        outline: where headings and text go.
    """

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.filled = True
        # Whether the next word follows without a space.
        self.is_joint = False
        self._captured: list[str] | None = None

    @property
    def wrote(self) -> bool:
        """Whether what is captured has text."""
        return bool(self._captured)

    def capture(self) -> None:
        """What is written from now on is a heading, a tag or a cell."""
        self._captured = []
        self.is_joint = False

    def captured(self) -> str:
        """What was captured, on one line; what follows is text again."""
        text = one_line("".join(self._captured or ()))
        self._captured = None
        self.is_joint = False
        return text

    def gap(self, kind: Break) -> None:
        """Ask for a break before what follows."""
        if self._captured is None:
            self.outline.separate(kind)
        elif self._captured:
            self._captured.append(" ")
        if kind > Break.SPACE:
            self.is_joint = False

    def put(self, text: str) -> None:
        """Add words; a space before them, unless they are to follow at once."""
        if not text:
            return
        if not self.is_joint:
            self.gap(Break.SPACE)
        self.is_joint = False
        if self._captured is None:
            self.outline.write(text)
        else:
            self._captured.append(text)

    def start_line(self) -> None:
        """A line of the source begins, which is one of the page where lines stay as they are."""
        if not self.filled and not self.is_joint:
            self.gap(Break.LINE)

    def put_line(self, text: str, *, goes_on: bool = False) -> None:
        """Add a line of the source that is not blank; spaces at its start begin a line of the page.

        Args:
            text: the line without escapes.
            goes_on: whether the next one follows without a space.
        """
        if not text.strip():
            # Of escapes alone, such as a change of font.
            if not self.filled and not goes_on:
                self.gap(Break.PARAGRAPH)
            self.is_joint |= goes_on
            return
        self.start_line()
        if self.filled and text[0] in " \t":
            self.gap(Break.LINE)
        self.put(" ".join(text.split()) if self.filled else text.rstrip())
        self.is_joint = goes_on and not text[-1].isspace()
        if goes_on and not self.filled and not self.is_joint:
            self.gap(Break.SPACE)

    def start_section(self, heading: str, level: int) -> None:
        """Begin a section; lines are filled again."""
        self.filled, self.is_joint, self._captured = True, False, None
        self.outline.start_section(heading, level)
