"""JATS, DocBook and TEI to sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lxml import etree

from ...errors import DocumentError
from ...runtime.text import one_line
from .elements import ElementReader, Vocabulary, local_name, names, parse_tree
from .html import parse_html_tree
from .outline import Outline, ParsedDocument, joined_lines, parsed_document

if TYPE_CHECKING:
    from lxml.etree import _Element

# https://jats.nlm.nih.gov/archiving/, and what https://docbook.org/ has in an article.
JATS = Vocabulary(
    dropped=names(
        "ref-list front front-stub processing-meta permissions object-id graphic media inline-graphic "
        "related-object second-form articleinfo bookinfo chapterinfo info refmeta refentryinfo"
    ),
    blocks=names(
        "abstract ack app app-group array attrib back bio body boxed-text caption code def-list disp-formula "
        "disp-formula-group disp-quote fig fig-group floats-group fn fn-group glossary list notes p preformat "
        "sec speech statement subtitle supplementary-material table table-wrap table-wrap-foot tbody tfoot "
        "thead title trans-abstract verse-group para simpara programlisting screen "
        "itemizedlist orderedlist variablelist legalnotice refnamediv cmdsynopsis"
    ),
    lines=names("list-item def-item term def verse-line speaker listitem refname refpurpose"),
    rows=names("tr"),
    cells=names("td th"),
    verbatim=names("preformat code programlisting screen"),
    line_breaks=names("break"),
    sections=names("sec abstract trans-abstract ack app glossary notes fn-group bio sub-article response")
    | names("part preface chapter section sect1 sect2 sect3 sect4 sect5 appendix")
    | names("reference refentry refsection refsect1 refsect2 refsect3 refsynopsisdiv"),
    headings=names("title"),
    default_headings={"abstract": "Abstract", "trans-abstract": "Abstract", "ack": "Acknowledgements"},
    labels=names("label"),
    quotations=names("boxed-text disp-quote"),
    notes=names("fn"),
)

# https://tei-c.org/guidelines/p5/
TEI = Vocabulary(
    dropped=names("teiHeader listBibl biblStruct fw del graphic facsimile standOff second-form"),
    blocks=names(
        "ab abstract argument back bibl body byline castList closer cit div div1 div2 div3 div4 div5 div6 "
        "div7 docTitle epigraph figDesc figure floatingText formula front group head lg list opener p quote "
        "signed sp stage table text titlePage trailer"
    ),
    lines=names("item l speaker castItem titlePart docAuthor docDate salute dateline"),
    rows=names("row"),
    cells=names("cell"),
    verbatim=names("eg code"),
    sections=names("abstract div div1 div2 div3 div4 div5 div6 div7"),
    headings=names("head"),
    default_headings={"abstract": "Abstract"},
    quotations=names("quote floatingText"),
    notes=names("note"),
)

_TITLE = Vocabulary(dropped=names("fn xref note"), line_breaks=names("break lb"))
_PREFERRED = {"tex-math": "math", "orig": "reg", "sic": "corr", "abbr": "expan"}
# Their text stands in the document in another form, or is no running text at all: not worth a word in the metadata.
_WITHOUT_TEXT = ("second-form", "front-stub", "graphic", "inline-graphic", "object-id", "fn", "xref", "note", "refmeta")


def parse_xml(text: str) -> ParsedDocument:
    """Parse JATS or DocBook (``article``, ``book``), TEI or XHTML into sections of readable plain text.

    A section's level is its depth. Abstracts come first. Reference lists are dropped and counted in the metadata under
    ``dropped_elements``; notes inside a paragraph follow it.
    """
    try:
        root = parse_tree(text)
    except etree.XMLSyntaxError as error:
        reason = joined_lines(str(error.msg)).removesuffix(" (<string>, line 1)")
        raise DocumentError(f"it is not well-formed XML ({reason}); mend it at that place") from None
    match local_name(root):
        case "article" | "book" | "part" | "preface" | "chapter" | "appendix" | "section" | "reference" | "refentry":
            return _parse_jats(root)
        case "TEI" | "TEI.2":
            return _parse_tei(root)
        case "html":
            return parse_html_tree(root)
        case name:
            raise DocumentError(
                f"its root element <{one_line(name, 60)}> is unknown; JATS and DocBook (<article>, <book>), TEI "
                "(<TEI>) and XHTML (<html>) are read: convert it to one of these, to HTML or to plain text"
            )


def _parse_jats(root: _Element) -> ParsedDocument:
    infos = ("articleinfo", "bookinfo", "chapterinfo", "info")
    named = (("front", "article-meta", "title-group", "article-title"), ("title",), ("refnamediv", "refname"))
    title = next(filter(None, (_title(root, *path) for path in (*named, *((info, "title") for info in infos)))), "")
    parts = [*_children(root, "front", "article-meta"), *(part for info in infos for part in _children(root, info))]
    abstracts = [part for part in parts if local_name(part) in ("abstract", "trans-abstract")]
    for article in [element for element in root.iter() if local_name(element) in ("sub-article", "response")]:
        # Its title stands in metadata, which are no text; as a heading it keeps its place in the outline.
        heading = etree.Element("title")
        heading.text = _title(article, "front-stub", "title-group", "article-title")
        article.insert(0, heading)
    _mark_second_forms(root)
    outline = Outline()
    reader = ElementReader(outline, JATS)
    for element in (*abstracts, *_children(root)):
        if local_name(element) not in ("front", "title"):
            reader.read(element)
    return _finished(outline, title, reader.dropped)


def _parse_tei(root: _Element) -> ParsedDocument:
    title = _title(root, "teiHeader", "fileDesc", "titleStmt", "title")
    _mark_second_forms(root)
    for line_break in root.iter("{*}lb", "{*}cb", "{*}pb"):
        # Lines end between words, where nothing else is said.
        line_break.tail = f"{' ' * (line_break.get('break') != 'no')}{line_break.tail or ''}"
    outline = Outline()
    reader = ElementReader(outline, TEI)
    for element in _children(root, "teiHeader", "profileDesc"):
        if local_name(element) == "abstract":
            reader.read(element)
    for element in _children(root):
        if local_name(element) in ("text", "TEI"):
            reader.read(element)
    return _finished(outline, title, reader.dropped)


def _finished(outline: Outline, title: str, dropped: Counter[str]) -> ParsedDocument:
    for name in _WITHOUT_TEXT:
        dropped.pop(name, None)
    return parsed_document(outline.finish(opening_title=False).sections, title, dropped)


def _mark_second_forms(root: _Element) -> None:
    """Mark what says the same again: TeX beside MathML, and the original beside the corrected reading."""
    for parent in root.iter():
        if local_name(parent) not in ("alternatives", "choice"):
            continue
        names = {local_name(child) for child in parent.iterchildren("{*}*")}
        for child in parent.iterchildren("{*}*"):
            if _PREFERRED.get(local_name(child)) in names:
                child.tag = "second-form"


def _children(root: _Element, *names: str) -> list[_Element]:
    """Child elements of all elements at the path that the names spell."""
    level: Iterable[_Element] = [root]
    for name in names:
        level = [child for parent in level for child in parent.iterchildren(f"{{*}}{name}")]
    return [child for parent in level for child in parent.iterchildren("{*}*")]


def _title(root: _Element, *names: str) -> str:
    for element in _children(root, *names[:-1]):
        if local_name(element) == names[-1]:
            outline = Outline()
            ElementReader(outline, _TITLE).read(element)
            return joined_lines(" ".join(section.text for section in outline.finish().sections))
    return ""
