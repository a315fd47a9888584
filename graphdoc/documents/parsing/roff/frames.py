"""Where lines of a roff source are read from, and the braces that make blocks of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_BRACE = re.compile(r"\\(.)", re.DOTALL)
# A condition without any of these is the same in each round of a loop: an escape, or what is defined.
_CHANGES = re.compile(r"\\(?!\{)|^!*\s*[drcm]")
_LEAVES = re.compile(r"[.'][ \t]*(?:break|return)\b")


@dataclass(slots=True)
class Frame:
    """Lines that are read: the source, the body of a macro with its arguments, or that of a loop.

    Args:
        lines: the lines.
        name: of the macro.
        arguments: of the macro.
        at: the next line.
        loop: what stands behind ``.while``: its condition, and what is on its line; empty for what is read once.
    """

    lines: list[str]
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    at: int = 0
    loop: str = ""


def is_endless(loop: str, body: list[str]) -> bool:
    """Whether a loop has no end, if it begins: its condition never changes, and nothing in it leaves it."""
    return not _CHANGES.search(loop) and not _LEAVES.search("\n".join(body))


def braces(text: str) -> int:
    """How many blocks open more than close."""
    return sum((found[1] == "{") - (found[1] == "}") for found in _BRACE.finditer(text)) if "\\" in text else 0


def without_braces(text: str, name: str = "") -> str:
    """A line without the ends of blocks in it; a condition keeps the brace that opens its own."""
    if "\\}" not in text or name in ("if", "ie", "el", "while"):
        return text
    return _BRACE.sub(lambda found: "" if found[1] == "}" else found[0], text)
