"""The outline of a document while it is parsed: headings and running text in, sections out."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ..section import DEEPEST_PATH, PATH_CHARACTERS, Section

_NUMBER = re.compile(r"^(?:\d+|[A-Z])(?:\.\d+)*[.):]?\s+")
_SHORTEST_TITLE, _FEWEST_LISTED = 3, 5
_WORD = re.compile(r"\w+")
# What chapters and other parts are called.
PARTS = (
    "chapter|part|appendix|section|kapitel|teil|anhang|chapitre|partie|annexe|cap[ií]tulo|ap[eé]ndice|capitolo|parte|"
    "appendice|hoofdstuk|bijlage|rozdział|kapitola|глава|часть|приложение|розділ|частина|додаток|bölüm|κεφάλαιο|παράρτημα"
)
# What a table of contents is called.
CONTENTS = re.compile(
    r"(?:table of )?contents(?: of this (?:page|article|section))?|on this page|in this (?:article|page|section)|toc|"
    r"inhalt(?:sverzeichnis)?|table des mati[eè]res|sommaire|inhoud(?:sopgave)?|[ií]ndice(?: generale?)?|"
    r"conte[uú]do|(?:tabla de )?contenidos?|spis tre[sś]ci|оглавление|содержание|зміст|目次|目录|目錄|차례|목차|"
    r"innehåll(?:sförteckning)?|in[dn]hold(?:sfortegnelse)?|sisällys(?:luettelo)?|obsah|içindekiler|"
    r"list of (?:figures|tables|illustrations)",
    re.IGNORECASE,
)
_WHITE_SPACE = re.compile(r"[ \t\n\r\f\v]+")


class Break(IntEnum):
    """What stands between two pieces of text; of several that meet, the strongest stays."""

    NONE = 0
    SPACE = 1
    CELL = 2
    LINE = 3
    PARAGRAPH = 4


_SEPARATORS = {Break.NONE: "", Break.SPACE: " ", Break.CELL: "\t", Break.LINE: "\n", Break.PARAGRAPH: "\n\n"}


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a parser makes of a file: the parts of a document that has no id yet.

    Args:
        sections: the sections in reading order.
        title: the title that the markup gives, empty when there is none.
        metadata: what else the markup says, and what the parser left out.
    """

    sections: tuple[Section, ...]
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def dropped_metadata(dropped: Mapping[str, int]) -> dict[str, Any]:
    """Report dropped elements in the metadata; the head of a page holds no text and is not worth a word."""
    counts = {name: count for name, count in sorted(dropped.items()) if count and name != "head"}
    return {"dropped_elements": counts} if counts else {}


def parsed_document(
    sections: tuple[Section, ...], title: str, dropped: Counter[str], warnings: Sequence[str] = (), **other_titles: str
) -> ParsedDocument:
    """Put together what a parser found.

    Args:
        sections: the sections.
        title: the title.
        dropped: how many elements were left out, by name.
        warnings: what is not as it should be.
        **other_titles: another title by the key of the metadata that keeps it where it differs from the title; without
            a title it is the title itself.
    """
    metadata = dropped_metadata(dropped)
    if warnings:
        metadata["warnings"] = list(warnings)
    for key, other in other_titles.items():
        if title and other and other != title:
            metadata[key] = other
        title = title or other
    return ParsedDocument(sections, title, metadata)


@dataclass(slots=True)
class _Entry:
    heading: str
    level: int
    resumed: bool = False
    only_pictures: bool = True
    parts: list[str] = field(default_factory=list)


def _take_title(entries: list[_Entry], page_title: str) -> str:
    """Take the first heading out where it stands above all others and the page's title confirms it."""
    headings = [entry for entry in entries if entry.heading]
    if not headings or any(entry.level <= headings[0].level for entry in headings[1:]):
        return ""
    named, called = _NUMBER.sub("", headings[0].heading).casefold(), joined_lines(page_title).casefold()
    # The name of a site stands above the heading that the page is called after, and with a number it is a chapter.
    is_site = any(called in other.heading.casefold() for other in headings[1:2])
    may_say_more = headings[0].level == 1 and named == headings[0].heading.casefold() and not is_site
    says_more = may_say_more and re.search(rf"(?<!\w){re.escape(called)}(?!\w)", named) is not None
    if min(len(named), len(called)) < _SHORTEST_TITLE or not (says_more or named in called):
        return ""
    return _take_heading(entries, headings[0])


def _take_heading(entries: list[_Entry], first: _Entry) -> str:
    """Take the first heading out; the text before it and the text after it are one opening."""
    title, first.heading = first.heading, ""
    if entries[0] is not first:
        _join_opening(entries)
    return title


def _join_opening(entries: list[_Entry]) -> None:
    """Put the text before the first heading into the section of that heading."""
    before, first = entries.pop(0), entries[0]
    between = [_SEPARATORS[Break.PARAGRAPH]] if before.parts and first.parts else []
    first.parts[:0] = before.parts + between


def joined_lines(text: str) -> str:
    """Join a text that was broken over lines with single spaces."""
    return " ".join(text.split())


def words(text: str) -> str:
    """The words of a heading as they are compared: without case, number and punctuation."""
    return "".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


class Outline:
    """Collects headings and text in reading order and turns them into sections."""

    def __init__(self) -> None:
        self._entries = [_Entry("", 1)]
        self._pending = Break.NONE
        self._is_picture = False

    def start_section(self, heading: str, level: int) -> None:
        """Start a section; a section without a heading is part of the one that encloses it."""
        self._entries.append(_Entry(joined_lines(heading), level))
        self._pending = Break.NONE

    def resume(self, level: int) -> None:
        """Go back to the enclosing section of that level, whose text goes on after an inner section."""
        self._entries.append(_Entry("", level, resumed=True))
        self._pending = Break.NONE

    def separate(self, kind: Break) -> None:
        """Ask for a break before the next text."""
        self._pending = max(self._pending, kind)

    def new_line(self) -> None:
        """Break the line; two in a row end the paragraph, as in HTML."""
        self._pending = Break.PARAGRAPH if self._pending >= Break.LINE else Break.LINE

    def new_cell(self) -> None:
        """Go to the next cell of a table row, whatever break the previous cell ended with."""
        self._pending = Break.CELL

    def write(self, text: str, *, picture: bool = False) -> None:
        """Add text as it stands; ``picture`` says that it is the alternative text of one."""
        if not text:
            return
        parts = self._entries[-1].parts
        self._entries[-1].only_pictures &= picture or not any(map(str.isalpha, text))
        # What a picture stands for is a word of its own, unless it is a letter or two.
        is_beside = bool(parts) and self._pending == Break.NONE and (picture or self._is_picture)
        if is_beside and len(parts[-1]) > 2 < len(text) and parts[-1][-1].isalnum() and text[0].isalnum():
            self._pending = Break.SPACE
        self._is_picture = picture
        if parts:
            parts.append(_SEPARATORS[self._pending])
        parts.append(text)
        self._pending = Break.NONE

    def write_running(self, text: str, *, picture: bool = False) -> None:
        """Add text in which any white space counts as one space, as in HTML and XML."""
        collapsed = _WHITE_SPACE.sub(" ", text)
        if collapsed.startswith(" "):
            self.separate(Break.SPACE)
        self.write(collapsed.strip(" "), picture=picture)
        if collapsed.endswith(" "):
            self.separate(Break.SPACE)

    def drop_contents(self) -> int:
        """Drop a list of contents made of headings: those before all text of sections that stand again below."""
        named = list(itertools.dropwhile(lambda entry: not entry.heading, self._entries))
        bare = [*itertools.takewhile(lambda entry: not any(map(str.isalpha, "".join(entry.parts))), named)]
        if len(bare) < _FEWEST_LISTED:
            return 0
        below = Counter(line.strip() for entry in named for line in (entry.heading, *"".join(entry.parts).split("\n")))
        listed: set[int] = set()
        for entry in bare:
            below[entry.heading] -= 1
            listed |= {id(entry)} if entry.heading and not entry.parts and below[entry.heading] else set()
        if len(listed) < max(_FEWEST_LISTED, 0.8 * len(bare)):
            return 0
        self._entries = [entry for entry in self._entries if id(entry) not in listed]
        return len(listed)

    def finish(
        self, *, opening_title: bool = True, page_title: str = "", pictures_before_title: bool = False
    ) -> ParsedDocument:
        """Make the sections.

        Args:
            opening_title: take the only heading of level 1 for the title when it opens the document.
            page_title: a title from elsewhere; the first heading is the title, at any level and after any text, where
                no other heading is of that level or above it, and it is in this title.
            pictures_before_title: whether pictures may stand before the heading that opens the document.

        Returns:
            Title (empty if there is none) and sections with levels and heading paths.
        """
        entries = [entry for entry in self._entries if entry.heading or entry.parts]
        title = ""
        before = pictures_before_title and len(entries) > 1 and not entries[0].heading and entries[0].only_pictures
        first = entries[before] if entries else None
        if opening_title and first is not None and first.heading and first.level == 1:
            others = [entry for entry in entries if entry.heading and entry is not first]
            named = _NUMBER.sub("", page_title).casefold()
            # The name of a site stands above the heading that the page is called after.
            is_site = len(named) >= _SHORTEST_TITLE and any(named in other.heading.casefold() for other in others[:1])
            if all(other.level != 1 for other in others) and (not is_site or first.heading.casefold() in named):
                title = _take_heading(entries, first)
        if not title and page_title:
            title = _take_title(entries, page_title)
        if not title and before:
            _join_opening(entries)
        sections: list[Section] = []
        # Level, heading, and the heading as paths have it, which all sections below it share.
        enclosing: list[tuple[int, str, str]] = []
        for entry in entries:
            innermost = entry.level + 1 if entry.resumed else entry.level
            while enclosing and enclosing[-1][0] >= innermost:
                enclosing.pop()
            heading = entry.heading
            if heading:
                enclosing.append((entry.level, heading, heading[:PATH_CHARACTERS].rstrip()))
            elif entry.resumed and enclosing and enclosing[-1][0] == entry.level:
                heading = enclosing[-1][1]
            text = "".join(entry.parts).strip("\n").rstrip()
            if text or heading:
                path = tuple(name for _, _, name in enclosing[-DEEPEST_PATH:])
                sections.append(Section(text=text, heading=heading, level=max(entry.level, 1), path=path))
        return ParsedDocument(tuple(sections), title)
