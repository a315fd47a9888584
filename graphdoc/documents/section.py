"""What a section of a document is, and text that is safe for every library that follows."""

from __future__ import annotations

import re
from dataclasses import dataclass

HALF_PAIRS = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a document.

    Args:
        text: the running text, without its heading; paragraphs are separated by a blank line.
        heading: the heading as written, empty for text that stands before the first heading.
        level: the heading's level as written (``##`` and ``<h2>`` are 2), in XML its depth; 1 is the outermost.
        path: headings from the outermost enclosing section down to and including this one; the title is not in it.
    """

    text: str
    heading: str = ""
    level: int = 1
    path: tuple[str, ...] = ()


def clean_text(text: str) -> str:
    """Make text safe for every library that follows: no byte order mark, NUL, carriage return or half of a pair."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text.isascii() and HALF_PAIRS.search(text):
        # Two halves that stand side by side are one character; what is left over is replaced.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
