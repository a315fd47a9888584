"""Word files (DOCX) to sections. Macros, fields and links are not followed; only text is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

from ....errors import DocumentError
from ..elements import local_name, names
from ..outline import ParsedDocument, joined_lines, parsed_document
from .archive import Archive, archive_title
from .paragraphs import Collected, Paragraph, parsed_paragraphs

if TYPE_CHECKING:
    from lxml.etree import _Element

_WORDS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STRICT = "{http://purl.oclc.org/ooxml/wordprocessingml/main}"
_USUAL_SIZE = 10.0
_DEEPEST = 500
# Text that was deleted, or moved away, while changes were tracked; what programs do not show; Word's second version;
# how a word is read aloud, above it.
_SKIPPED = names("del moveFrom instrText delText Fallback pPr rPr tblPr trPr tcPr sectPr tblGrid rt")
_CODE = names("sourcecode code preformatted htmlpreformatted plaintext verbatim")
_MOST_STYLES = 30


class _Style(TypedDict, total=False):
    """What a style or a run sets; all else is inherited."""

    name: str
    based_on: str
    level: int
    numbered: bool
    bold: bool
    underlined: bool
    size: float


def parse_docx(content: bytes) -> ParsedDocument:
    """Parse a DOCX file.

    Headings are paragraphs with a style of a heading, or with an outline level, and paragraphs that are bold,
    underlined or larger throughout. Notes follow their paragraph; text boxes too. Deleted text, comments, hidden text,
    headers and footers, and tables of contents are left out; all but the first are counted.
    """
    archive = Archive(content, "DOCX")
    main = next((name for kind, name in archive.links("").values() if kind == "officeDocument"), "word/document.xml")
    reader = _Reader(archive, main)
    body = next(iter(archive.tree(main).iter("{*}body")), None)
    if body is None:
        raise DocumentError("its document has no body; it is damaged, or no DOCX file at all")
    reader.read(body)
    parsed = parsed_paragraphs(reader.paragraphs)
    return parsed_document(parsed.sections, parsed.title, reader.dropped, file_title=archive_title(archive))


class _Reader:
    def __init__(self, archive: Archive, main: str) -> None:
        self.paragraphs: list[Paragraph] = []
        self.dropped: Counter[str] = Counter()
        links = archive.links(main)
        parts = {kind: target for kind, target in links.values()}
        self._styles, self._default_style, self._default_size = _styles(archive, parts.get("styles", ""))
        self._chains: dict[str, _Style] = {}
        self._notes = {kind: _notes(archive, parts.get(kind, ""), kind[:-1]) for kind in ("footnotes", "endnotes")}
        for kind, target in set(links.values()):
            may_be_left = kind in ("header", "footer", "comments") and target in archive
            if may_be_left and any(text.strip() for text in map(str, archive.tree(target).itertext())):
                self.dropped[kind] += 1

    def read(self, parent: _Element, depth: int = 0) -> None:
        """Read paragraphs and tables inside an element."""
        if depth > _DEEPEST:
            raise DocumentError(f"its elements are nested deeper than {_DEEPEST} levels; flatten it")
        carried: list[_Element] = []
        for child in parent.iterchildren("*"):
            name = local_name(child)
            if name == "p" and _goes_on(child):
                carried += [part for part in child.iterchildren("*") if local_name(part) != "pPr"]
            elif name == "p":
                properties = _child(child, "pPr")
                place = 0 if properties is None else child.index(properties) + 1
                child[place:place] = carried
                carried = []
                self._paragraph(child, depth)
            elif name == "tbl":
                self._table(child, depth)
            elif name == "sdt" and _is_contents(child):
                self.dropped["table of contents"] += 1
            elif name == "altChunk":
                self.dropped["embedded document"] += 1
            elif name not in _SKIPPED:
                self.read(child, depth + 1)

    def _paragraph(self, element: _Element, depth: int) -> None:
        properties = _child(element, "pPr")
        style = self._style(_value(properties, "pStyle"))
        level = _number(_value(properties, "outlineLvl"), style.get("level"))
        collected = self._collected(element, style)
        name = style.get("name", "").casefold().replace(" ", "")
        if name.startswith("toc") and name[3:].isdigit():
            self.dropped["table of contents"] += 1
            return
        paragraph = collected.paragraph("text", style.get("size", self._default_size))
        listed = _child(properties, "numPr") is not None or style.get("numbered", False)
        if name == "title":
            paragraph.kind = "title"
        elif level is not None and 0 <= level < 9 and paragraph.text.strip():
            paragraph.kind, paragraph.level = "heading", level + 1
        elif name in _CODE:
            paragraph.kind = "code"
        elif listed:
            paragraph.kind = "item"
        self.paragraphs.append(paragraph)
        for box in collected.boxes:
            self.read(box, depth + 1)

    def _table(self, element: _Element, depth: int) -> None:
        rows = [row for row in element.iterchildren("{*}tr", "{*}sdt")]
        cells = [[cell for cell in row.iter("{*}tc") if _row_of(cell) is row] for row in rows]
        if all(len(row) <= 1 for row in cells):
            # A table of one column is a frame around paragraphs.
            for cell in (cell for row in cells for cell in row):
                self.read(cell, depth + 1)
            return
        for row in cells:
            texts = []
            notes: list[str] = []
            for cell in row:
                outer, self.paragraphs = self.paragraphs, []
                self.read(cell, depth + 1)
                inner, self.paragraphs = self.paragraphs, outer
                texts.append(joined_lines(" ".join(paragraph.text for paragraph in inner)))
                notes += [note for paragraph in inner for note in paragraph.notes]
            self.paragraphs.append(Paragraph("\t".join(texts), "row", notes=notes))

    def _collected(self, element: _Element, style: _Style) -> Collected:
        collected = Collected()
        waiting = [(child, style) for child in reversed(list(element.iterchildren("*")))]
        while waiting:
            child, look = waiting.pop()
            name = local_name(child)
            if name == "r":
                properties = _child(child, "rPr")
                if _is_on(properties, "vanish"):
                    self.dropped["hidden"] += 1
                    continue
                look = {**style, **self._style(_value(properties, "rStyle"), default=False), **_look(properties)}
            if name == "t":
                self._add(collected, child.text or "", look)
            elif name == "tab":
                collected.parts.append("\t")
            elif name in ("br", "cr"):
                collected.parts.append("\n" if child.get(f"{_WORDS}type") is None else " ")
            elif name == "noBreakHyphen":
                collected.parts.append("-")
            elif name == "sym":
                code = _attribute(child, "char")
                character = chr(int(code, 16)) if code and all(c in "0123456789abcdefABCDEF" for c in code) else ""
                # Fonts of symbols have their letters in the private area.
                self._add(collected, "•" if "\ue000" <= character <= "\uf8ff" else character, look)
            elif name in ("footnoteReference", "endnoteReference"):
                # A note stands where it is first referred to.
                note = self._notes[f"{name.removesuffix('Reference')}s"].pop(_attribute(child, "id"), "")
                if note:
                    collected.notes.append(note)
            elif name == "txbxContent":
                collected.boxes.append(child)
            elif name == "docPr":
                self._add(collected, child.get("descr") or "", look)
            elif name == "rt":
                self.dropped["rt"] += 1
            elif name == "instrText" and (child.text or "").split()[:1] == ["EQ"]:
                self.dropped["formula in a field"] += 1
            elif name not in _SKIPPED:
                waiting.extend((inner, look) for inner in reversed(list(child.iterchildren("*"))))
        return collected

    def _add(self, collected: Collected, text: str, look: _Style) -> None:
        strong = look.get("bold", False) or look.get("underlined", False)
        collected.add(text, look.get("size", self._default_size), strong=strong)

    def _style(self, id: str, *, default: bool = True) -> _Style:
        id = id or (self._default_style if default else "")
        if id not in self._chains:
            chain: list[_Style] = []
            current = id
            while current in self._styles and len(chain) < _MOST_STYLES:
                chain.append(self._styles[current])
                current = chain[-1]["based_on"]
            merged: _Style = {}
            for style in reversed(chain):
                merged |= style
            if any(style.get("name", "").casefold() == "title" for style in chain):
                merged["name"] = "title"
            self._chains[id] = merged
        return self._chains[id]


def _goes_on(paragraph: _Element) -> bool:
    """Whether a paragraph goes on in the next one, as its mark was deleted while changes were tracked."""
    mark = _child(_child(paragraph, "pPr"), "rPr")
    if _child(mark, "del") is None and _child(mark, "moveFrom") is None:
        return False
    # Ends of bookmarks may stand between them.
    following = next(paragraph.itersiblings("{*}p", "{*}tbl", "{*}sdt"), None)
    return following is not None and local_name(following) == "p"


def _styles(archive: Archive, part: str) -> tuple[dict[str, _Style], str, float]:
    """Styles by id, the id of the default one, and the usual size."""
    # What programs call headings that they do not define.
    styles: dict[str, _Style] = {f"Heading{level + 1}": {"level": level, "based_on": ""} for level in range(9)}
    styles["Title"] = {"name": "title", "based_on": ""}
    default, size = "", _USUAL_SIZE
    if part not in archive:
        return styles, default, size
    tree = archive.tree(part)
    for defaults in tree.iter("{*}rPrDefault"):
        size = _look(_child(defaults, "rPr")).get("size", size)
    for element in tree.iterchildren("{*}style"):
        id, name = _attribute(element, "styleId"), _value(element, "name")
        style = _look(_child(element, "rPr"))
        properties = _child(element, "pPr")
        style["based_on"] = _value(element, "basedOn")
        if name:
            style["name"] = name
        words = name.casefold().split()
        is_heading = len(words) == 2 and words[0] == "heading" and words[1].isdigit()
        level = _number(_value(properties, "outlineLvl"), int(words[1]) - 1 if is_heading else None)
        if level is not None:
            style["level"] = level
        if _child(properties, "numPr") is not None:
            style["numbered"] = True
        styles[id] = style
        if _attribute(element, "type") == "paragraph" and _attribute(element, "default") in ("1", "true"):
            default = id
    return styles, default, size


def _look(properties: _Element | None) -> _Style:
    style: _Style = {}
    if _child(properties, "b") is not None:
        style["bold"] = _is_on(properties, "b")
    if _child(properties, "u") is not None:
        style["underlined"] = _value(properties, "u") not in ("", "none")
    if half_points := _number(_value(properties, "sz"), None):
        style["size"] = half_points / 2
    return style


def _notes(archive: Archive, part: str, name: str) -> dict[str, str]:
    if part not in archive:
        return {}
    found = {}
    for note in archive.tree(part).iterchildren(f"{{*}}{name}"):
        if _attribute(note, "type") in ("", "normal"):
            found[_attribute(note, "id")] = joined_lines("".join(_note_parts(note)))
    return found


def _note_parts(note: _Element) -> Iterator[str]:
    waiting = [note]
    while waiting:
        element = waiting.pop()
        name = local_name(element)
        if name == "t":
            yield element.text or ""
        elif name in ("p", "tab", "br"):
            yield " "
        if name not in _SKIPPED:
            waiting.extend(element.iterchildren("*", reversed=True))


def _row_of(cell: _Element) -> _Element | None:
    """The row, or the wrapped row, of the nearest table that a cell lies in."""
    row = next(cell.iterancestors("{*}tr"), None)
    parent = row.getparent() if row is not None else None
    while parent is not None and local_name(parent) in ("sdtContent", "sdt"):
        row, parent = parent, parent.getparent()
    return row


def _is_contents(element: _Element) -> bool:
    gallery = next(iter(element.iter("{*}docPartGallery")), None)
    return gallery is not None and _attribute(gallery, "val") == "Table of Contents"


def _child(element: _Element | None, name: str) -> _Element | None:
    return None if element is None else next(element.iterchildren(f"{{*}}{name}"), None)


def _attribute(element: _Element, name: str) -> str:
    return element.get(f"{_WORDS}{name}") or element.get(f"{_STRICT}{name}") or ""


def _value(element: _Element | None, name: str) -> str:
    child = _child(element, name)
    return "" if child is None else _attribute(child, "val")


def _is_on(properties: _Element | None, name: str) -> bool:
    child = _child(properties, name)
    return child is not None and _attribute(child, "val") not in ("0", "false", "off")


def _number(text: str, otherwise: int | None) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else otherwise
