"""Text from outside, made harmless for a terminal, a log or a plot."""

from __future__ import annotations

import re
import reprlib
import unicodedata

# Characters that begin or close markup somewhere in Markdown, and may be written with a backslash in front.
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#+!|~&-]")


def printable(text: str) -> str:
    r"""Text in which a space stands for every control character, so that it cannot steer a terminal.

    >>> printable("tide\x1b[2J")
    'tide [2J'
    """
    return "".join(character if character.isprintable() else " " for character in text)


def one_line(text: str, width: int | None = None) -> str:
    """Put text on one line without control characters (see :func:`printable`).

    Args:
        text: any text.
        width: most characters; longer text is cut and ends in an ellipsis.

    Returns:
        The text with single spaces.
    """
    line = " ".join(printable(text).split())
    return line if width is None or len(line) <= width else line[: width - 1].rstrip() + "…"


def described(value: object) -> str:
    """A value with its type on one short line, for messages about values of the wrong type: ``5 (int)``."""
    return f"{one_line(reprlib.repr(value), 60)} ({type(value).__name__})"


def class_name(label: object) -> str:
    """The name of the class that a label means: on one line, with single spaces, and otherwise as it is written.

    Labels that differ in white space alone mean one class, and so do those that write the same characters with other
    code points, as some file systems do (Unicode's form NFC). Markup is part of a name, and is escaped wherever names
    are shown.

    Args:
        label: a string, or a number that stands for a class.
    """
    # Halves of surrogate pairs, which no file can hold, become question marks as in other files.
    written = unicodedata.normalize("NFC", str(label).encode("utf-8", "replace").decode("utf-8"))
    return " ".join(written.split())


def markdown(text: str, width: int | None = None) -> str:
    """Text on one line in which Markdown sees no markup, also inside a table.

    Args:
        text: any text.
        width: most characters of the text itself; longer text is cut and ends in an ellipsis.
    """
    return _MARKUP.sub(r"\\\g<0>", one_line(text, width))
