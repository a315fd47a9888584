"""Books (EPUB) to sections: their chapters are XHTML, read like other pages, in the order of the book."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html import unescape

from ....errors import DocumentError
from ...section import clean_text
from ..elements import local_name
from ..formats import decode
from ..html import parse_html
from ..outline import Break, Outline, ParsedDocument, joined_lines, parsed_document
from .archive import Archive, resolved

_CONTAINER = "META-INF/container.xml"
_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"})
_LINK = re.compile(r"""<a\b[^<>]*\shref\s*=\s*["']([^"'#]+)""")
# The name of a project, which is no title.
_FILE_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)+")
_FONTS_ONLY = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


def parse_epub(content: bytes) -> ParsedDocument:
    """Parse an EPUB file; its authors are kept as ``creator``.

    Pages that only list the contents, chapters named again, and pages outside of the book's order to which none of its
    chapters links are left out and counted.
    """
    archive = Archive(content, "EPUB")
    rights = "META-INF/encryption.xml"
    ways = archive.tree(rights).iter("{*}EncryptionMethod") if rights in archive else ()
    if any(way.get("Algorithm", "") not in _FONTS_ONLY for way in ways):
        raise DocumentError("it is locked by its seller (DRM); get it without the lock")
    # Some have everything in a folder.
    container = next((name for name in archive.names if name.endswith(f"/{_CONTAINER}")), _CONTAINER)
    files = archive.tree(container).iter("{*}rootfile")
    package = next((path for file in files if (path := file.get("full-path", ""))), "")
    package = container.removesuffix(_CONTAINER) + package
    tree = archive.tree(package)
    folder = package.rpartition("/")[0]
    items = {item.get("id", ""): item for item in tree.iter("{*}item")}
    texts: dict[str, list[str]] = {}
    for element in tree.iter("{http://purl.org/dc/elements/1.1/}*"):
        text = joined_lines("".join(map(str, element.itertext())))
        if text:
            texts.setdefault(local_name(element), []).append(text)
    title = next((text for text in texts.get("title", ()) if not _FILE_NAME.fullmatch(text)), "")
    outline = Outline()
    dropped: Counter[str] = Counter()
    missing = 0
    read: set[str] = set()
    linked: set[str] = set()
    for entry in tree.iter("{*}itemref"):
        item = items.get(entry.get("idref", ""))
        if item is None or item.get("media-type", "") not in _PAGES:
            continue
        name = resolved(folder, item.get("href", ""))
        if name not in archive:
            missing += 1
        elif "nav" in item.get("properties", "").split():
            dropped["nav"] += 1
        elif name in read:
            dropped["repeated chapter"] += 1
        else:
            read.add(name)
            linked |= _write_chapter(outline, archive.read(name), name, title, dropped)
    # Notes may stand in files outside of the order of the book.
    for item in items.values():
        name = resolved(folder, item.get("href", ""))
        is_page = item.get("media-type", "") in _PAGES and "nav" not in item.get("properties", "").split()
        if is_page and name in archive and name not in read:
            read.add(name)
            if name in linked:
                _write_chapter(outline, archive.read(name), name, title, dropped)
            else:
                dropped["page outside the book's order"] += 1
    dropped["toc"] += outline.drop_contents()
    parsed = outline.finish(opening_title=not title)
    warnings = [f"{missing} of its chapters are missing from the archive"] if missing else []
    book = parsed_document(parsed.sections, title, dropped, warnings, heading=parsed.title)
    creators: list[str] = texts.get("creator", [])
    names = {"creator": creators if len(creators) > 1 else creators[0]} if creators else {}
    return replace(book, metadata={**book.metadata, **names})


def _write_chapter(outline: Outline, content: bytes, name: str, title: str, dropped: Counter[str]) -> set[str]:
    """Write a chapter; gives the names of the parts that it links to."""
    text = clean_text(decode(content, "utf-8", "html"))
    chapter = parse_html(text, is_page=False)
    dropped.update(chapter.metadata.get("dropped_elements", {}))
    # The title page has the title of the book for a heading.
    heading = chapter.title if joined_lines(chapter.title) != title else ""
    if heading:
        outline.start_section(heading, 1)
    for number, section in enumerate(chapter.sections):
        # A chapter without a heading does not belong to the one before.
        if section.heading or (number == 0 and not heading):
            outline.start_section(section.heading, section.level)
        outline.separate(Break.PARAGRAPH)
        outline.write(section.text)
    return {resolved(name.rpartition("/")[0], unescape(link)) for link in _LINK.findall(text)}
