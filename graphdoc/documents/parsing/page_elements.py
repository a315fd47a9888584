"""The elements of an HTML page, measured: letters, links, headings and places, in one pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lxml import etree

from .elements import local_name, names
from .outline import joined_lines

if TYPE_CHECKING:
    from lxml.etree import _Element

HEADINGS = names("h1 h2 h3 h4 h5 h6")
# More of a text than this is not looked at where a link, a heading or a line of rights is recognized.
LONGEST_SHOWN = 1_000
_MOST_SEARCHES = 100
_CONTROLS = names("button select option label input")
NO_LETTER = re.compile(r"[\W_]+")
_NUMBERING = re.compile(
    r"^(?:(?:chapter|section|appendix|part)\s+)?(?:[\dIVXA-Z]{1,4}[.):]?)(?:\d[.)]?)*\s+(?=\S)", re.IGNORECASE
)


@dataclass(slots=True)
class Measures:
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
        prose: those of them that are neither in links nor in headings.
    """

    characters: int = 0
    linked: int = 0
    local: int = 0
    links: int = 0
    headings: int = 0
    titled: int = 0
    first: bool = False
    position: int = 0
    prose: int = 0

    @property
    def end(self) -> int:
        """Characters of the page before the end of the element."""
        return self.position + self.characters

    @property
    def density(self) -> float:
        """Share of the text that is in links."""
        return self.linked / self.characters if self.characters else 0.0

    @property
    def plain(self) -> int:
        """Letters and digits that are neither in links nor in headings."""
        return self.characters - self.linked - self.titled


def _count(text: str | None) -> int:
    return len(NO_LETTER.sub("", text)) if text and not text.isspace() else 0


class PageElements:
    """The measured elements of the trees of a page; those whose names are in ``dropped`` are not looked at."""

    def __init__(self, roots: Sequence[_Element], dropped: frozenset[str]) -> None:
        self.roots = roots
        self.dropped = dropped
        self.measures: dict[_Element, Measures] = {}
        self.order: list[_Element] = []
        self.heading_texts: set[str] = set()
        self.first_heading: int | None = None
        self.title: _Element | None = None
        self.characters = self.prose = 0
        self.no_contents: set[_Element] = set()
        for root in roots:
            self._measure(root)
        # Blocks inside one another would be searched for the same again and again.
        self.searches = _MOST_SEARCHES
        self.links_to_read = 20 * sum(self.measures[root].links for root in roots)

    def _measure(self, root: _Element) -> None:
        """Measure all elements in one pass, so that pages of any size and depth take linear time."""
        link, local, heading = 0, 0, 0
        # The tag "*" would give entities, too.
        walk = etree.iterwalk(root, ("start", "end"), "{*}*")
        for event, element in walk:
            name = local_name(element)
            if event == "end":
                measure = self.measures[element]
                link -= name == "a" or name in _CONTROLS
                local -= name == "a" and element.get("href", "").startswith("#")
                if name in HEADINGS:
                    heading -= 1
                    measure.headings += 1
                    measure.titled = measure.characters - measure.linked
                    measure.first |= name == "h1"
                    if name == "h1" and measure.titled and self.title is None:
                        self.title = element
                parent = element.getparent()
                tail = 0 if element is root else _count(element.tail)
                self.characters += tail
                self.prose += 0 if link or heading else tail
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
            measure = self.measures[element] = Measures(position=self.characters, prose=self.prose)
            if name in self.dropped:
                walk.skip_subtree()
                continue
            if name in HEADINGS:
                if self.first_heading is None:
                    self.first_heading = self.characters
                if not heading:
                    self.heading_texts.add(plain(shown(element)))
                heading += 1
            link += name == "a" or name in _CONTROLS
            local += name == "a" and element.get("href", "").startswith("#")
            own = _count(element.text)
            self.characters += own
            self.prose += 0 if link or heading else own
            measure.characters += own
            measure.linked += own if link else 0
            measure.local += own if local else 0
            measure.links += name == "a"


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
        if length > LONGEST_SHOWN:
            break
    return "".join(parts).strip(" \t\n\r\f\xa0\u200b\u200c\u200d\ufeff")


def plain(text: str) -> str:
    """A heading in the form in which it is compared: without case, numbering and signs at its ends."""
    return joined_lines(_NUMBERING.sub("", joined_lines(text)).casefold()).strip(" ¶§#:.◆\u2014-")
