r"""Lines of roff to plain text: fonts and motions out, ``\-``, ``\(em`` and the like as what they stand for."""

from __future__ import annotations

import re

from .characters import character

# The end of an argument in delimiters is looked for nearby, so that many that have none take no longer than others.
_ESCAPE = re.compile(
    r"""\\(?:
        \((?P<two>..)
      | \[(?P<long>[^\]]{0,200})\]
      | (?:[fFmMgkYVnO*]|\*)[+-]?(?P<switch>\(..|\[[^\]]{0,200}\]|.)
      | s(?P<size>[+-]?(?:\(..|\[[^\]]{0,20}\]|'[^']{0,20}'|[1-3]\d|\d))
      | (?P<kind>[ABbCDHhLlNoRSvwXxZ])(?P<mark>[^\s\w\\])(?P<inside>.{0,200}?)(?P=mark)
      | (?P<one>.)
      | \Z
    )""",
    re.VERBOSE | re.DOTALL,
)
_ONE = {
    **dict.fromkeys(" ~0p", " "),
    **dict.fromkeys("|^&)/,:%{}c!?aurdz", ""),
    **dict.fromkeys("eE\\", "\\"),
    "t": "\t",
}
_MOVES_ON = re.compile(r"\+|0*\.?[1-9]")
_COMMENT = re.compile(r"\\(?:([\"#])|.)", re.DOTALL)
_ARGUMENT = re.compile(r"""(?:"((?:[^"]|"")*)"?|((?:\\.|[^ \t\\]|\\$)+))""", re.DOTALL)


def plain(text: str) -> str:
    r"""The text of a line of roff.

    >>> plain(r"\fB\-a\fR, \(em\[u2019]\&")
    '-a, —’'
    """
    return _ESCAPE.sub(_resolved, text) if "\\" in text else text


def _resolved(found: re.Match[str]) -> str:
    if name := found["two"] or found["long"]:
        return character(name)
    if one := found["one"]:
        return _ONE.get(one, one)
    inside = found["inside"] or ""
    match found["kind"]:
        case "h":
            return " " if _MOVES_ON.match(inside) else ""
        case "N":
            return chr(int(inside)) if inside.isascii() and inside.isdigit() and len(inside) < 6 else ""
        case "C":
            return character(inside)
        case "o":
            # Characters one above the other: the first is the letter.
            return plain(inside)[:1]
        case "b" | "Z":
            return plain(inside)
        case _:
            return ""


def uncommented(line: str) -> str:
    r"""A line without the comment at its end."""
    if '\\"' not in line and "\\#" not in line:
        return line
    for found in _COMMENT.finditer(line):
        if found[1]:
            return line[: found.start()]
    return line


def arguments(text: str) -> list[str]:
    r"""The arguments of a macro, with their escapes; quotation marks hold spaces, two of them stand for one.

    >>> arguments(r'-a "two words" x\ y')
    ['-a', 'two words', 'x\\ y']
    """
    return [text for text, _ in quoted_arguments(text)]


def quoted_arguments(text: str) -> list[tuple[str, bool]]:
    """The arguments of a macro, each with whether it stood in quotation marks."""
    return [
        (found[2], False) if found[1] is None else (found[1].replace('""', '"'), True)
        for found in _ARGUMENT.finditer(text)
    ]
