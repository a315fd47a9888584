"""Presentations (PPTX) to sections: every slide is one, under its title."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....errors import DocumentError
from ..elements import local_name
from ..outline import Break, Outline, ParsedDocument, joined_lines, parsed_document
from .archive import Archive, archive_title

if TYPE_CHECKING:
    from lxml.etree import _Element

_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_STRICT_ID = "{http://purl.oclc.org/ooxml/officeDocument/relationships}"
_LINES = ("{http://schemas.openxmlformats.org/drawingml/2006/main}p", "{http://purl.oclc.org/ooxml/drawingml/main}p")
_TITLES = ("title", "ctrTitle")
# Date, foot and number of a slide.
_FURNITURE = {"dt": "date", "ftr": "running foot", "sldNum": "page number", "hdr": "running head", "sldImg": ""}


def parse_pptx(content: bytes) -> ParsedDocument:
    """Parse a PPTX file.

    The title of a slide is a heading; what stands in its shapes, tables and diagrams follows, then its notes. Dates,
    feet and numbers of slides are left out and counted.
    """
    archive = Archive(content, "PPTX")
    named = (target for kind, target in archive.links("").values() if kind == "officeDocument")
    links = archive.links(main := next(named, "ppt/presentation.xml"))
    outline = Outline()
    dropped: Counter[str] = Counter()
    title, slides, has_text = "", 0, True
    read: set[str] = set()
    for entry in archive.tree(main).iter("{*}sldId"):
        part = links.get(entry.get(f"{_ID}id") or entry.get(f"{_STRICT_ID}id") or "", ("", ""))[1]
        if part in read or part not in archive:
            dropped["repeated slide" if part in read else "missing slide"] += 1
            continue
        read.add(part)
        slides += 1
        slide = archive.tree(part)
        inner = archive.links(part)
        heading, is_opening, blocks = _slide(slide, archive, inner, dropped, read)
        if is_opening and slides == 1 and heading:
            title = heading
        elif heading or has_text:
            # Without a title a slide is a section all the same, unless the one before is nothing but its title.
            outline.start_section(heading, 1)
        has_text = bool(blocks) or (not heading and has_text)
        notes = next((target for kind, target in inner.values() if kind == "notesSlide"), "")
        if notes in archive and notes not in read:
            read.add(notes)
            blocks += _slide(archive.tree(notes), archive, {}, Counter(), read)[2]
        for block in blocks:
            outline.separate(Break.PARAGRAPH)
            outline.write(block)
    if not slides:
        raise DocumentError("it has no slides; leave it out")
    sections = outline.finish(opening_title=False).sections
    return parsed_document(sections, title, dropped, file_title=archive_title(archive))


def _slide(
    slide: _Element, archive: Archive, links: dict[str, tuple[str, str]], dropped: Counter[str], read: set[str]
) -> tuple[str, bool, list[str]]:
    """Title of a slide, whether it is that of an opening slide, and its texts; parts that were read are not again."""
    heading, is_opening = "", False
    blocks: list[str] = []
    for shape in _shapes(slide):
        place = next(shape.iter("{*}ph"), None)
        kind = place.get("type", "body") if place is not None else ""
        if kind in _FURNITURE:
            if _FURNITURE[kind] and any(_paragraphs(shape)):
                dropped[_FURNITURE[kind]] += 1
            continue
        if local_name(shape) == "graphicFrame":
            blocks += _frame(shape, archive, links, dropped, read)
        elif local_name(shape) == "pic":
            named = next(shape.iter("{*}cNvPr"), None)
            blocks.append(joined_lines(named.get("descr", "")) if named is not None else "")
        elif kind in _TITLES and not heading:
            heading, is_opening = joined_lines(" ".join(_paragraphs(shape))), kind == "ctrTitle"
        else:
            blocks.append("\n".join(_paragraphs(shape)))
    return heading, is_opening, [block for block in blocks if block]


def _shapes(slide: _Element) -> Iterator[_Element]:
    waiting = [(slide, False)]
    while waiting:
        element, inside = waiting.pop()
        name = local_name(element)
        if name == "pic" or (name in ("sp", "graphicFrame") and not inside):
            yield element
        if name != "Fallback":
            inside = inside or name in ("sp", "graphicFrame")
            waiting.extend((child, inside) for child in element.iterchildren("*", reversed=True))


def _frame(
    frame: _Element, archive: Archive, links: dict[str, tuple[str, str]], dropped: Counter[str], read: set[str]
) -> Iterator[str]:
    rows = (row.iterchildren("{*}tc") for row in frame.iter("{*}tr"))
    yield "\n".join("\t".join(joined_lines(" ".join(_paragraphs(cell))) for cell in row) for row in rows)
    for diagram in frame.iter("{*}relIds"):
        part = links.get(diagram.get(f"{_ID}dm", ""), ("", ""))[1]
        if part in archive and part not in read:
            read.add(part)
            yield "\n".join(_paragraphs(archive.tree(part)))
    for _ in frame.iter("{*}chart"):
        dropped["chart"] += 1


def _paragraphs(element: _Element) -> Iterator[str]:
    texts: list[list[str]] = []
    for part in element.iter(*_LINES, "{*}t", "{*}br", "{*}tab"):
        if part.tag in _LINES:
            texts.append([])
        elif texts:
            texts[-1].append((part.text or "") if local_name(part) == "t" else " ")
    return filter(None, (joined_lines("".join(parts)) for parts in texts))
