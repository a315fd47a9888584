"""Which parts of an HTML page are furniture: by their names, by how much of them is links, and by where they stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from .elements import local_name, names
from .outline import joined_lines

if TYPE_CHECKING:
    from lxml.etree import _Element

HEADINGS = names("h1 h2 h3 h4 h5 h6")
# More of a text than this is not looked at where a link, a heading or a line of rights is recognised.
_LONGEST_SHOWN = 1_000
_CONTROLS = names("button select option label input")
_NO_LETTER = re.compile(r"[\W_]+")
_NUMBERING = re.compile(
    r"^(?:(?:chapter|section|appendix|part)\s+)?(?:[\dIVXA-Z]{1,4}[.):]?)(?:\d[.)]?)*\s+(?=\S)", re.IGNORECASE
)


@dataclass(slots=True)
class _Measures:
    """What is in an element: letters and digits, those of them in links and controls, links and headings.

    Args:
        characters: letters and digits of its text, those of alternative texts not counted.
        linked: of text in links, buttons and menus.
        local: of text in links to places of the page itself.
        links: number of links.
        headings: number of headings.
        titled: letters and digits in headings that are no links.
        first: whether a heading of level 1 is among them.
        position: characters of the page before the element.
    """

    characters: int = 0
    linked: int = 0
    local: int = 0
    links: int = 0
    headings: int = 0
    titled: int = 0
    first: bool = False
    position: int = 0

    @property
    def density(self) -> float:
        """Share of the text that is in links."""
        return self.linked / self.characters if self.characters else 0.0


def _count(text: str | None) -> int:
    return len(_NO_LETTER.sub("", text)) if text else 0


class PageElements:
    """The measured elements of the trees of a page; those whose names are in ``dropped`` are not looked at."""

    def __init__(self, roots: Sequence[_Element], dropped: frozenset[str]) -> None:
        self.roots = roots
        self._dropped = dropped
        self.measures: dict[_Element, _Measures] = {}
        self.order: list[_Element] = []
        self.heading_texts: set[str] = set()
        self.first_heading: int | None = None
        self.characters = 0
        self.no_contents: set[_Element] = set()
        for root in roots:
            self._measure(root)
        # Blocks inside one another would be searched for the same links again and again.
        self.links_to_read = 20 * sum(self.measures[root].links for root in roots)

    def _measure(self, root: _Element) -> None:
        """Measure all elements in one pass, so that pages of any size and depth take linear time."""
        waiting: list[tuple[_Element, bool]] = [(root, False)]
        link, local, heading = 0, 0, 0
        while waiting:
            element, ended = waiting.pop()
            name = local_name(element)
            measure = self.measures.setdefault(element, _Measures())
            if ended:
                is_link = name == "a" or name in _CONTROLS
                link -= is_link
                local -= name == "a" and element.get("href", "").startswith("#")
                heading -= name in HEADINGS
                if name in HEADINGS:
                    measure.headings += 1
                    measure.titled = measure.characters - measure.linked
                    measure.first |= name == "h1"
                parent = element.getparent()
                tail = 0 if element is root else _count(element.tail)
                self.characters += tail
                if parent is not None and element is not root:
                    above = self.measures[parent]
                    above.characters += measure.characters + tail
                    above.linked += measure.linked + (tail if link else 0)
                    above.local += measure.local + (tail if local else 0)
                    above.links += measure.links
                    above.headings += measure.headings
                    above.titled += measure.titled
                    above.first |= measure.first
                continue
            self.order.append(element)
            measure.position = self.characters
            waiting.append((element, True))
            if name in self._dropped:
                continue
            if name in HEADINGS:
                if self.first_heading is None:
                    self.first_heading = self.characters
                if not heading:
                    self.heading_texts.add(_plain(shown(element)))
                heading += 1
            link += name == "a" or name in _CONTROLS
            local += name == "a" and element.get("href", "").startswith("#")
            own = _count(element.text)
            self.characters += own
            measure.characters += own
            measure.linked += own if link else 0
            measure.local += own if local else 0
            measure.links += name == "a"
            waiting.extend((child, False) for child in element.iterchildren("*", reversed=True))


def shown(element: _Element) -> str:
    """The text of a link, a button or a heading, cut where it is too long to be one."""
    parts: list[str] = []
    length = 0
    for part in element.iter("*"):
        if local_name(part) in ("script", "style", "permalink", "hidden"):
            found = part.tail or ""
        else:
            found = f"{part.text or ''}{part.get('alt', '')}{(part.tail or '') if part is not element else ''}"
        parts.append(found)
        length += len(found) + 1
        if length > _LONGEST_SHOWN:
            break
    return "".join(parts).strip(" \t\n\r\f\xa0\u200b\u200c\u200d\ufeff")


def _plain(text: str) -> str:
    """A heading in the form in which it is compared: without case, numbering and signs at its ends."""
    return joined_lines(_NUMBERING.sub("", joined_lines(text)).casefold()).strip(" ¶§#:.◆\u2014-")


_EPUB_TYPE = "{http://www.idpf.org/2007/ops}type"
_NOTES = names(
    "note notes footnote footnotes endnote endnotes rearnote rearnotes doc-footnote doc-endnote doc-endnotes"
)
# Furniture gets these names; it is left out and counted under them.
FURNITURE = names("nav toc popup skip source-link interface logo page-header page-footer page-aside")
_CONTENT = names("html body main article")
_BLOCKS = names("div ul ol dl table p nav aside header footer section details form center span address")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# Words in classes and ids of generators' templates: DocBook, MediaWiki, Sphinx, Doxygen, Haddock, Qt, WordPress, ...
_MENU_NAMES = names(
    "nav navbar navbars navi navigation navheader navfooter navlinks navpath docnav sitenav topnav subnav bottomnav "
    "breadcrumb breadcrumbs crumb crumbs toc tableofcontents minitoc pager pagination paginate prevnext menu submenu "
    "mainmenu megamenu sidebar sidenav toolbar related languages langs share sharing social subscribe newsletter "
    "catlinks contentsub editsection skip skiplink skiplinks links tags categories outline"
)
_HEAD_NAMES = names(
    "header banner masthead topbar logo promo advert advertisement ads announcement cookie cookies consent titlearea "
    "tagline slogan brand branding sitename sitetitle"
)
_FOOT_NAMES = names(
    "footer copyright colophon printfooter siteinfo imprint promo advert advertisement ads announcement cookie "
    "cookies consent"
)
# What a page shows only when it is pointed at (Doxygen's "ttc"), over the rest, or in print (MediaWiki's "siteSub").
_OVERLAY_NAMES = names("tooltip tooltiptext ttc popup popover modal lightbox overlay snackbar toast offcanvas sitesub")
_CONTENTS = re.compile(
    r"(table of )?contents?( of this (page|article|section))?|on this page|in this (article|page|section)|toc|overview"
    r"|sommaire|table des mati[eè]res|inhalt(sverzeichnis)?|[ií]ndice|contenido|inhoud|spis tre[sś]ci",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"\W*(?:previous|prev|next|up|(?:newer|older)(?: posts?| entries)?"
    r"|(?:previous|next) (?:page|topic|chapter|section|post)|zurück|weiter|précédent|suivant|anterior|siguiente)\W*",
    re.IGNORECASE,
)
_STEP_LABEL = re.compile(r"\b(?:Next|Previous|Prev|Up):\s")
_SKIP = re.compile(
    r"(?:skip|jump) (?:to|over)\b.{0,40}|(?:back to |return to |to )?(?:the )?top|top of page|↑|\^", re.IGNORECASE
)
_INTERFACE = re.compile(
    r"(?:copy|copied!?|copy (?:code|link|to clipboard|item path|path)|hide|show|show more|show less|more|less|edit|"
    r"share|print|search|menu|toggle[\w ]{0,30}|close|open|(?:expand|collapse)(?: all)?|download|next|prev|"
    r"previous|run|try it|reset|clear|submit|ok|cancel|settings|help|theme|dark|light|auto|subscribe|login|log in|"
    r"on this page|contents|table of contents|sign in|sign up|like|tweet|save|play|play code|pause|"
    r"\[?(?:source|src|edit|edit source|hide|show|view source|link|permalink)\]?|edit (?:this )?page.{0,20}|[\W\d_]*)",
    re.IGNORECASE,
)
_RIGHTS = re.compile(
    r"©|\(c\) ?\d{4}|\bcopyright\b|\ball rights reserved|\bpowered by|\bgenerated (?:by|on|with)\b|\bbuilt with\b"
    r"|\blast (?:updated|modified|changed)\b|\bcreated using\b|\bhosted (?:by|on)\b|\blicen[sc]ed under\b",
    re.IGNORECASE,
)
_TITLE_PARTS = re.compile(r"\s+[|\u2013\u2014\u00b7\u2022\u00bb:-]+\s+|\s*\u2014\s*|:\s+")
_LONGEST_NAME, _LONGEST_INTERFACE, _LONGEST_STEPS = 300, 60, 400


def mark_furniture(page: PageElements, title: str) -> None:
    """Rename furniture after what it is, so that it is left out and counted; some text is always kept."""
    found: dict[_Element, str] = {}
    inside: set[_Element] = set()
    kept = page.characters
    in_content: set[_Element] = set()
    for element in page.order:
        parent = element.getparent()
        name = local_name(element)
        if parent in inside or parent in found:
            inside.add(element)
            continue
        if name in ("main", "article") or parent in in_content or element.get("role", "").strip().lower() == "main":
            in_content.add(element)
        kind = "" if is_note(element) else _kind_of(page, element, name, element in in_content, title)
        size = page.measures[element].characters
        if kind and (size < kept or not size):
            found[element] = kind
            kept -= size
    for element, kind in found.items():
        element.tag = kind
        _drop_its_heading(element, kind)


def is_note(element: _Element) -> bool:
    """Whether an element is a footnote of a book or an endnote, wherever it stands."""
    kinds = f"{element.get('epub:type', '')} {element.get(_EPUB_TYPE, '')} {element.get('role', '')}".lower().split()
    return not _NOTES.isdisjoint(kinds)


def _kind_of(page: PageElements, element: _Element, name: str, in_content: bool, title: str) -> str:
    measure = page.measures[element]
    if name in _CONTENT or name in page._dropped:
        return ""
    if name == "a":
        return _link_kind(element, measure)
    if name == "button":
        is_interface = 0 < measure.characters <= _LONGEST_INTERFACE and _INTERFACE.fullmatch(
            joined_lines(shown(element))
        )
        return "interface" if is_interface else ""
    if name == "select":
        return "interface"
    if name not in _BLOCKS:
        return ""
    if not measure.characters:
        is_first = page.first_heading is not None and measure.position <= page.first_heading
        return "logo" if measure.links and is_first and not measure.headings and not in_content else ""
    words = _words_of(element)
    if not words.isdisjoint({"editsection", "sectionedit"}):
        return "interface"
    share = measure.characters / max(page.characters, 1)
    if not words.isdisjoint(_OVERLAY_NAMES) and not measure.first and share < 0.5:
        return "popup"
    if _is_contents(page, element, measure, words):
        return "toc"
    if measure.first and not (name == "header" and _is_site_name(page, element, title)):
        return ""
    is_menu = not words.isdisjoint(_MENU_NAMES) and share < 0.6
    # Of thousands of links without a letter in them none is looked at.
    is_brief = max(measure.characters, measure.links) <= _LONGEST_STEPS
    is_short = is_brief and not measure.headings
    if is_short and measure.links > 1 and _leads_to_languages(element):
        return "nav"
    if is_menu and measure.links > 1 and measure.linked + measure.titled >= 0.6 * measure.characters:
        return "nav"
    if is_menu and not in_content and measure.links and measure.density >= 0.95 and not measure.headings:
        return "nav"
    if is_menu and is_brief and _has_steps(element):
        return "nav"
    if is_short and 2 <= measure.links <= 8 and _has_steps(element, least=2):
        return "nav"
    if not in_content:
        return _edge_kind(page, element, name, words, share)
    if name in ("footer", "aside") and measure.density >= 0.5 and share < 0.3:
        return f"page-{name}"
    if name == "footer" and measure.characters <= _LONGEST_SHOWN and _RIGHTS.search(shown(element)):
        return "page-footer"
    return ""


def _edge_kind(page: PageElements, element: _Element, name: str, words: frozenset[str], share: float) -> str:
    """What an element outside the main part of a page is."""
    measure = page.measures[element]
    end = measure.position + measure.characters
    before = page.first_heading is not None and end <= page.first_heading
    after = not measure.headings and end >= page.characters - _LONGEST_SHOWN and measure.position > page.characters / 2
    if name in ("footer", "aside", "header") and share < 0.4:
        return f"page-{name}"
    if share >= 0.3:
        return ""
    edge_names = _FOOT_NAMES if after else _HEAD_NAMES if before else frozenset()
    if not words.isdisjoint(edge_names) and (not measure.headings or measure.density > 0.5):
        return "page-footer" if after else "page-header"
    if name == "span":
        return ""
    is_brief = max(measure.characters, measure.links) <= _LONGEST_STEPS
    if (before or after) and is_brief and not measure.headings and _has_steps(element):
        return "nav"
    # Links to places of the page itself lead to what follows, such as a synopsis of functions.
    if before and measure.density >= 0.95 and measure.links >= 3 and 2 * measure.local < measure.linked:
        # An item of a menu is one link; a declaration links to every type in it.
        items = sum(1 for _ in element.iter("{*}li", "{*}td", "{*}th"))
        return "" if items and measure.links > items else "nav"
    if after and page.characters - end < _LONGEST_STEPS and measure.characters <= _LONGEST_STEPS:
        text = joined_lines(shown(element))
        if _RIGHTS.search(text) and not _sentences(text):
            return "page-footer"
    return ""


def _has_steps(element: _Element, least: int = 1) -> bool:
    # Texinfo writes "Next: Rows, Up: Beans", with links on the names alone.
    steps = len(_STEP_LABEL.findall(shown(element)))
    if steps >= least:
        return True
    for link in element.iter("{*}a"):
        relations = link.get("rel", "").lower().split()
        steps += (
            not {"prev", "previous", "next", "up"}.isdisjoint(relations)
            or link.get("accesskey", "") in ("p", "n", "u")
            or _STEP.fullmatch(joined_lines(shown(link))) is not None
        )
        if steps >= least:
            return True
    return False


def _sentences(text: str) -> bool:
    return len(re.findall(r"[a-z]{3,}[.!?](?:\s|$)", text)) > 2


def _link_kind(element: _Element, measure: _Measures) -> str:
    if measure.characters > _LONGEST_INTERFACE:
        return ""
    text = joined_lines(shown(element))
    href = element.get("href", "")
    if href.startswith("#") and _SKIP.fullmatch(text):
        return "skip"
    words = _words_of(element)
    is_source = not words.isdisjoint({"src", "seesrc", "srclink", "viewcode", "edit", "editlink", "source"})
    if not text or not _INTERFACE.fullmatch(text):
        return ""
    # A script does what a link without a target says.
    return "source-link" if is_source else "interface" if href == "#" or href.startswith("javascript:") else ""


def _leads_to_languages(element: _Element) -> bool:
    links = list(element.iter("{*}a"))
    others = [link for link in links if "hreflang" in link.attrib and "alternate" in link.get("rel", "").lower()]
    return len(links) > 1 and len(others) >= len(links) - 1


def _words_of(element: _Element) -> frozenset[str]:
    return _split_name(f"{element.get('class', '')} {element.get('id', '')} {element.get('role', '')}"[:_LONGEST_NAME])


@lru_cache(8_192)
def _split_name(written: str) -> frozenset[str]:
    whole = re.findall(r"[a-zA-Z]+", written)
    return frozenset(word.lower() for word in (*whole, *_NAME_PARTS.findall(written)))


def _is_contents(page: PageElements, element: _Element, measure: _Measures, words: frozenset[str]) -> bool:
    if measure.first or not measure.links or measure.local < 0.8 * measure.linked or measure.density < 0.75:
        return False
    if not words.isdisjoint({"toc", "tableofcontents", "contents", "minitoc"}):
        return True
    if measure.links < 3:
        return False
    parent = element.getparent()
    if parent in page.no_contents and page.measures[parent].links == measure.links:
        page.no_contents.add(element)
        return False
    page.links_to_read -= measure.links
    if page.links_to_read < 0:
        return False
    texts = [_plain(shown(link)) for link in element.iter("{*}a")]
    listed = sum(text in page.heading_texts for text in texts) >= 0.8 * len(texts)
    if not listed:
        page.no_contents.add(element)
    return listed


def _is_site_name(page: PageElements, element: _Element, title: str) -> bool:
    """Whether a header holds the name of the site, where the page has a heading of its own."""
    parts = [_plain(part) for part in _TITLE_PARTS.split(title) if part.strip()]
    own = {_plain(shown(heading)) for heading in element.iter(*(f"{{*}}{name}" for name in HEADINGS))}
    return len(parts) > 1 and parts[0] not in own and parts[0] in page.heading_texts and not own.isdisjoint(parts[1:])


def _drop_its_heading(element: _Element, kind: str) -> None:
    """A heading such as "Contents" goes with what it stands before."""
    before = element.getprevious()
    if kind not in ("toc", "nav") or before is None or not isinstance(before.tag, str):
        return
    is_heading = local_name(before) in HEADINGS | names("p div strong b")
    if is_heading and _CONTENTS.fullmatch(_plain(shown(before))):
        before.tag = kind
