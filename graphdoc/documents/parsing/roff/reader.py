"""Manual pages in roff to sections: macros, fonts and layout out, headings, paragraphs, lists and tables as text."""

from __future__ import annotations

import re
from typing import Any

from ....errors import DocumentError
from ...section import Section, clean_line
from ..elements import names
from ..html import dropped_metadata
from ..outline import Outline, ParsedDocument, one_line
from .escapes import plain
from .lines import Lines
from .man import MAN, Man
from .mdoc import MDOC, Mdoc
from .page import Page
from .tables import write_table

_HEADINGS = {"SH": 1, "SS": 2, "Sh": 1, "Ss": 2}
# These stay as they are where a page defines them again: definitions set them in type, and name no headings.
_BUILTIN = names(
    "TH SH SS PP LP P TP TQ IP HP RS RE EX EE UR UE MT ME SY YS OP MR PD B I SM SB BI BR IB IR RB RI TS TE URL"
)
_IS_MDOC = re.compile(r"^\.[ \t]*(?:Dd|Dt|Sh)\b", re.MULTILINE)
_NOT_SHOWN = names("so mso sy pso pi open opena close write cf tl")
_KNOWN = MAN | MDOC | _NOT_SHOWN | frozenset(_HEADINGS) | names("TS TE T&")
_FIELDS = ("name", "manual_section", "date", "source", "manual")
_SHORTEST_CUT, _LONGEST_NAMES = 12, 2_000
_DESCRIBED = re.compile(r"(.*?)\s+[-\u2010-\u2015\u2212]+\s+(.*)", re.DOTALL)


def parse_roff(text: str) -> ParsedDocument:
    """Parse a manual page as its author wrote it, with the macros man(7) or mdoc(7).

    Its title is its name and section with what the part NAME says of it. Definitions of macros and strings are carried
    out, conditions decided as for a terminal, and nothing is included. Comments, branches for a printer and requests
    that are not carried out are counted in the metadata under ``dropped_elements``; macros that nothing defines leave
    their arguments.

    Args:
        text: the source.

    Returns:
        Title, sections, and what the page says of itself: ``manual_section``, ``date``, ``source``, ``manual``.

    Raises:
        DocumentError: the page only leads to another one, its macros grow without end, or many blocks have no end.
    """
    is_mdoc = _IS_MDOC.search(text) is not None
    lines = Lines(text, _BUILTIN | (MDOC if is_mdoc else frozenset()), _KNOWN)
    reader = _Reader(lines)
    target = reader.read()
    parsed = reader.page.outline.finish(opening_title=False)
    if target and not parsed.sections:
        raise DocumentError(f"it only leads to the page {one_line(target)}; read that one")
    title, metadata = reader.title(parsed.sections)
    metadata |= dropped_metadata(+lines.dropped)
    if lines.warnings:
        metadata["warnings"] = lines.warnings
    return ParsedDocument(parsed.sections, title, metadata)


class _Reader:
    def __init__(self, lines: Lines) -> None:
        self.page = Page(Outline())
        self._lines = lines
        self._man = Man(self.page, lines)
        self._mdoc = Mdoc(self.page, lines)

    def read(self) -> str:
        """Read the page; gives the page that it wants to be included, if any."""
        target = ""
        events = iter(self._lines)
        for name, rest in events:
            following: tuple[str, str] | None = (name, rest)
            if name == "TS":
                self._man.end_awaited()
                following = write_table(events, self._lines, self.page, self._write)
            if following is not None:
                self._write(*following)
            if name == "so":
                target = rest
        self._man.end_awaited()
        return target

    def _write(self, name: str, rest: str) -> None:
        if not name:
            self._man.text(rest)
        elif name in _HEADINGS:
            self._man.heading(_HEADINGS[name], rest)
            self._mdoc.section = one_line(plain(rest)).upper().strip('"')
        elif name in _NOT_SHOWN:
            self._lines.dropped[name] += 1
        elif not self._man.write(name, rest):
            self._mdoc.write(name, rest)

    def title(self, sections: tuple[Section, ...]) -> tuple[str, dict[str, Any]]:
        """Title, such as ``ls(1) - list directory contents``, and what else the page says of itself."""
        words = self._man.title or self._mdoc.title
        fields = dict(zip(_FIELDS, words, strict=False))
        if not self._man.title:
            fields |= {"date": self._mdoc.date, "source": self._mdoc.system}
        name = fields.pop("name", "")
        first = next((section.text for section in sections if section.heading), "").split("\n\n")[0]
        found = _DESCRIBED.match(one_line(first)) if len(first) <= _LONGEST_NAMES else None
        if found:
            listed = [one.strip() for one in found[1].split(",")]
            name = _spelled(name, listed)
        section = fields.get("manual_section", "")
        title = f"{name}({section})" if name and section else name
        title += f" - {found[2]}" if found and title else ""
        cleaned = {key: clean_line(value, key) for key, value in fields.items()}
        return clean_line(title, "title"), {key: value for key, value in cleaned.items() if value}


def _spelled(name: str, listed: list[str]) -> str:
    """A page's name as the part NAME spells it, since headers have it in capitals, and long ones cut off."""
    plain_name = name.casefold()
    for one in listed:
        is_cut = len(name) >= _SHORTEST_CUT and one.casefold().startswith(plain_name)
        if one.casefold() == plain_name or is_cut:
            return one
    return name or listed[0]
