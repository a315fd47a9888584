"""HTML and XHTML to sections, by lxml."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from lxml import etree

from ...errors import DocumentError
from ..metadata import FURNITURE_CHARACTERS
from .elements import ElementReader, Vocabulary, local_name, names
from .outline import Outline, ParsedDocument, one_line
from .page_content import MARKS, content_of, left_out_characters, mark
from .page_furniture import mark_furniture
from .page_measures import Page
from .xml_tree import parse_tree

if TYPE_CHECKING:
    from lxml.etree import _Element

_NO_TEXT = names("head script style noscript template svg")
HTML = Vocabulary(
    dropped=_NO_TEXT | MARKS,
    blocks=names(
        "address article aside blockquote body caption center details dialog dir div dl fieldset figcaption "
        "figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend main menu ol p pre search section "
        "summary table tbody tfoot thead ul"
    ),
    lines=names("li dt dd option"),
    rows=names("tr"),
    cells=names("td th"),
    verbatim=names("pre textarea listing xmp"),
    images=names("img area"),
    line_breaks=names("br"),
    heading_levels={f"h{level}": level for level in range(1, 7)},
    quotations=names("blockquote"),
)


_COMMENT_END = re.compile(r"--!?>")
_MOST_ATTRIBUTES = 5_000
# A value in quotation marks may hold anything; the tag ends at the first > outside of them.
_ATTRIBUTE = re.compile(r"""(>)|[^\s"'>/=]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]*))?""")


def parse_html(text: str) -> ParsedDocument:
    """Parse HTML, or XHTML if it starts with an XML declaration, into sections of readable plain text.

    Where the page has a ``<main>``, or one ``<article>`` with most of its text, only that is read. Scripts, styles,
    templates, navigation, popups, hidden elements, SVG and the signs of permanent links are left out. All that is left
    out is counted in the metadata under ``dropped_elements``, its text under ``furniture_characters``. Entities are
    resolved; images leave their alternative text; list items and table rows are lines, cells stand apart by a tab. The
    only ``h1`` is the title if it opens the document; otherwise the title is that of the page.

    Args:
        text: the HTML source.

    Returns:
        Title, sections and metadata; a page title that differs from the title is kept as ``page_title``.

    Raises:
        DocumentError: the elements are nested too deeply to be read whole, or XHTML declares entities.
    """
    warnings = []
    text, unclosed = _without_unclosed_comments(text)
    if unclosed is not None:
        warnings.append(f"the comment at character {unclosed:,} has no end; what follows it is read as text")
    root: _Element | None = None
    if text.lstrip()[:5] == "<?xml":
        try:
            root = parse_tree(text)
        except etree.XMLSyntaxError:
            root = None
    if root is None:
        root = _parse_lenient(text)
    return parse_html_tree(root, warnings)


def _without_unclosed_comments(text: str) -> tuple[str, int | None]:
    """The text without the openings of comments that have no end, and the place of the first of them."""
    position = 0
    while (start := text.find("<!--", position)) >= 0:
        end = _COMMENT_END.search(text, start + 2)
        if end is None:
            return text[:start] + text[start:].replace("<!--", ""), start
        position = end.end()
    return text, None


def parse_html_tree(root: _Element | None, warnings: Sequence[str] = ()) -> ParsedDocument:
    """Make sections of an HTML or XHTML tree; warnings go to the metadata."""
    outline = Outline()
    dropped, furniture = _read(outline, root, whole=False)
    page_title = _page_title(root)
    parsed = outline.finish(page_title=page_title)
    metadata: dict[str, Any] = dropped_metadata(dropped)
    if furniture:
        metadata[FURNITURE_CHARACTERS] = furniture
    if warnings:
        metadata["warnings"] = list(warnings)
    if parsed.title and page_title and page_title != parsed.title:
        metadata["page_title"] = page_title
    return ParsedDocument(parsed.sections, parsed.title or page_title, metadata)


def write_html_fragment(outline: Outline, text: str, *, headings: bool, picture: bool = False) -> Counter[str]:
    """Write a piece of HTML, such as Markdown may contain, to an outline.

    Args:
        outline: what is written to.
        text: the HTML source, which need not be complete.
        headings: whether its headings start sections.
        picture: whether it holds no text but that of its images.

    Returns:
        How many elements were dropped, by name.
    """
    with outline.pictures() if picture else nullcontext():
        return _read(outline, _parse_lenient(text), headings=headings)[0]


def dropped_metadata(dropped: Counter[str]) -> dict[str, Any]:
    """Report dropped elements in the metadata; the head of a page holds no text and is not worth a word."""
    counts = {name: count for name, count in sorted(dropped.items()) if name != "head"}
    return {"dropped_elements": counts} if counts else {}


def _refuse_many_attributes(text: str) -> None:
    """Refuse what would take libxml2 minutes: it compares every attribute of an element with all others."""
    for piece in text.split("<"):
        if len(piece) > _MOST_ATTRIBUTES and piece[0].isalpha():
            inside = itertools.takewhile(lambda found: not found[1], _ATTRIBUTE.finditer(piece))
            if sum(1 for _ in itertools.islice(inside, _MOST_ATTRIBUTES + 2)) > _MOST_ATTRIBUTES + 1:
                name = piece[:20].split()[0]
                raise DocumentError(
                    f"its element <{name}> has more than {_MOST_ATTRIBUTES:,} attributes; leave some out"
                )


def _parse_lenient(text: str) -> _Element | None:
    _refuse_many_attributes(text)
    # Without huge_tree libxml2 would cut documents at 256 levels or 10 MB and only log it.
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(text.encode("utf-8"), parser)
    except etree.ParserError:  # nothing but white space and comments
        return None


def _read(
    outline: Outline, root: _Element | None, *, headings: bool = True, whole: bool = True
) -> tuple[Counter[str], int]:
    """Read a page; gives the elements that are left out by name, and the characters of furniture among them."""
    reader = ElementReader(outline, HTML, headings=headings)
    # What follows </html>, and a second <html>, become siblings of the root.
    roots = [] if root is None else [root, *root.itersiblings("*")]
    furniture = 0
    for part in roots:
        mark(part)
    if not whole:
        mark_furniture(Page(roots, HTML.dropped), _page_title(root))
        content, outside = content_of(roots, HTML.dropped)
        furniture = left_out_characters(roots, content, HTML.dropped, _NO_TEXT)
        reader.dropped += outside
        roots = content
    for part in roots:
        reader.read(part)
    return reader.dropped, furniture


def _page_title(root: _Element | None) -> str:
    if root is None:
        return ""
    for element in root.iter():
        if isinstance(element.tag, str) and local_name(element) == "title":
            parent = element.getparent()
            if parent is not None and local_name(parent) == "head":
                return one_line("".join(map(str, element.itertext())))
    return ""
