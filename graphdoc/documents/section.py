"""What a section of a document is, text that is safe for every library that follows, and lasting metadata."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, NoReturn

from ..errors import DocumentError
from ..runtime.text import described

_DEEPEST_LEVEL = 10_000
# Every section below a heading has it in its path: one that is a page long would be there thousands of times.
PATH_CHARACTERS = 500
# Readers give no more headings of a path than these, the innermost ones: sections may be nested thousands deep.
DEEPEST_PATH = 100


@dataclass(frozen=True, slots=True)
class Section:
    r"""A titled part of a document; its texts are cleaned when it is made (see :class:`~graphdoc.Document`).

    Args:
        text: the running text, without its heading; paragraphs are separated by a blank line.
        heading: the heading as written, empty for text that stands before the first heading.
        level: the heading's level as written (``##`` and ``<h2>`` are 2), in XML its depth; 1 is the outermost.
        path: headings from the outermost enclosing section down to and including this one; the title is not in it. Of
            a heading that is longer, a path has the first 500 characters.

    Raises:
        DocumentError: a value is of the wrong type, or the level is out of range.

    >>> Section("Waves\r\nbreak.", heading=" Shore  lines ")
    Section(text='Waves\nbreak.', heading='Shore lines', level=1, path=())
    """

    text: str
    heading: str = ""
    level: int = 1
    path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise DocumentError(f"its text is {described(self.text)}; give a string")
        object.__setattr__(self, "text", normalized(clean_text(self.text)))
        object.__setattr__(self, "heading", clean_line(self.heading, "heading"))
        object.__setattr__(self, "level", _checked_level(self.level))
        path: Any = self.path
        if isinstance(path, str) or not isinstance(path, Iterable):
            raise DocumentError(f"its path is {described(path)}; give the headings as a list")
        above = (one[:PATH_CHARACTERS] if isinstance(one, str) else one for one in path)
        object.__setattr__(self, "path", tuple(clean_line(one, "path") for one in above))


def is_missing(value: Any) -> bool:
    """Whether a value stands for no value: None, or the NaN or NA that tables put in its place."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def clean_text(text: str) -> str:
    """Make text safe for every library that follows.

    Byte order marks at its start go, line ends of Windows and old Macs become plain ones, NUL characters become
    spaces, and halves of surrogate pairs U+FFFD. All else is kept as it is.
    """
    text = text.lstrip("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", " ")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Two halves that stand side by side are one character; what is left over is replaced.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


# Soft hyphens and characters without width that are no letters of any script.
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff]")
# An i that lost its dot to an accent, as LaTeX writes it.
_DOTLESS = re.compile("ı(?=[\u0300-\u036f])")
# To order such runs takes time that grows with the square of their length.
_MANY_MARKS = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u064b-\u065f]{100}")
_SPELLED_OUT = {
    **{0x2010: "-", 0x2011: "-"},
    **{0xFB00 + number: text for number, text in enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"))},
    **{code: chr(code - 0xFEE0) for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))},
}
_SPELLED = re.compile("[\u2010\u2011\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]")


def normalized(text: str) -> str:
    """One form for words that look the same, since models and searches read others as other words.

    Accents are joined with their letters (NFC), Latin ligatures and full-width letters and digits spelled out,
    hyphens made plain, soft ones and characters without width left out, but for the joiners of scripts and emoji.

    >>> normalized("so\u00adft\u200bware o\ufb03ce \uff21\uff12")
    'software office A2'
    """
    if text.isascii():
        return text
    if _SPELLED.search(text) is not None:
        text = text.translate(_SPELLED_OUT)
    if _INVISIBLE.search(text) is not None:
        text = _INVISIBLE.sub("", text)
    if "ı" in text:
        text = _DOTLESS.sub("i", text)
    return text if _MANY_MARKS.search(text) is not None else unicodedata.normalize("NFC", text)


def clean_line(text: Any, name: str) -> str:
    """Clean text that stands on one line, such as a heading; ``name`` says what it is, for messages."""
    if not isinstance(text, str):
        raise DocumentError(f"its {name} is {described(text)}; give a string")
    cleaned = " ".join(normalized(clean_text(text)).split())
    # What is clean stays the same object: sections share the headings above them.
    return text if cleaned == text else cleaned


def _checked_level(level: Any) -> int:
    if isinstance(level, float) and level.is_integer():
        level = int(level)
    try:
        number = 0 if isinstance(level, bool) else index(level)
    except TypeError:
        number = 0
    if not 1 <= number <= _DEEPEST_LEVEL:
        raise DocumentError(f"its level is {described(level)}; give a whole number from 1 to {_DEEPEST_LEVEL:,}")
    return number


# Characters of page furniture (navigation, headers, popups) that a reader left out, white space not counted.
FURNITURE_CHARACTERS = "furniture_characters"


class Metadata(dict[str, Any]):
    """A dictionary that cannot be changed; lists inside it are tuples, sets frozen, dictionaries of this kind.

    Args:
        values: a mapping, or pairs of keys and values.
    """

    def __init__(self, values: Any = ()) -> None:
        super().__init__((key, _frozen(value)) for key, value in dict(values).items())

    def __reduce__(self) -> tuple[Any, ...]:
        return Metadata, (dict(self),)

    def plain(self) -> dict[str, Any]:
        """The same with plain dictionaries and lists, as JSON has them."""
        return {key: _thawed(value) for key, value in self.items()}

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the metadata of a document cannot change; make another document with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


def _frozen(value: Any) -> Any:
    if isinstance(value, Metadata | str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return Metadata(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_frozen(entry) for entry in value)
    return frozenset(value) if isinstance(value, set) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, Metadata):
        return value.plain()
    return [_thawed(entry) for entry in value] if isinstance(value, tuple) else value
