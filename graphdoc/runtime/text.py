"""Text from outside made harmless, counts with their nouns, and checks of arguments that name the value."""

from __future__ import annotations

import os
import re
import reprlib
import unicodedata
from collections.abc import Sequence
from numbers import Integral

from ..errors import SettingsError

# Characters that begin or close markup somewhere in Markdown, and may be written with a backslash in front.
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#+!|~&-]")
# How long the longest line of a hard-wrapped paragraph is, and the others but the last, of it.
_WRAPPED, _SHORTEST_OF_LONGEST = range(45, 101), 0.7


def printable(text: str) -> str:
    r"""Text in which a space stands for every control character, so that it cannot steer a terminal.

    >>> printable("tide\x1b[2J")
    'tide [2J'
    """
    return "".join(character if character.isprintable() else " " for character in text)


def one_line(text: str, width: int | None = None) -> str:
    """Text on one line, with single spaces and no control characters; cut to a width it ends in an ellipsis."""
    line = " ".join(text.split())
    line = line if line.isprintable() else " ".join(printable(line).split())
    return line if width is None or len(line) <= width else line[: width - 1].rstrip() + "…"


def unwrapped(text: str) -> str:
    r"""Text with spaces for the line ends inside of its hard-wrapped paragraphs, so that it is as long as before.

    >>> lines = "The keeper wrote down how high the water was\nat noon, and went home for the rest of the day.\n\nA\nB"
    >>> unwrapped(lines).split("\n")
    ['The keeper wrote down how high the water was at noon, and went home for the rest of the day.', '', 'A', 'B']
    """
    return "\n\n".join(map(_unwrapped, text.split("\n\n")))


def _unwrapped(paragraph: str) -> str:
    first, *lines = paragraph.split("\n")
    longest = max(map(len, (first, *lines)))
    # The first line of a passage may begin in the middle; lists and verse begin most lines with a capital.
    is_even = all(len(line) > _SHORTEST_OF_LONGEST * longest for line in lines[:-1])
    is_prose = 3 * sum(line[:1].islower() for line in lines) >= len(lines) and "\t" not in paragraph
    return " ".join((first, *lines)) if is_even and is_prose and longest in _WRAPPED else paragraph


def described(value: object) -> str:
    """A value with its type on one short line, for messages about values of the wrong type: ``5 (int)``."""
    return f"{one_line(reprlib.repr(value), 60)} ({type(value).__name__})"


def class_name(label: object) -> str:
    """The name of the class that a label means: in Unicode's form NFC, with single spaces, otherwise as written."""
    # Halves of surrogate pairs, which no file can hold, become question marks as in other files.
    return " ".join(unicodedata.normalize("NFC", str(label).encode("utf-8", "replace").decode("utf-8")).split())


def markdown(text: str, width: int | None = None) -> str:
    """Text on one line (see :func:`one_line`) in which Markdown sees no markup, also inside a table."""
    return _MARKUP.sub(r"\\\g<0>", one_line(text, width))


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as ``1 section``, ``3,000 sections`` or ``2 queries``."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


def left_out_line(count: int, reason: str) -> str:
    """How many were left out, and why.

    >>> left_out_line(2_000, "queries without text")
    'left out (queries without text): 2,000'
    """
    return f"left out ({reason}): {count:,}"


def section_name(heading: str, number: int, sections: int) -> str:
    """What to call a section, by its heading and its position among all sections, from 0."""
    if heading:
        return heading
    if sections == 1:
        return "Whole text"
    return "Without heading" if number else "Opening"


def require_one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise SettingsError for a value that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        given = repr(value) if isinstance(value, str) else described(value)
        raise SettingsError(f"{name} {given} is unknown; use one of {', '.join(choices)}")


def require_whole(name: str, value: object, *, least: int = 1, may_be_none: bool = True) -> None:
    """Raise SettingsError for what is no whole number of at least ``least``."""
    if value is None and may_be_none:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        given = value if type(value) is int else described(value)
        raise SettingsError(f"{name}={given} must be a whole number of at least {least}")


def require_seed(seed: object) -> None:
    """Raise SettingsError for what is no seed of NumPy and of scikit-learn: a whole number from 0 to 2**32 - 1."""
    require_whole("seed", seed, least=0, may_be_none=False)
    if int(seed) >= 2**32:  # type: ignore[call-overload]
        raise SettingsError(f"seed={described(seed)} must be less than 2**32")


def require_path(name: str, value: object) -> None:
    """Raise SettingsError for what names no file or folder."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        given = repr(value) if isinstance(value, str) else described(value)
        raise SettingsError(f"{name} {given} is no name of a file or folder; give a string or a Path")
