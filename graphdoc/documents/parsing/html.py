"""HTML and XHTML to sections, by lxml: the main part of a page where it names one, without what is not shown."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lxml import etree

from ...errors import DocumentError
from ..section import FURNITURE_CHARACTERS
from .elements import ElementReader, Vocabulary, local_name, names, parse_tree
from .outline import Outline, ParsedDocument, joined_lines, parsed_document
from .page_elements import HEADINGS, NO_LETTER, PageElements, shown
from .page_furniture import FURNITURE, is_note, mark_furniture

if TYPE_CHECKING:
    from lxml.etree import _Element

# Marked elements get these names; they are left out and counted under them.
_MARKS = names("hidden permalink heading-button nav dialog") | FURNITURE

_ROLES = {"dialog": "dialog", "alertdialog": "dialog"} | dict.fromkeys(
    ("navigation", "menu", "menubar", "search"), "nav"
)
_NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
# rustdoc's "Expand description", and its links to the source with the version beside them.
_HIDDEN_CLASSES = names("hideme out-of-band rightside")
# Whole pages are marked with aria-hidden while a dialog is open; icons and second forms of formulas stand inline.
_INLINE = names("a abbr b em i nobr small span strong sub sup")
# Anchors that mdBook, Sphinx, rustdoc, MkDocs, Docusaurus and GitHub put beside what they lead to, or a font's icon.
_SIGNS = frozenset({"", "#", "§", "¶", "🔗", "◆", "⚓", "∞", "↩", "↩\ufe0e"})
_PERMALINK_WORDS = frozenset(
    {"anchor", "link", "permalink", "permanent link", "direct link", "link to this heading", "link to this section"}
)


# Boxes of DocBook, whose headings are no headings of the document.
_BOXES = names("tip note warning caution important")


def _mark(root: _Element) -> None:
    """Rename what is not shown, is navigation or a popup, and the signs beside headings, to be left out."""
    # The innermost heading around every element, and the text of every heading.
    around: dict[_Element | None, _Element | None] = {}
    texts: dict[_Element, str] = {}
    for element in root.iter("*"):
        heading = around.get(element.getparent())
        if found := _mark_of(element, heading, texts):
            element.tag = found
        around[element] = element if local_name(element) in HEADINGS else heading


def _mark_of(element: _Element, heading: _Element | None, texts: dict[_Element, str]) -> str:
    """What an element is marked as, empty where it is kept, given the heading around it and the texts of headings."""
    name, role = local_name(element), element.get("role", "").strip().lower()
    if name in ("html", "body"):
        return ""
    if role in _ROLES:
        return _ROLES[role]
    if name == "template" and "shadowrootmode" in element.attrib:
        return "div"
    if _is_hidden(element, name, role) and not is_note(element):
        return "hidden"
    if name == "a" and "#" in element.get("href", ""):
        text = shown(element)
        if text in _SIGNS or "\ue000" <= text <= "\uf8ff":
            return "permalink"
        if heading is not None and text.casefold() in _PERMALINK_WORDS and _text_of(heading, texts) not in ("", text):
            return "permalink"
    if heading is not None and name == "button" and shown(element) != _text_of(heading, texts):
        # The heading of a section that opens on a click is a button itself.
        return "heading-button"
    box = element.getparent() if name in HEADINGS and element.get("class") == "title" else None
    return "p" if box is not None and box.get("class") in _BOXES else ""


def _text_of(heading: _Element, texts: dict[_Element, str]) -> str:
    if heading not in texts:
        texts[heading] = shown(heading)
    return texts[heading]


def _is_hidden(element: _Element, name: str, role: str) -> bool:
    if (hidden := element.get("hidden")) is not None:
        # Tabs that are not open, and text that the browser's search finds, are content all the same.
        return role != "tabpanel" and hidden.strip().lower() != "until-found"
    if name == "dialog":
        return "open" not in element.attrib
    if (style := element.get("style")) and _NOT_SHOWN.search(style):
        return True
    if name in _INLINE and element.get("aria-hidden", "").strip().lower() == "true":
        return True
    return not _HIDDEN_CLASSES.isdisjoint(element.get("class", "").split())


_NAVIGATION = names("nav header footer aside") | FURNITURE
_SMALL_MAIN = 10


def _show_scripted(roots: Sequence[_Element]) -> None:
    """Show what a page has for readers without scripts, where that is more than all other text."""
    scripted = [element for root in roots for element in root.iter("{*}noscript", "noscript")]
    length = sum(_length(element, _NO_TEXT - {"noscript"}) for element in scripted)
    if length and length > sum(_length(root, _NO_TEXT) for root in roots):
        for element in scripted:
            element.tag = "div"
            for head in element.iterancestors("{*}head", "head"):
                head.addnext(element)


_LEAST_STORY, _PIECE = 300, 40


def _stories(roots: Sequence[_Element]) -> Iterator[str]:
    """The texts of articles that a page has for search engines (JSON-LD)."""
    for script in (part for root in roots for part in root.iter("script", "{*}script")):
        if script.get("type", "").strip().lower() == "application/ld+json" and "articleBody" in (script.text or ""):
            try:
                waiting = [json.loads(script.text or "", strict=False)]
            except (ValueError, RecursionError):
                continue
            while waiting:
                part = waiting.pop()
                if isinstance(part, dict) and isinstance(part.get("articleBody"), str):
                    yield part["articleBody"]
                waiting.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())


def _show_story(roots: Sequence[_Element]) -> None:
    """Show an article most of which is in JSON-LD alone, in place of the paragraph that it begins with."""
    story = max(_stories(roots), key=len, default="")
    plain = NO_LETTER.sub("", story)
    if len(plain) < _LEAST_STORY:
        return
    parts = [part for root in roots for part in root.iter("*") if local_name(part) not in _NO_TEXT | {"title"}]
    there = NO_LETTER.sub("", "".join((part.text or "") + (part.tail or "") for part in parts))
    pieces = [plain[at : at + _PIECE] for at in range(0, len(plain) - _PIECE, len(plain) // 10)]
    read = _parse_lenient("<p>" + "</p><p>".join(filter(str.strip, story.splitlines())))
    if read is None or 2 * sum(piece in there for piece in pieces) > len(pieces):
        return
    whole = read[0]
    whole.tag = "div"
    for part in parts:
        begun = "" if len(part) or local_name(part) in HEADINGS else NO_LETTER.sub("", part.text or "")
        if len(begun) > _PIECE and plain.startswith(begun):
            part.text, part.tag = None, "div"
            part.append(whole)
            return
    last = next((part for part in parts if local_name(part) == "h1"), parts[-1])
    if last.getparent() is None:
        # A page may have nothing but a head, or no more than its data; a root has no siblings.
        last.append(whole)
    else:
        last.addnext(whole)


# Characters outside of links; a menu has fewer.
_LEAST_SWALLOWED = 200


def _show_swallowed(roots: Sequence[_Element]) -> None:
    """Show navigation, hidden parts and dialogs that hold ten times the text of the rest.

    A ``<nav>`` that is never closed takes in the article, and scripts uncover articles that are hidden or in a dialog.
    Of what keeps its place while it is hidden as much as the rest is enough, and of what a button opens any text.
    """
    opened = {part.get("aria-controls") for root in roots for part in root.iter("{*}button", "{*}a")}
    kinds = ("{*}nav", "{*}hidden", "{*}dialog")
    found: list[_Element] = []
    whole = -1
    for walk in (etree.iterwalk(root, ("start",), kinds) for root in roots):
        for _, element in walk:
            length = 0 if len([*element.iterancestors(*kinds)]) >= _SMALL_MAIN else _length(element, _NO_TEXT | {"a"})
            if length > _LEAST_SWALLOWED:
                is_opened = element.tag == "hidden" and element.get("id", "") in opened
                is_opened = is_opened and next(element.iter("{*}input"), None) is None
                times = 0 if is_opened else 1 if "visibility" in element.get("style", "") else _SMALL_MAIN
                whole = sum(_length(root, HTML.dropped) for root in roots) if whole < 0 else whole
                if length > times * whole:
                    found.append(element)
                    continue
            walk.skip_subtree()
    for element in found:
        element.tag = "div"


def _content_of(roots: Sequence[_Element], dropped: frozenset[str]) -> tuple[list[_Element], Counter[str], int]:
    """The elements that hold the content of a page, those that are left out by name, and the characters of these.

    These are its ``<main>`` elements (or those with this role) unless they hold less than a tenth of the text, or less
    than a third where the ``<h1>``, or without one the first ``<h2>``, stands outside of them; or else its only
    ``<article>`` if that holds at least half of it; without either the whole page.
    """
    whole = sum(_length(root, dropped) for root in roots)
    shown_or_not = sum(_length(root, _NO_TEXT - {"noscript"}) for root in roots)
    found = _outermost(roots, "main", dropped)
    # The <h1> of a page, or without one its first <h2>, may stand outside of its content.
    titles = {part for root in roots for part in root.iter("{*}h1")} or {*[*_outermost(roots, "h2", dropped)][:1]}
    apart = bool(titles) and titles.isdisjoint(part for element in found for part in element.iter("*"))
    if (3 if apart else _SMALL_MAIN) * sum(found.values()) < whole:
        found = {}
    if shown_or_not > _SMALL_MAIN * whole:
        # Navigation that is never closed may have swallowed the page.
        inside = {part: _length(part, dropped) for part in _outermost(roots, "main", dropped - _NAVIGATION)}
        found = inside if sum(inside.values()) > _SMALL_MAIN * whole else found
    if not found:
        title = _page_title(next(iter(roots), None))
        found = _story_among(_outermost(roots, "article", dropped), dropped, whole, title)
    if not found:
        return list(roots), Counter(), shown_or_not - whole
    outside: Counter[str] = Counter()
    inner, around = set(found), _ancestors(found)
    waiting = list(roots)
    while waiting:
        element = waiting.pop()
        if element in around:
            waiting.extend(element.iterchildren("*"))
        elif element not in inner and (local_name(element) in dropped or _length(element, dropped)):
            outside[local_name(element)] += 1
    return list(found), outside, shown_or_not - sum(found.values())


def _story_among(articles: dict[_Element, int], dropped: frozenset[str], whole: int, title: str) -> dict[_Element, int]:
    """The one article that is no link to another and holds at least half of a page, or that the page is called after.

    Below an article others may follow, each with its own ``<h1>``.
    """
    if len(articles) > 1:
        headings = [[joined_lines(shown(found)) for found in one.iter("h1", "{*}h1")] for one in articles]
        called = [any(3 * len(found) >= len(title) and found in title for found in own) for own in headings]
        if title and all(headings) and sum(called) == 1:
            return dict([list(articles.items())[called.index(True)]])
        links = dropped | {"a"}
        articles = {one: length for one, length in articles.items() if 2 * _length(one, links) >= length}
    return articles if len(articles) == 1 and 2 * sum(articles.values()) >= whole else {}


def _ancestors(elements: Iterable[_Element]) -> set[_Element]:
    found: set[_Element] = set()
    for element in elements:
        for ancestor in element.iterancestors():
            if ancestor in found:
                break
            found.add(ancestor)
    return found


def _outermost(roots: Sequence[_Element], name: str, dropped: frozenset[str]) -> dict[_Element, int]:
    found: dict[_Element, int] = {}
    for root in roots:
        called = {part for part in root.iter("*") if part.get("role", "").strip().lower() == name}
        walk = etree.iterwalk(root, ("start",), (*_tags(dropped), f"{{*}}{name}", *{part.tag for part in called}))
        for _, element in walk:
            if local_name(element) in dropped:
                walk.skip_subtree()
            elif local_name(element) == name or element in called:
                walk.skip_subtree()
                if length := _length(element, dropped):
                    found[element] = length
    return found


@lru_cache(16)
def _tags(dropped: frozenset[str]) -> tuple[str, ...]:
    return tuple(f"{{*}}{name}" for name in dropped)


def _length(root: _Element, dropped: frozenset[str]) -> int:
    length = len("".join("".join(map(str, root.itertext("*"))).split()))
    walk = etree.iterwalk(root, ("start",), _tags(dropped))
    for _, element in walk:
        length -= len("".join("".join(map(str, element.itertext("*"))).split()))
        walk.skip_subtree()
    return length


_NO_TEXT = names("head script style noscript template svg")
_AMP = names("amp-ad amp-consent amp-embed amp-sidebar amp-social-share amp-sticky-ad amp-user-notification")
HTML = Vocabulary(
    # How a word is read aloud stands above it; annotations say a formula once more.
    dropped=_NO_TEXT | _MARKS | _AMP | names("rt rp rtc annotation annotation-xml"),
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

# Between the names of a page and of its site, either of which may be missing.
_AROUND_TITLES = " :|-\u2013\u2014"
# What Texinfo calls the first page.
_TOP = re.compile(r"^Top \((.+)\)$")
_OPENED_COMMENT = re.compile(r"<!--(?:[^<>\n]*>)?")
_COMMENT_END = re.compile(r"--!?>")
# A title without an end, which would take in the page: after it no end comes before what cannot be in a title.
_OPEN_TITLE = re.compile(
    r"(<title\b[^<>]*+>?+[^<]*+)((?:<(?!/?(?:title|head|body|meta|link|script|style)\b)[^<]*+)*+)(?!</title)",
    re.IGNORECASE,
)
# What programs such as man2html write for a web server.
_SERVER_HEAD = re.compile(r"\A\s*Content-type: *text/html.*\n\s*+(?=<)", re.IGNORECASE)
_MOST_ATTRIBUTES = 5_000
# A value in quotation marks may hold anything; the tag ends at the first > outside of them.
_ATTRIBUTE = re.compile(r"""(>)|[^\s"'>/=]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]*))?""")


def parse_html(text: str, *, is_page: bool = True) -> ParsedDocument:
    """Parse HTML, or XHTML if it starts with an XML declaration, into sections of readable plain text.

    Where the page has a ``<main>``, or one ``<article>`` with most of its text, only that is read; an article that
    stands in JSON-LD alone is read from there. Scripts, styles, templates, navigation, popups, hidden elements, SVG,
    what readers wrote below the text and the signs of permanent links are left out. All that is left out is counted in
    the metadata under ``dropped_elements``, its text under ``furniture_characters``. Entities are
    resolved; images leave their alternative text; list items and table rows are lines, cells stand apart by a tab. The
    only ``h1`` is the title if it opens the document; otherwise the title is that of the page. A chapter of a book is
    no page: all of it is read, and its title is that of the book.
    """
    warnings = []
    text, unclosed = _without_unclosed_comments(_SERVER_HEAD.sub("", text))
    if unclosed is not None:
        warnings.append(f"the comment at character {unclosed:,} has no end; what follows it is read as text")
    root: _Element | None = None
    if text.lstrip()[:5] == "<?xml":
        with suppress(etree.XMLSyntaxError):
            root = parse_tree(text)
    if root is None:
        root = _parse_lenient(_OPEN_TITLE.sub(r"\1</title>\2", text))
    return parse_html_tree(root, warnings, is_page=is_page)


def _without_unclosed_comments(text: str) -> tuple[str, int | None]:
    position = 0
    while (start := text.find("<!--", position)) >= 0:
        end = _COMMENT_END.search(text, start + 2)
        if end is None:
            return text[:start] + _OPENED_COMMENT.sub("", text[start:]), start
        position = end.end()
    return text, None


def parse_html_tree(root: _Element | None, warnings: Sequence[str] = (), *, is_page: bool = True) -> ParsedDocument:
    """Make sections of an HTML or XHTML tree; warnings go to the metadata."""
    outline = Outline()
    dropped, furniture = _read(outline, root, whole=not is_page)
    dropped["toc"] += outline.drop_contents()
    page_title = _page_title(root) if is_page else ""
    parsed = outline.finish(page_title=page_title)
    parsed = parsed_document(parsed.sections, parsed.title, dropped, warnings, page_title=page_title)
    left_out = {FURNITURE_CHARACTERS: furniture} if furniture else {}
    return replace(parsed, metadata={**parsed.metadata, **left_out})


def write_html_fragment(outline: Outline, text: str, *, headings: bool) -> Counter[str]:
    """Write a piece of HTML, such as Markdown may contain, to an outline; counts what is dropped by name."""
    return _read(outline, _parse_lenient(text), headings=headings)[0]


def _parse_lenient(text: str) -> _Element | None:
    for piece in text.split("<"):
        if len(piece) > _MOST_ATTRIBUTES and piece[0].isalpha():
            # It would take libxml2 minutes, which compares every attribute of an element with all others.
            inside = itertools.takewhile(lambda found: not found[1], _ATTRIBUTE.finditer(piece))
            if sum(1 for _ in itertools.islice(inside, _MOST_ATTRIBUTES + 2)) > _MOST_ATTRIBUTES + 1:
                name = piece[:20].split()[0]
                raise DocumentError(f"its element <{name}> has over {_MOST_ATTRIBUTES:,} attributes; leave some out")
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
    if not whole:
        _show_scripted(roots)
        _show_story(roots)
    for part in roots:
        _mark(part)
    if not whole:
        _show_swallowed(roots)
        mark_furniture(PageElements(roots, HTML.dropped), _page_title(root), is_post=_is_post(roots))
        roots, outside, furniture = _content_of(roots, HTML.dropped)
        reader.dropped += outside
    for part in roots:
        reader.read(part)
    return reader.dropped, furniture


_POST_TYPES = re.compile(r"""(?:["'/]|News|Review|Reportage|Blog)(?:Article|Posting)\b""")


def _is_post(roots: Sequence[_Element]) -> bool:
    """Whether a page says that it is an article of a newspaper or a blog: in Open Graph, JSON-LD or microdata."""
    for part in (part for root in roots for part in root.iter("*")):
        name, content = part.get("property", "").lower(), part.get("content", "")
        written = part.text if part.get("type", "") == "application/ld+json" else part.get("itemtype")
        is_said = name == "article:published_time" or (name == "og:type" and content.strip().lower() == "article")
        if is_said or (written and _POST_TYPES.search(written)):
            return True
    return False


def _page_title(root: _Element | None) -> str:
    if root is None:
        return ""
    for element in root.iter("{*}title"):
        parent = element.getparent()
        if parent is not None and local_name(parent) == "head":
            return _TOP.sub(r"\1", joined_lines("".join(map(str, element.itertext()))).strip(_AROUND_TITLES))
    return ""
