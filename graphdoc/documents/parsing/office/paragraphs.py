"""Paragraphs of a word processor to sections: headings by style, and by lines that are bold or larger throughout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..outline import Break, Outline, ParsedDocument, joined_lines

if TYPE_CHECKING:
    from lxml.etree import _Element

_LONGEST, _MOST_WORDS = 150, 20
_LARGER = 1.15
_ENDS_AS_TEXT = re.compile(r"[.,;:!][\"'”’)]*$")
_NUMBERED = re.compile(r"^(?:\d+(?:\.\d+)*|[IVXLC]+|[A-Z])[.)]?\s")
_CAPTION = re.compile(r"^(?:figure|fig\.|table|tab\.|abbildung|tabelle|listing)\s*\d+", re.IGNORECASE)


@dataclass(slots=True)
class Paragraph:
    """A paragraph, an entry of a list, or a row of a table.

    Args:
        text: its words.
        kind: ``title``, ``heading``, ``text``, ``item``, ``row`` or ``code``.
        level: of a heading.
        size: of most of its letters in points, 0 if unknown.
        strong: whether all of it is bold or underlined.
        notes: texts of notes that it has marks of.
    """

    text: str
    kind: str = "text"
    level: int = 0
    size: float = 0.0
    strong: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Collected:
    """What a paragraph holds, while it is read: pieces of text, sizes of its letters, notes, and text boxes."""

    parts: list[str] = field(default_factory=list)
    sizes: Counter[float] = field(default_factory=Counter)
    strong: int = 0
    letters: int = 0
    notes: list[str] = field(default_factory=list)
    boxes: list[_Element] = field(default_factory=list)

    def add(self, text: str, size: float, *, strong: bool) -> None:
        """Add a piece of text."""
        self.parts.append(text)
        letters = len("".join(text.split()))
        self.letters += letters
        self.sizes[size] += letters
        self.strong += letters * strong

    def paragraph(self, kind: str, usual: float) -> Paragraph:
        """The paragraph; where it has no text, it is of the usual size."""
        size = self.sizes.most_common(1)[0][0] if self.sizes else usual
        return Paragraph("".join(self.parts), kind, 0, size, 0 < self.letters == self.strong, self.notes)


def parsed_paragraphs(paragraphs: Sequence[Paragraph]) -> ParsedDocument:
    """Make sections of paragraphs.

    Where a paragraph has no style of a heading, it is one if all of it is bold, underlined or larger than the text, it
    is short, does not end as a sentence does, and other text follows.
    """
    paragraphs = [paragraph for paragraph in paragraphs if paragraph.text.strip() or paragraph.notes]
    _find_headings(paragraphs)
    outline = Outline()
    title, before, is_title = "", "", True
    for paragraph in paragraphs:
        text = paragraph.text
        # A title may be written in several paragraphs, and some programs write it twice.
        is_title = paragraph.kind == "title" and (not title or (is_title and len(title) < _LONGEST))
        if is_title:
            title = title if joined_lines(text) == title else f"{title} {joined_lines(text)}".strip()
        elif paragraph.kind in ("title", "heading"):
            if before or joined_lines(text) != title:
                outline.start_section(text, paragraph.level or 1)
        else:
            inside = paragraph.kind in ("item", "row", "code") and paragraph.kind == before
            outline.separate(Break.LINE if inside else Break.PARAGRAPH)
            outline.write(text if paragraph.kind == "code" else text.strip())
        for note in paragraph.notes:
            outline.separate(Break.PARAGRAPH)
            outline.write(note)
        # What follows a note is a paragraph of its own.
        before = "" if paragraph.notes or paragraph.kind == "title" else paragraph.kind
        outline.separate(Break.LINE)
    parsed = outline.finish(opening_title=not title)
    return ParsedDocument(parsed.sections, title or parsed.title)


def _find_headings(paragraphs: Sequence[Paragraph]) -> None:
    sizes: Counter[float] = Counter()
    strong = 0
    for paragraph in paragraphs:
        if paragraph.kind in ("text", "item"):
            sizes[paragraph.size] += len(paragraph.text)
            strong += len(paragraph.text) * paragraph.strong
    if not sizes:
        return
    usual = max(sizes, key=lambda size: sizes[size])
    # Bold throughout says nothing.
    strong_counts = strong <= 0.5 * sizes.total()
    deepest = max((paragraph.level for paragraph in paragraphs if paragraph.kind == "heading"), default=0)
    found = [place for place in range(len(paragraphs)) if _is_heading(paragraphs, place, usual, strong_counts)]
    ranks = {size: rank for rank, size in enumerate(sorted({paragraphs[at].size for at in found}, reverse=True), 1)}
    for place in found:
        paragraph = paragraphs[place]
        # A single larger line at the start is the title; numbers say how deep a heading is.
        number = _NUMBERED.match(paragraph.text)
        depth = number[0].strip(" .)").count(".") if number else 0
        paragraph.kind, paragraph.level = "heading", deepest + ranks[paragraph.size] + depth


def _is_heading(paragraphs: Sequence[Paragraph], place: int, usual: float, strong_counts: bool) -> bool:
    paragraph = paragraphs[place]
    text = joined_lines(paragraph.text)
    if paragraph.kind not in ("text", "item") or (paragraph.notes and len(text) > _LONGEST):
        return False
    larger = usual > 0 and paragraph.size >= _LARGER * usual
    if not (larger or (paragraph.strong and strong_counts)):
        return False
    # An entry of a list that has text and no other entry before and after it is as numbered headings are.
    beside = (*paragraphs[max(place - 1, 0) : place], *paragraphs[place + 1 : place + 2])
    if paragraph.kind == "item" and not larger and any(other.kind == "item" for other in beside):
        return False
    letters = sum(map(str.isalpha, text))
    if letters < 2 or len(text) > _LONGEST or len(text.split()) > _MOST_WORDS or "\n" in paragraph.text.strip():
        return False
    if _CAPTION.match(text) or (_ENDS_AS_TEXT.search(text) and not larger):
        return False
    # The last line of a document, such as a name under a letter, heads nothing.
    return any(other.kind in ("text", "item", "row", "code") for other in paragraphs[place + 1 : place + 4])
