"""Which parts of an HTML page are furniture: by their names, by how much of them is links, and by where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from .elements import local_name, names
from .outline import CONTENTS, joined_lines
from .page_elements import HEADINGS, LONGEST_SHOWN, NO_LETTER, Measures, PageElements, plain, shown

if TYPE_CHECKING:
    from lxml.etree import _Element

_EPUB_TYPE = "{http://www.idpf.org/2007/ops}type"
_NOTE = names("note notes footnote footnotes endnote endnotes rearnote rearnotes doc-footnote doc-endnote doc-endnotes")
# Furniture gets these names; it is left out and counted under them.
FURNITURE = names("nav toc popup skip source-link interface logo comments box page-header page-footer page-aside")
_CONTENT = names("html body main article")
_BLOCKS = names("div ul ol dl table p nav aside header footer section details form center span address")
_TEXTS = names("p div section ul ol dl")
_LISTS = names("div section aside nav header footer ul ol")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# Words in classes and ids of generators' templates: DocBook, MediaWiki, Sphinx, Doxygen, Haddock, Qt, WordPress, ...
_MENU_NAMES = names(
    "nav navbar navbars navi navigation navheader navfooter navlinks navpath docnav sitenav topnav subnav bottomnav "
    "breadcrumb breadcrumbs crumb crumbs toc tableofcontents minitoc pager pagination paginate prevnext menu submenu "
    "mainmenu megamenu sidebar sidenav toolbar related languages langs share sharing social subscribe newsletter "
    "catlinks contentsub editsection skip skiplink skiplinks links tags categories outline"
)
_SITE_NAMES = "promo advert advertisement ads announcement cookie cookies consent chlinktop "
_HEAD_NAMES = names(
    _SITE_NAMES + "header banner masthead topbar logo titlearea tagline slogan brand branding sitename sitetitle"
)
_FOOT_NAMES = names(_SITE_NAMES + "footer copyright colophon printfooter siteinfo imprint")
# What a page shows only when it is pointed at (Doxygen's "ttc"), over the rest, or in print (MediaWiki's "siteSub").
_OVERLAY_NAMES = names("tooltip tooltiptext ttc popup popover modal lightbox overlay snackbar toast offcanvas sitesub")
# What readers write below a text; as a part of a longer name, but not of one that says something of the page.
_READERS = re.compile(
    r"(?<![^\s_-])(?:comments?(?:list|area|box|thread|section)?|respond|disqus|replies|reacties|opinie"
    r"|[ck]omm?ent(?:are?|aires?|arios|arze|i)|yorum(?:lar)?)(?![^\s_-])",
    re.IGNORECASE,
)
_OF_THE_PAGE = names("has no open closed enabled disabled with without count link allow allowed")
_REPLY = re.compile(
    r"(?<![a-z])(?:repl(?:y|ies)|r[ei]spond|antwort|odpowied|otvet|yan[iı]t)|comment[_-]?(?:author|meta|date|time|user)",
    re.IGNORECASE,
)
_BOX_NAMES = names("newsletter newsletters subscribe subscription subscriptions signup optin mailinglist")
_AD_NAMES = names(
    "ad ads advert adverts advertisement advertising adslot sponsored relatedposts cta promo werbung reklama "
    "publicidad publicite"
)
_SHARE = re.compile(
    r"facebook\.com/(?:sharer|dialog)|(?<![a-z])(?:twitter|x)\.com/(?:intent|share|home\?)|linkedin\.com/shar|/pin/create"
    r"|api\.whatsapp\.com|whatsapp:|wa\.me/\?|t(?:elegram)?\.me/share|vk\.com/share|connect\.ok\.ru|[?&]share="
    r"|weibo\.com/share|qzone\.qq\.com/.*share|share\.renren|b\.hatena\.ne\.jp|(?<![a-z])line\.(?:me|naver)|reddit\.com/submit"
    r"|getpocket\.com|tumblr\.com/(?:share|widgets)|xing\.com/.*share|mailto:\?|window\.print|javascript:\s*print",
    re.IGNORECASE,
)
_LEAST_PROSE, _LONGEST_BOX, _LONGEST_LABEL, _LONGEST_LINKS, _LONGEST_SIGN = 200, 400, 40, 150, 10
_LONGEST_FORM = 200
_STEP = re.compile(
    r"\W*(?:previous|prev|next|up|(?:newer|older)(?: posts?| entries)?|zurück|weiter"
    r"|(?:previous|next) (?:page|topic|chapter|section|post)|précédent|suivant|anterior|siguiente)\W*|[<>]{1,2}\]",
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
_SENTENCE_END = re.compile(r"[a-z]{3,}[.!?](?:\s|$)")
_RIGHTS = re.compile(
    r"©|\(c\) ?\d{4}|\bcopyright\b|\ball rights reserved|\bpowered by|\bgenerated (?:by|on|with)\b|\bbuilt with\b"
    r"|\blast (?:updated|modified|changed)\b|\bcreated using\b|\bhosted (?:by|on)\b|\blicen[sc]ed under\b",
    re.IGNORECASE,
)
# How a line begins that says no more than whose a page is, how it was made or how old it is.
_IMPRINT = re.compile(
    r"\W*(?:(?:this|the) (?:page|document|file|manual|site) (?:was |is )?)?(?:©|\(c\)|copyright (?:©|\(c\)|\d{4})"
    r"|all rights|last (?:updated|modified|changed)|(?:powered|generated|built|created|hosted) (?:by|on|with|using))",
    re.IGNORECASE,
)
_TITLE_PARTS = re.compile(r"\s+[|\u2013\u2014\u00b7\u2022\u00bb:-]+\s+|\s*\u2014\s*|:\s+")
_LONGEST_NAME, _LONGEST_INTERFACE, _LONGEST_STEPS, _MOST_STEPS = 300, 60, 400, 12


def mark_furniture(page: PageElements, title: str, *, is_post: bool = False) -> None:
    """Rename furniture after what it is, so that it is left out and counted; some text is always kept.

    Of a post, which is a page of a newspaper or a blog that says so, more is known to be furniture.
    """
    found: dict[_Element, str] = {}
    inside: set[_Element] = set()
    kept = page.characters
    in_content: set[_Element] = set()
    in_column: set[_Element] = set()
    readers = {part for part in page.order if _is_of_readers(page, part, page.measures[part])}
    column = _column(page, readers) if is_post else []
    for element in page.order:
        parent = element.getparent()
        name = local_name(element)
        if parent in inside or parent in found:
            inside.add(element)
            continue
        if name in ("main", "article") or parent in in_content or element.get("role", "").strip().lower() == "main":
            in_content.add(element)
        if parent in in_column or element in column[:1]:
            in_column.add(element)
        kind = "comments" if element in readers else ""
        if not kind and not is_note(element):
            kind = _kind_of(page, element, name, element in in_content, title)
            if not kind and column and element not in column:
                kind = _kind_in_post(page, element, name, element in in_column)
        size = page.measures[element].characters
        if kind and (size < kept or not size):
            found[element] = kind
            kept -= size
    for element, kind in found.items():
        element.tag = kind
        _drop_its_heading(element, kind)


def is_note(element: _Element) -> bool:
    """Whether an element is a footnote of a book or an endnote, wherever it stands."""
    kinds = [kind for name in ("epub:type", _EPUB_TYPE, "role") if (kind := element.get(name))]
    return bool(kinds) and not _NOTE.isdisjoint(" ".join(kinds).lower().split())


def _kind_of(page: PageElements, element: _Element, name: str, in_content: bool, title: str) -> str:
    measure = page.measures[element]
    if name in _CONTENT or name in page.dropped:
        return ""
    if name == "a":
        return _link_kind(element, measure)
    if name == "button":
        is_short = 0 < measure.characters <= _LONGEST_INTERFACE
        return "interface" if is_short and _INTERFACE.fullmatch(joined_lines(shown(element))) else ""
    if name not in _BLOCKS:
        return "interface" if name == "select" else ""
    if not measure.characters:
        if not measure.links or measure.headings:
            return ""
        if page.first_heading is not None and measure.position <= page.first_heading and not in_content:
            return "logo"
        at_end = not in_content and page.characters - measure.position <= _LONGEST_STEPS
        is_few = measure.links <= _MOST_STEPS and all(len(shown(one)) <= _LONGEST_LABEL for one in element.iter("{*}a"))
        return "nav" if is_few and _has_steps(element, least=1 if at_end else 2) else ""
    words = _words_of(element)
    if not words.isdisjoint({"editsection", "sectionedit"}):
        return "interface"
    share = measure.characters / max(page.characters, 1)
    if share < 0.3 and not measure.first and _is_box(page, element, words):
        return "box"
    if name == "form" and share < 0.3 and measure.characters <= _LONGEST_FORM and not measure.headings:
        return "interface"
    is_overlay = not words.isdisjoint(_OVERLAY_NAMES) or (name in _LISTS and _is_opened(element, measure))
    if is_overlay and not measure.first and share < 0.5:
        return "popup"
    if _is_contents(page, element, measure, words):
        return "toc"
    if measure.first:
        is_site = (name == "header" or "header" in words) and _is_site_name(page, element, title)
        return "page-header" if is_site and share < 0.4 else ""
    is_before = measure.links > 0 and _is_before_title(page, element)
    # Links before the title lead to it, the last of them being the title itself.
    if is_before and page.title is not None and plain(shown(element)).endswith(plain(shown(page.title))):
        return "nav"
    is_menu = not words.isdisjoint(_MENU_NAMES) and share < 0.6
    # Of thousands of links without a letter in them none is looked at.
    is_brief = max(measure.characters, measure.links) <= _LONGEST_STEPS
    if is_brief and not measure.headings and measure.links > 1 and _leads_elsewhere(element, measure):
        return "nav"
    if is_menu and measure.links > 1 and measure.linked + measure.titled >= 0.6 * measure.characters:
        return "nav"
    if is_menu and not in_content and measure.links and measure.density >= 0.95 and not measure.headings:
        return "nav"
    may_step = is_menu or (not measure.headings and 2 <= measure.links <= _MOST_STEPS)
    if is_brief and may_step and _has_steps(element, least=1 if is_menu else 2):
        return "nav"
    if not in_content:
        return _edge_kind(page, element, name, words, share)
    if name in ("footer", "aside") and measure.density >= 0.5 and share < 0.3:
        return f"page-{name}"
    if name == "footer" and measure.characters <= LONGEST_SHOWN and _RIGHTS.search(shown(element)):
        return "page-footer"
    return ""


def _column(page: PageElements, readers: Iterable[_Element]) -> list[_Element]:
    """The smallest element that holds the title and nearly all prose of a page, and those around it."""
    around = list(page.title.iterancestors()) if page.title is not None else []
    most = 0.8 * (page.prose - max((page.measures[part].plain for part in readers), default=0))
    while len(around) > 1 and page.measures[around[0]].plain < most:
        del around[0]
    return around


def _kind_in_post(page: PageElements, element: _Element, name: str, in_column: bool) -> str:
    """What else an element of an article is: a button, the number of a picture, links beside its text or within it."""
    measure = page.measures[element]
    above = element.getparent()
    around = "" if above is None else local_name(above)
    if 0 < measure.characters <= _LONGEST_INTERFACE and "button" in (name, element.get("role")):
        # What opens a section is its heading.
        return "" if "aria-controls" in element.attrib or around in HEADINGS else "interface"
    if around == "figure" and name in ("span", "div", "p") and measure.characters:
        return "" if any(map(str.isalpha, shown(element))) else "interface"
    if name not in _LISTS or measure.first:
        return ""
    links = 1 - measure.plain / max(measure.characters, 1) if measure.characters < 0.3 * page.characters else 0.0
    is_sign = measure.plain <= _LONGEST_SIGN and _is_before_title(page, element)
    if measure.links and (is_sign or (not in_column and links >= 0.6)):
        return "nav"
    if not in_column:
        return "comments" if _has(page, element, "textarea") else ""
    if measure.headings:
        return "nav" if links >= 0.9 and measure.links > 1 else ""
    is_named = measure.links and name not in ("ul", "ol") and (element.get("class") or element.get("id"))
    return "nav" if is_named and links >= 0.6 and measure.characters <= _LONGEST_LINKS else ""


def _has(page: PageElements, element: _Element, *wanted: str) -> bool:
    page.searches -= 1
    return page.searches > 0 and next(element.iter(*wanted, *(f"{{*}}{name}" for name in wanted)), None) is not None


def _is_of_readers(page: PageElements, element: _Element, measure: Measures) -> bool:
    """Whether an element holds what readers wrote below a text.

    A commentary on a law and an article about comments are called the same, but have no form for a reply nor replies.
    """
    if measure.prose < _LEAST_PROSE or measure.first or local_name(element) not in _BLOCKS:
        return False
    names = f"{element.get('class', '')} {element.get('id', '')}"[:_LONGEST_NAME]
    if not _READERS.search(names) or page.searches <= 0:
        return False
    for name in names.split():
        if _READERS.search(name) and not _OF_THE_PAGE.isdisjoint(re.findall(r"[a-z]+", name.lower())):
            return False
    page.searches -= 1
    signs = 0
    scripted: set[str] = set()
    for part in element.iter("*"):
        name = local_name(part)
        signs += name == "time" or _REPLY.search(f"{part.get('class', '')} {part.get('href', '')}") is not None
        if name == "button" or part.get("href", "") == "#":
            # The same word under each of them, which a script obeys.
            text = joined_lines(shown(part))
            signs += 2 if text in scripted and not NO_LETTER.fullmatch(text) else 0
            scripted.add(text)
        if signs > 1 or name == "textarea":
            return True
    return False


def _is_box(page: PageElements, element: _Element, words: frozenset[str]) -> bool:
    """Whether an element asks for something, such as an address for letters, or advertises."""
    measure = page.measures[element]
    if measure.characters > _LONGEST_BOX or measure.headings > 2:
        return False
    if not words.isdisjoint(_AD_NAMES):
        return measure.links > 0 or measure.characters <= _LONGEST_LABEL
    return not words.isdisjoint(_BOX_NAMES) and (measure.density > 0.5 or _has(page, element, "input", "iframe"))


def _is_opened(element: _Element, measure: Measures) -> bool:
    """Whether an element is a menu that opens at the word before it, as Bootstrap and ARIA mark them."""
    opener, is_menu = element.getprevious(), "dropdown-menu" in element.get("class", "").lower().split()
    is_opened = opener is not None and opener.get("aria-haspopup") in ("true", "menu")
    is_menu |= is_opened and measure.linked >= measure.plain
    return is_menu and not measure.headings and measure.links > 0 and measure.plain < _LEAST_PROSE


def _is_before_title(page: PageElements, element: _Element) -> bool:
    measure = page.measures[element]
    if page.title is None or measure.headings or max(measure.characters, measure.links) > _LONGEST_STEPS:
        return False
    return measure.position < page.measures[page.title].position


def _edge_kind(page: PageElements, element: _Element, name: str, words: frozenset[str], share: float) -> str:
    measure = page.measures[element]
    before = page.first_heading is not None and measure.end <= page.first_heading
    left = page.characters - measure.end
    after = not measure.headings and left <= LONGEST_SHOWN and 2 * measure.position > page.characters
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
    if after and left < _LONGEST_STEPS and measure.characters <= _LONGEST_STEPS:
        text = joined_lines(shown(element))
        if _RIGHTS.search(text) and len(_SENTENCE_END.findall(text)) <= 2 and not _is_paragraph(page, element, text):
            return "page-footer"
    return ""


def _is_paragraph(page: PageElements, element: _Element, text: str) -> bool:
    """Whether what speaks of rights at the end of a page is text: right below a heading, or marked as other text is."""
    measure = page.measures[element]
    page.searches -= 1 + len(page.order) // 1_000
    before = [part for part in page.order if page.measures[part].end <= measure.position] if page.searches > 0 else []
    if any(page.measures[part].end == measure.position and local_name(part) in HEADINGS for part in before):
        return True
    last = element.getprevious()
    if _IMPRINT.match(text) or local_name(element) not in _TEXTS or (last is not None and local_name(last) == "hr"):
        return False
    return sum(page.measures[part].plain for part in before if _marks(part) == _marks(element)) >= measure.plain


def _marks(element: _Element) -> tuple[str, ...]:
    return (*(element.get(name, "") for name in ("class", "align", "style")), element.get("id", "").strip("0123456789"))


def _has_steps(element: _Element, least: int = 1) -> bool:
    # Texinfo writes "Next: Rows, Up: Beans", with links on the names alone, and texi2html "[ < ]".
    steps = len(_STEP_LABEL.findall(shown(element)))
    if steps >= least:
        return True
    for link in element.iter("{*}a"):
        relations = link.get("rel", "").lower().split()
        steps += (
            not {"prev", "previous", "next", "up"}.isdisjoint(relations)
            or link.get("accesskey", "") in ("p", "n", "u")
            or _STEP.fullmatch(joined_lines(shown(link)) + "]" * (link.tail or "").startswith("]")) is not None
        )
        if steps >= least:
            return True
    return False


def _link_kind(element: _Element, measure: Measures) -> str:
    if measure.characters > _LONGEST_INTERFACE:
        return ""
    text = joined_lines(shown(element))
    href = element.get("href", "")
    if href.startswith("#") and _SKIP.fullmatch(text):
        return "skip"
    if _SHARE.search(href):
        return "interface"
    words = _words_of(element)
    is_source = not words.isdisjoint({"src", "seesrc", "srclink", "viewcode", "edit", "editlink", "source"})
    if not text or not _INTERFACE.fullmatch(text):
        return ""
    # A script does what a link without a target says.
    return "source-link" if is_source else "interface" if href == "#" or href.startswith("javascript:") else ""


def _leads_elsewhere(element: _Element, measure: Measures) -> bool:
    """Whether all links but the own one lead to other languages, or all to places where a page can be shared."""
    links = list(element.iter("{*}a"))
    others = [link for link in links if "hreflang" in link.attrib and "alternate" in link.get("rel", "").lower()]
    is_sharing = measure.characters - measure.linked <= _LONGEST_LABEL
    is_sharing = is_sharing and all(_SHARE.search(link.get("href", "")) for link in links[:20])
    return len(others) >= len(links) - 1 or is_sharing


def _words_of(element: _Element) -> frozenset[str]:
    return _split_name(f"{element.get('class', '')} {element.get('id', '')} {element.get('role', '')}"[:_LONGEST_NAME])


@lru_cache(8_192)
def _split_name(written: str) -> frozenset[str]:
    return frozenset(word.lower() for word in (*re.findall(r"[a-zA-Z]+", written), *_NAME_PARTS.findall(written)))


def _is_contents(page: PageElements, element: _Element, measure: Measures, words: frozenset[str]) -> bool:
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
    texts = [plain(shown(link)) for link in element.iter("{*}a")]
    listed = sum(text in page.heading_texts for text in texts) >= 0.8 * len(texts)
    if not listed:
        page.no_contents.add(element)
    return listed


def _is_site_name(page: PageElements, element: _Element, title: str) -> bool:
    """Whether a header holds the name of the site, where the page has a heading of its own."""
    parts = [plain(part) for part in _TITLE_PARTS.split(title) if part.strip()]
    own = {plain(shown(heading)) for heading in element.iter(*(f"{{*}}{name}" for name in HEADINGS))}
    # The name of the page comes first, unless that of the site is a link above all.
    measure = page.measures[element]
    called = parts if not measure.titled and measure.position <= (page.first_heading or 0) else parts[:1]
    return not own.isdisjoint(parts) and any(part in page.heading_texts and part not in own for part in called)


def _drop_its_heading(element: _Element, kind: str) -> None:
    """A heading such as "Contents" goes with what it stands before."""
    before = element.getprevious()
    if kind not in ("toc", "nav") or before is None or not isinstance(before.tag, str):
        return
    is_heading = local_name(before) in HEADINGS | names("p div strong b")
    if is_heading and (CONTENTS.fullmatch(name := plain(shown(before))) or name == "overview"):
        before.tag = kind
