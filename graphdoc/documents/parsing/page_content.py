"""Which part of an HTML page is its content: the main part where the page names one, without what is not shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .elements import local_name, names
from .page_furniture import FURNITURE
from .page_measures import HEADINGS, shown

if TYPE_CHECKING:
    from lxml.etree import _Element

# Marked elements get these names; they are left out and counted under them.
MARKS = names("hidden permalink heading-button nav dialog") | FURNITURE

_ROLES = {
    **dict.fromkeys(("navigation", "menu", "menubar", "search"), "nav"),
    **dict.fromkeys(("dialog", "alertdialog"), "dialog"),
}
_NOT_SHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
# rustdoc's "Expand description", and its links to the source with the version beside them.
_HIDDEN_CLASSES = names("hideme out-of-band rightside")
# Whole pages are marked with aria-hidden while a dialog is open; icons and second forms of formulas stand inline.
_INLINE = names("a abbr b em i small span strong sub sup")
# Anchors that mdBook, Sphinx, rustdoc, MkDocs, Docusaurus and GitHub put beside what they lead to.
_SIGNS = frozenset({"", "#", "§", "¶", "🔗", "◆", "⚓", "∞", "↩", "↩\ufe0e"})
_PERMALINK_WORDS = frozenset(
    {"anchor", "link", "permalink", "permanent link", "direct link", "link to this heading", "link to this section"}
)


def mark(root: _Element) -> None:
    """Rename what is not shown, is navigation or a popup, and the signs beside headings, to be left out.

    Args:
        root: the page, or a part of one.
    """
    # The innermost heading around every element, and the text of every heading.
    around: dict[_Element, _Element | None] = {}
    texts: dict[_Element, str] = {}
    for element in root.iter("*"):
        parent = element.getparent()
        heading = around.get(parent) if parent is not None else None
        found = _mark_of(element, heading, texts)
        if found:
            element.tag = found
        around[element] = element if local_name(element) in HEADINGS else heading


def _mark_of(element: _Element, heading: _Element | None, texts: dict[_Element, str]) -> str:
    """What an element is marked as, empty where it is kept, given the heading around it and the texts of headings."""
    name, role = local_name(element), element.get("role", "").strip().lower()
    if name in ("html", "body"):
        return ""
    if role in _ROLES:
        return _ROLES[role]
    if _is_hidden(element, name, role):
        return "hidden"
    if name == "a" and "#" in element.get("href", ""):
        text = shown(element)
        if text in _SIGNS:
            return "permalink"
        if heading is not None and text.casefold() in _PERMALINK_WORDS and _text_of(heading, texts) not in ("", text):
            return "permalink"
    if heading is not None and name == "button" and shown(element) != _text_of(heading, texts):
        # The heading of a section that opens on a click is a button itself.
        return "heading-button"
    return ""


def _text_of(heading: _Element, texts: dict[_Element, str]) -> str:
    if heading not in texts:
        texts[heading] = shown(heading)
    return texts[heading]


def _is_hidden(element: _Element, name: str, role: str) -> bool:
    if "hidden" in element.attrib:
        # Tabs that are not open, and text that the browser's search finds, are content all the same.
        return role != "tabpanel" and element.get("hidden", "").strip().lower() != "until-found"
    if name == "dialog":
        return "open" not in element.attrib
    if _NOT_SHOWN.search(element.get("style", "")):
        return True
    if name in _INLINE and element.get("aria-hidden", "").strip().lower() == "true":
        return True
    return not _HIDDEN_CLASSES.isdisjoint(element.get("class", "").split())


def content_of(roots: Sequence[_Element], dropped: frozenset[str]) -> tuple[list[_Element], Counter[str]]:
    """The elements that hold the content of a page.

    These are its ``<main>`` elements (or those with this role), or else its only ``<article>`` if that holds at least
    half of the text; without either the whole page.

    Args:
        roots: the page, after :func:`mark`.
        dropped: names of elements whose text does not count.

    Returns:
        The elements in reading order, and how many elements with text, or of the dropped ones, stand outside of them,
        by name.
    """
    found = _outermost(roots, "main", dropped)
    if not found:
        articles = _outermost(roots, "article", dropped)
        if len(articles) == 1 and 2 * _length(articles[0], dropped) >= sum(_length(root, dropped) for root in roots):
            found = articles
    if not found:
        return list(roots), Counter()
    outside: Counter[str] = Counter()
    inner, around = set(found), _ancestors(found)
    waiting = list(roots)
    while waiting:
        element = waiting.pop()
        if element in around:
            waiting.extend(element.iterchildren("*"))
        elif element not in inner and (local_name(element) in dropped or _length(element, dropped)):
            outside[local_name(element)] += 1
    return found, outside


def _ancestors(elements: Sequence[_Element]) -> set[_Element]:
    found: set[_Element] = set()
    for element in elements:
        for ancestor in element.iterancestors():
            if ancestor in found:
                break
            found.add(ancestor)
    return found


def left_out_characters(
    roots: Sequence[_Element], content: Sequence[_Element], dropped: frozenset[str], no_text: frozenset[str]
) -> int:
    """Characters of text that are left out of a page, white space not counted.

    Args:
        roots: the page.
        content: what is read of it, as :func:`content_of` gives it.
        dropped: names of elements that are left out.
        no_text: those among them that hold no text of the page, such as scripts.
    """
    whole = sum(_length(root, no_text) for root in roots)
    return whole - sum(_length(element, dropped) for element in content)


def _outermost(roots: Sequence[_Element], name: str, dropped: frozenset[str]) -> list[_Element]:
    """Elements of a name or role that have text, in reading order, none inside another."""
    found = []
    waiting = list(reversed(roots))
    while waiting:
        element = waiting.pop()
        if local_name(element) in dropped:
            continue
        if local_name(element) != name and element.get("role", "").strip().lower() != name:
            waiting.extend(element.iterchildren("*", reversed=True))
        elif _length(element, dropped):
            found.append(element)
    return found


def _length(root: _Element, dropped: frozenset[str]) -> int:
    """Characters of the text of an element, white space not counted."""
    length = 0
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if element is not root:
            length += len("".join((element.tail or "").split()))
        if local_name(element) not in dropped:
            length += len("".join((element.text or "").split()))
            waiting.extend(element.iterchildren("*"))
    return length
