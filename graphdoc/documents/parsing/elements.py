"""Trees of elements (HTML, JATS, TEI): parsed safely, and read to running text by a vocabulary of what they mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.entities import html5
from typing import TYPE_CHECKING, Any

from lxml import etree

from ...errors import DocumentError
from .outline import Break, Outline, joined_lines

if TYPE_CHECKING:
    from lxml.etree import _Element

_PROLOG = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
# Comments and instructions in a DOCTYPE may hold anything, also what looks like the root element.
_ROOT = re.compile(r"<!--|<\?|<[^\W\d]")


def parse_tree(text: str) -> _Element:
    """Parse XML text safely; a DOCTYPE that only names a DTD, as JATS files have, is accepted and never loaded.

    Raises:
        DocumentError: the DOCTYPE declares entities.
        lxml.etree.XMLSyntaxError: the text is not well-formed.
    """
    prolog = _PROLOG.match(text)
    start = prolog.end() if prolog else 0
    refused = "its DOCTYPE declares entities, which are not read for safety; save the XML without them"
    if text.startswith("<!DOCTYPE", start) and "<!ENTITY" in text[start : _root(text, start)]:
        raise DocumentError(refused)
    closed: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False, "dtd_validation": False}
    # Texts of more than 10 MB are legitimate; the limits that huge_tree lifts guard against entities, refused above.
    parser = etree.XMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, **closed)
    root = etree.fromstring(text.lstrip().encode("utf-8"), parser)
    subset: Any = root.getroottree().docinfo.internalDTD
    if subset is not None and subset.entities():
        raise DocumentError(refused)
    return root


def _root(text: str, start: int) -> int:
    """Where the root element starts; what has no end, in text that is not well-formed, goes on to the end."""
    while (found := _ROOT.search(text, start)) is not None:
        end = {"<!--": "-->", "<?": "?>"}.get(found[0])
        if end is None:
            return found.start()
        closed = text.find(end, found.end())
        if closed < 0:
            break
        start = closed + len(end)
    return len(text)


# Pictures before and after the words of a heading; texts never contain NUL.
_ICON = re.compile(r"\A(?:\s*\0[^\0]*\0)+|(?:\0[^\0]*\0\s*)+\Z")
# libxml2 itself drops, with no more than a note in its log, what is nested deeper than 2048 elements.
_DEEPEST = 2000
_TEX_BODY = re.compile(r"\\begin\{document\}(.*?)\\end\{document\}", re.DOTALL)


@dataclass(frozen=True)
class Vocabulary:
    """What the elements of a markup language mean for the text; elements that are not named are inline.

    Args:
        dropped: left out with all they contain, and counted.
        blocks: paragraphs and whatever else stands apart by a blank line.
        lines: stand on a line of their own; inside them blocks do so too.
        rows: rows of tables.
        cells: cells of tables.
        verbatim: white space counts as written.
        images: empty elements that have an alternative text.
        line_breaks: empty elements that break a line.
        heading_levels: headings by the level they name.
        sections: elements that contain a section and get their level from their depth.
        headings: headings of those.
        default_headings: headings of section elements that have none.
        labels: numbers of sections, written before their heading.
        quotations: elements in which a heading is no heading of the document.
        notes: notes inside a paragraph, whose text follows after that paragraph.
    """

    dropped: frozenset[str] = frozenset()
    blocks: frozenset[str] = frozenset()
    lines: frozenset[str] = frozenset()
    rows: frozenset[str] = frozenset()
    cells: frozenset[str] = frozenset()
    verbatim: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    line_breaks: frozenset[str] = frozenset()
    heading_levels: dict[str, int] = field(default_factory=dict)
    sections: frozenset[str] = frozenset()
    headings: frozenset[str] = frozenset()
    default_headings: dict[str, str] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    quotations: frozenset[str] = frozenset()
    notes: frozenset[str] = frozenset()


def names(text: str) -> frozenset[str]:
    """The set of the names in a text."""
    return frozenset(text.split())


def local_name(element: _Element) -> str:
    """Name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


@dataclass(slots=True)
class _OpenSection:
    level: int
    default_heading: str
    started: bool = False
    interrupted: bool = False
    label: str = ""


class ElementReader:
    """Writes the text of elements to an outline; without ``headings`` headings are text and start no sections."""

    def __init__(self, outline: Outline, vocabulary: Vocabulary, *, headings: bool = True) -> None:
        self.outline = outline
        self.vocabulary = vocabulary
        self.dropped: Counter[str] = Counter()
        self._headings = headings
        self._sections: list[_OpenSection] = []
        self._captures: list[list[str]] = []
        self._notes: list[str] = []
        self._lines = self._verbatim = self._quotations = 0
        self._verbatim_parts: list[str] = []
        self._row_is_new, self._cell_is_new, self._outer_interrupted = True, False, False

    def read(self, root: _Element) -> None:
        """Read an element with everything inside it."""
        words = self.vocabulary
        if local_name(root) in words.dropped:
            self.dropped[local_name(root)] += 1
            return
        self._start(root)
        self._text(root.text, root)
        open_elements: list[tuple[_Element, Iterator[_Element]]] = [(root, iter(root))]
        while open_elements:
            element, children = open_elements[-1]
            child = next(children, None)
            if child is None:
                open_elements.pop()
                self._end(element)
                if open_elements:
                    self._text(element.tail, open_elements[-1][0])
                continue
            if isinstance(child, etree._Entity):
                # The parser left it alone, since its declaration is in a DTD that is never loaded.
                name = str(child.name)
                self._text(html5.get(f"{name};", f"&{name};"), element)
                self._text(child.tail, element)
            elif local_name(child) in words.dropped:
                self.dropped[local_name(child)] += 1
                self._text(child.tail, element)
            else:
                if len(open_elements) >= _DEEPEST:
                    raise DocumentError(f"its elements are nested deeper than {_DEEPEST} levels; flatten the markup")
                self._start(child)
                self._text(child.text, child)
                open_elements.append((child, iter(child)))
        self._write_notes()

    def _is_heading(self, element: _Element, name: str) -> bool:
        if not self._headings or self._quotations:
            return False
        if name in self.vocabulary.heading_levels:
            return True
        if name not in self.vocabulary.headings and name not in self.vocabulary.labels:
            return False
        parent = element.getparent()
        if parent is None or local_name(parent) not in self.vocabulary.sections or not self._sections:
            return False
        return not self._sections[-1].started

    def _start(self, element: _Element) -> None:
        name, words = local_name(element), self.vocabulary
        if name in words.sections and not self._quotations:
            level = self._sections[-1].level + 1 if self._sections else 1
            self._sections.append(_OpenSection(level, words.default_headings.get(name, "")))
        if name in words.notes or self._is_heading(element, name):
            if self._verbatim and not self._captures:
                self._write_verbatim()
            self._captures.append([])
        elif name in words.cells:
            self._lines += 1
            if not self._row_is_new and not self._captures:
                self.outline.new_cell()
            self._row_is_new, self._cell_is_new = False, True
        elif name in words.line_breaks:
            self._break_line()
        elif name in words.images:
            self._text(element.get("alt"), element, picture=True)
        else:
            self._separate(name)
            self._row_is_new = self._row_is_new or name in words.rows
            self._lines += name in words.lines
        self._verbatim += name in words.verbatim
        self._quotations += name in words.quotations

    def _end(self, element: _Element) -> None:
        name, words = local_name(element), self.vocabulary
        self._verbatim -= name in words.verbatim
        if name in words.verbatim and not self._verbatim and not self._captures:
            self._write_verbatim()
        self._quotations -= name in words.quotations
        if name in words.notes or self._is_heading(element, name):
            self._end_capture(name, "".join(self._captures.pop()))
        elif name in words.cells:
            self._lines -= 1
            self._cell_is_new = False
        else:
            self._lines -= name in words.lines
            self._separate(name)
        if name in words.sections and not self._quotations:
            ended = self._sections.pop()
            if (ended.started or ended.interrupted) and self._sections:
                self._sections[-1].interrupted = True
            elif ended.started or ended.interrupted:
                self._outer_interrupted = True

    def _end_capture(self, name: str, text: str) -> None:
        told = text if name in self.vocabulary.notes else _ICON.sub("", text)
        text = joined_lines(told.replace("\0", "")) or joined_lines(text.replace("\0", ""))
        if name in self.vocabulary.notes:
            if text:
                self._notes.append(text)
        elif name in self.vocabulary.labels:
            self._sections[-1].label = text
        elif name in self.vocabulary.heading_levels:
            if text:
                self.outline.start_section(text, self.vocabulary.heading_levels[name])
        elif text:
            section = self._sections[-1]
            section.started = True
            self.outline.start_section(f"{section.label} {text}".strip(), section.level)

    def _write_verbatim(self) -> None:
        text = "".join(self._verbatim_parts).strip("\n")
        self._verbatim_parts.clear()
        if text:
            self._before_text()
            self.outline.write(text)

    def _break_line(self) -> None:
        if self._captures:
            self._captures[-1].append(" ")
        elif self._verbatim:
            self._verbatim_parts.append("\n")
        else:
            self.outline.new_line()

    def _separate(self, name: str) -> None:
        words = self.vocabulary
        line = name in words.lines or name in words.rows
        if not line and name not in words.blocks:
            return
        if self._captures:
            self._captures[-1].append(" ")
            return
        if self._verbatim:
            self._verbatim_parts.append("\n" if self._verbatim_parts else "")
            return
        if not self._cell_is_new:
            self.outline.separate(Break.LINE if line or self._lines else Break.PARAGRAPH)
        self._write_notes()

    def _write_notes(self) -> None:
        notes, self._notes = self._notes, []
        for note in notes:
            self._before_text()
            self.outline.separate(Break.PARAGRAPH)
            self.outline.write(note)
            self.outline.separate(Break.PARAGRAPH)

    def _text(self, text: str | None, element: _Element, *, picture: bool = False) -> None:
        if not text:
            return
        if local_name(element) == "tex-math":
            body = _TEX_BODY.search(text) if "\\end{document}" in text else None
            text = body[1] if body else text
        if self._captures:
            self._captures[-1].append(f"\0{text}\0" if picture else text)
        elif self._verbatim:
            self._verbatim_parts.append(text)
        elif text.isspace():
            self.outline.separate(Break.SPACE)
        else:
            self._before_text()
            self.outline.write_running(text, picture=picture)

    def _before_text(self) -> None:
        self._cell_is_new = False
        if not self._sections:
            if self._outer_interrupted:
                self.outline.resume(0)
            self._outer_interrupted = False
            return
        section = self._sections[-1]
        if not section.started:
            section.started = True
            self.outline.start_section(section.label or section.default_heading, section.level)
        elif section.interrupted:
            self.outline.resume(section.level)
        section.interrupted = False
