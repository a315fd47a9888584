"""Which blocks are headings, and of which level: outline, tags, size, weight, numbers, words and space together."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..outline import PARTS, words
from .blocks import BULLET, NEW_COLUMN, Block, TextJoiner
from .page import Line

_NUMBER = re.compile(
    rf"^(?:(?:{PARTS}|article|abschnitt|artikel|§+)\s*)?"
    r"(?:(\d{1,3}(?:\.\d{1,3}){0,5})([.):]|(?=\s))|([A-Z](?:\.\d{1,3}){1,5})([.):]|(?=\s))|([IVXLC]{1,7}|[A-Z])[.):])"
    r"\s*(?=\S)",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"^(?:{PARTS})\s+(?:\d+|[IVXLC]+|[A-Z])\b", re.IGNORECASE)
LABEL = re.compile(rf"(?:{PARTS})\s+(?:\d+|[IVXLC]+|[A-Z]|[a-z]+)[.:]?", re.IGNORECASE)
# Sphinx sets CHAPTER and the number in words on lines of their own.
_SPELLED = re.compile(
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:[- ]?(?:one|two|three|four|five|six|seven|eight|nine))?",
    re.IGNORECASE,
)
_CAPTION = re.compile(
    r"^(?:fig(?:ure|\.)?|table|tab\.|listing|algorithm|abbildung|abb\.|tabelle|tableau|scheme|plate|box)\s*[A-Z]?\d+\b",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"abstract|introduction|conclusions?|references|bibliography|acknowledge?ments?|summary|preface|appendix|discussion|"
    r"results|methods|background|related work|index|foreword|notes|literature",
    re.IGNORECASE,
)
_ENDS_AS_TEXT = re.compile(r"[.;,][\"'”’)]*$")
# Chapters of novels are named so.
_NUMBER_ALONE = re.compile(r"(?:[IVXLC]{1,7}|\d{1,3})\.?")
_AS_CODE = re.compile(r"[\\{}=<>|]")
# What manuals print over a box, and over lists of parameters.
_BOX = re.compile(
    r"(?:note|notes|tip|hint|warning|caution|important|attention|danger|remark|remarque|avertissement|astuce|hinweis|"
    r"warnung|achtung|tipp|wichtig|vorsicht|nota|aviso|advertencia|attenzione|avvertenza|suggerimento|notera|varning|"
    r"parameters?|returns?|see also|since|deprecated|"
    r"(?:theorem|lemma|corollary|proposition|proof)(?: \d+(?:\.\d+)*)?)\s*[:.!]?",
    re.IGNORECASE,
)
# Options of commands and lines of code begin with a sign, commands with what a terminal prints before them.
_SIGN_FIRST = re.compile(r"^(?:[-–−,.;%(/*+&~]|[$#>]\s|#!|\S+[@:~]\S*[$#]\s)")
# Such a number is none of a section.
_DATE = re.compile(r"\d{1,2}(?:\.\d{1,2}\.|\.?(?: de)? [^\W\d]+\.?,?(?: de)? )(?:19|20)\d\d\b")
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+")
# No entry of a list has a number of several parts.
_DEEP_NUMBER = re.compile(r"^(?:\d{1,3}|[A-Z])(?:\.\d{1,3})+[.):]?\s+\S")


def _is_formula(text: str) -> bool:
    """Whether most of the letters of a line are names of quantities and not words."""
    letters = [letter for letter in text if letter.isalpha()]
    latin = _LATIN_WORD.findall(text)
    if sum(map(len, latin)) < 0.5 * len(letters) or sum(map(str.isdigit, text)) > 2 * len(letters):
        return False
    return sum(len(word) for word in latin if len(word) > 2) < 0.34 * len(letters)


_LARGE = 1.15
# Shares of the size of the running text.
_INDENT, _SURE_INDENT, _EDGE = 0.8, 1.8, 0.6
_FEW, _STEP = 3, 3.0


def _hanging_terms(blocks: Sequence[Block], places: set[int], size: float) -> set[int]:
    """Lines under which the text is set in, as under the terms of a list.

    Where most headings hang out to the left of their text, it says nothing.
    """
    large = {place for place in places if blocks[place].first.size >= _LARGE * size}
    models = large if len(large) > 1 else places
    hanging = {place for place in places if _indent_below(blocks, place, size) > _INDENT * size}
    if sum(place in hanging for place in models) > 0.3 * len(models):
        return set()
    return {place for place in hanging if blocks[place].first.size < _LARGE * size}


def _indent_below(blocks: Sequence[Block], place: int, size: float) -> float:
    """How much further to the right than a line the text below it begins; 0 where that is no running text."""
    if place + 1 >= len(blocks):
        return 0.0
    line, below = blocks[place].first, blocks[place + 1]
    if below.kind not in ("text", "note") or below.first.column != line.column:
        return 0.0
    indent = min(other.left for other in below.lines if other.column == line.column) - line.left
    # The first line of a paragraph is set in as well, by less.
    return indent if len(below.lines) > 1 or indent > _SURE_INDENT * size else 0.0


def _scattered(blocks: Sequence[Block], places: set[int], size: float) -> set[int]:
    """Lines that begin at no edge where text or other headings begin, and are not centred: words of pictures."""
    lines = [line for block in blocks for line in block.lines[:2] if len(line.text) > 40]
    lines += [blocks[place].first for place in places]
    edges = Counter(round((line.left - line.column_left) / _STEP) for line in lines)
    found = set()
    for place in places:
        line = blocks[place].first
        indent, rest = line.left - line.column_left, line.column_right - line.right
        edge = round(indent / _STEP)
        usual = sum(edges[edge + step] for step in (-1, 0, 1)) > max(_FEW, 0.005 * edges.total())
        centred = abs(indent - rest) < 3 * size
        if not (indent < _EDGE * size or rest < _EDGE * size or centred or usual):
            found.add(place)
    return found


_LONGEST, _LONGEST_LINE, _MOST_WORDS, _MOST_LINES = 240, 150, 30, 4
# Gap above a bold line that is a heading whatever it ends with.
_ALONE = 1.4
_PERMALINK = re.compile(r"\s*[¶§#🔗]\s*$|^§(?!\s*\d)")


@dataclass(frozen=True)
class _Look:
    size: float
    bold: bool
    italic: bool
    capitals: bool
    colour: int
    font: str


def heading_text(text: str) -> str:
    """The text of a heading without the signs of permanent links, which printed pages of the web have."""
    return _PERMALINK.sub("", text).strip()


def _is_rare(value: Any, counts: Counter[Any]) -> bool:
    return value != counts.most_common(1)[0][0] and counts[value] < 0.2 * counts.total()


def _has_line_number(line: Line) -> bool:
    """Whether a line begins with a number much smaller than itself, as listings and verses have them."""
    first = line.pieces[0]
    return first.text.isdigit() and first.style.size < 0.8 * max(piece.style.size for piece in line.pieces)


# An entry of a file: level, text, and page, -1 if unknown.
_Entry = tuple[int, str, int]


class HeadingFinder:
    """Finds headings among blocks.

    Args:
        blocks: of the whole document, in reading order.
        size: of the running text.
        bold: whether the running text is bold.
        outline: the entries of the file.
        joiner: which makes the text of a block.
    """

    def __init__(
        self, blocks: Sequence[Block], size: float, bold: bool, outline: Sequence[_Entry], joiner: TextJoiner
    ) -> None:
        self._blocks, self._size, self._bold = blocks, size, bold
        self._texts = [joiner.text(block.lines) for block in blocks]
        self._looks = [self._look(block, text) for block, text in zip(blocks, self._texts, strict=True)]
        self._outline = self._matched(outline)
        tags = {place: block.first.style.tag for place, block in enumerate(blocks)}
        # Levels of what the file itself calls a heading, 0 where it does not say them.
        self._named = {place: int(tag[1:] or 0) for place, tag in tags.items() if tag[:1] == "H"} | self._outline
        self._colours = Counter(line.style.colour for block in blocks for line in block.lines)
        self._apart = Counter(
            look for look, block in zip(self._looks, blocks, strict=True) if len(block.lines) == 1 and block.gap > 1.25
        )
        self._fonts = Counter(line.style.font for block in blocks for line in block.lines)

    def find(self) -> dict[int, int]:
        """Levels of headings by their place among the blocks."""
        found = {place for place in range(len(self._blocks)) if self._is_heading(place)}
        found -= self._misplaced(found)
        self._leave_out_front_matter(found)
        return self._levels(sorted(found))

    def _misplaced(self, found: set[int]) -> set[int]:
        """Terms of lists and words of pictures among what looks like headings."""
        loose = found - self._named.keys()
        plain = {place for place in loose if not _NUMBER.match(self._texts[place])}
        terms = _hanging_terms(self._blocks, loose, self._size) | _scattered(self._blocks, loose, self._size)
        # The largest line of the first page is a title wherever it begins.
        largest = max(found, key=lambda place: (self._looks[place].size, -place), default=-1)
        if self._blocks and self._blocks[largest].first.page == self._blocks[0].first.page:
            plain.discard(largest)
        return {place for place in terms & plain if not _KNOWN.fullmatch(self._texts[place])}

    def _look(self, block: Block, text: str) -> _Look:
        pieces = [piece for line in block.lines for piece in line.pieces]
        loud = [piece for piece in pieces if not piece.style.fixed] or pieces
        total = sum(len(piece.text) for piece in loud)

        def most(trait: str) -> bool:
            return sum(len(piece.text) for piece in loud if getattr(piece.style, trait)) > 0.8 * total

        letters = [letter for piece in loud for letter in piece.text if letter.isalpha()]
        # Small capitals are often capitals of a smaller size after a large first letter.
        capitals = most("capitals") or (len(letters) > 3 and all(letter.isupper() for letter in letters))
        size = max(piece.style.size for piece in loud) if capitals else block.first.size
        style = block.first.style
        return _Look(round(size * 2) / 2, most("bold"), most("italic"), capitals, style.colour, style.font)

    def _matched(self, outline: Sequence[_Entry]) -> dict[int, int]:
        places: dict[str, list[int]] = defaultdict(list)
        for place, text in enumerate(self._texts):
            if len(text) <= 2 * _LONGEST:
                for key in {words(text), words(_NUMBER.sub("", text, count=1))}:
                    places[key].append(place)
        found: dict[int, int] = {}
        last = -1
        for level, title, page in outline:
            keys = [words(title), words(_NUMBER.sub("", title, count=1))]
            free = [place for key in filter(None, keys) for place in places.get(key, ()) if place not in found]
            fitting = [place for place in free if page < 0 or abs(self._blocks[place].first.page - page) <= 1]
            if fitting:
                # Entries follow one another; on the same page the more prominent one is meant.
                ahead = [place for place in fitting if place > last] or fitting
                best = min(ahead, key=lambda at: (self._blocks[at].first.page != page, -self._looks[at].size, at))
                found[best] = level
                last = best
        return found

    def _is_heading(self, place: int) -> bool:
        block, text, look = self._blocks[place], self._texts[place], self._looks[place]
        if place in self._outline:
            return True
        letters = sum(map(str.isalpha, text))
        if _NUMBER_ALONE.fullmatch(text) and look.size >= 1.15 * self._size and place + 1 < len(self._blocks):
            return block.kind != "note"
        alone = look.bold and not self._bold and len(block.lines) == 1 and block.gap > _ALONE
        # The heading of a change may be the date and number of a version.
        signs = sum(map(str.isalnum, text)) if alone and letters else letters
        if signs < 2 or len(text) > _LONGEST or len(text.split()) > _MOST_WORDS or len(block.lines) > _MOST_LINES:
            return False
        if block.first.style.tag.startswith("H") and block.last.style.tag.startswith("H"):
            return True
        if _has_line_number(block.first):
            return False
        deep = _DEEP_NUMBER.match(text) and block.first.pieces[0].style.bold and not self._bold
        if _BOX.fullmatch(text) or (_is_formula(text) and not deep):
            return False
        is_inside = block.first.style.tag in ("TD", "TH", "LI", "TOCI", "Code")
        if is_inside or (block.kind in ("code", "table", "note") and not deep) or _CAPTION.match(text):
            return False
        number = _NUMBER.match(text)
        bare = text[number.end() :] if number else text
        if block.kind == "item" and (not number or not bare[:1].isupper()):
            return False
        if not number and bare[:1].islower() and look.size < 1.15 * self._size:
            return False
        ratio = look.size / self._size
        # A sentence in large letters is a motto or a first paragraph.
        telling = _ENDS_AS_TEXT.search(text) and not (number and not bare) and not _NAMED.match(text)
        if telling and (len(text) > 60 or text.endswith((",", ";")) or (ratio < 1.15 and not alone)):
            return False
        if deep and len(text) <= 120:
            return True
        is_code = _AS_CODE.search(text) or _SIGN_FIRST.match(text)
        if 2 * signs < len(text.replace(" ", "")) or (is_code and ratio < 1.15):
            return False
        followed = place + 1 < len(self._blocks)
        if ratio >= 1.15:
            return followed or place > 0
        apart = block.gap > 1.15
        short = len(text) <= 120 and len(block.lines) <= 3
        if ratio >= 1.05 and short and apart:
            return True
        fixed = sum(line.share("fixed") * len(line.text) for line in block.lines) > 0.5 * len(text)
        if look.bold and not self._bold and short and ratio > 0.85 and not fixed:
            return not text.endswith(":") or bool(number)
        if not followed or not short or ratio < 0.85 or text.endswith((":", ".")):
            return False
        if look.capitals and apart and letters > 3:
            return True
        spaced = block.gap > 1.25 and len(block.lines) == 1 and self._blocks[place + 1].kind != "code"
        longer = len(self._texts[place + 1]) > 1.3 * len(text)
        if _KNOWN.fullmatch(text) and apart:
            return True
        telling = look.italic or _is_rare(look.colour, self._colours) or _is_rare(look.font, self._fonts)
        if telling and spaced and longer and len(text) <= 90:
            return self._apart[look] >= 2 or bool(number)
        return bool(number and spaced and longer and len(text) <= 90 and not self._is_enumeration(place))

    def _is_enumeration(self, place: int) -> bool:
        """Whether the next or the last block is numbered as well: entries of a list follow one another."""
        beside = [self._texts[other] for other in (place - 1, place + 1) if 0 <= other < len(self._texts)]
        return any(_NUMBER.match(text) or BULLET.match(text) for text in beside)

    def _leave_out_front_matter(self, found: set[int]) -> None:
        """Take out authors, versions and dates between a title and the first text."""
        pages = [block.first.page for block in self._blocks]
        texts = {place for place, text in enumerate(self._texts) if place not in found and len(text) > _LONGEST_LINE}
        end = next((place for place, page in enumerate(pages) if page != pages[0] or place in texts), len(pages))
        title = max((place for place in found if place < end), key=lambda at: (self._looks[at].size, -at), default=0)
        later = Counter((self._looks[place], self._depth(place) > 0) for place in found if place >= end)
        # From below: an author may stand over a date that is left out.
        for place in range(end - 1, title, -1):
            look = self._looks[place]
            numbered, plain = later[look, True], later[look, False]
            is_sure = place not in found or place in self._named or self._opens_text(place)
            if is_sure or look.size >= self._looks[title].size or 2 * plain > numbered:
                continue
            # A page of nothing but short lines has no text that they could stand before.
            if (look.bold or numbered) and (end == len(pages) or self._is_above_text(place, found)):
                later[look, False] += 1
            else:
                found.remove(place)

    def _opens_text(self, place: int) -> bool:
        """Whether a heading has a number or a usual name."""
        text = self._texts[place]
        has_number = self._depth(place) > 0 and not _DATE.match(text)
        return has_number or bool(_NAMED.match(text) or _KNOWN.fullmatch(text.rstrip(".:")))

    def _is_above_text(self, place: int, found: set[int]) -> bool:
        """Whether sentences stand below a heading on its page, or a heading that may belong under it."""
        below = place + 1
        if below == len(self._blocks) or self._blocks[below].first.page != self._blocks[place].first.page:
            return False
        if below in found:
            return not self._opens_text(below)
        return len(self._texts[below]) > _LONGEST_LINE or bool(_ENDS_AS_TEXT.search(self._texts[below]))

    def labels(self, found: Mapping[int, int]) -> dict[int, str]:
        """Lines such as ``Chapter 3`` above a heading, by the place of that heading, with their text.

        A number in words, as it stands alone between ``CHAPTER`` and the heading, is no part of a heading: no text.
        """
        labels = {}
        for place in found:
            text = self._texts[place]
            if place + 1 in found and place not in self._outline:
                if LABEL.fullmatch(text):
                    labels[place + 1] = text
                elif _SPELLED.fullmatch(text) and self._blocks[place + 1].first.page == self._blocks[place].first.page:
                    labels[place + 1] = ""
        return labels

    def repeated(self, found: Mapping[int, int]) -> set[int]:
        """Headings that stand again at the top of the next page, as on slides that go on or are shown bit by bit."""
        out = set()
        for before, place in pairwise(sorted(found)):
            first, again = self._blocks[before].first, self._blocks[place].first
            if (
                self._texts[before] == self._texts[place]
                and self._looks[before] == self._looks[place]
                and again.page == first.page + 1
                and abs(again.base - first.base) < 2.0
                and self._blocks[place].gap >= NEW_COLUMN
                and place not in self._outline
            ):
                out.add(place)
        return out

    def _levels(self, found: Sequence[int]) -> dict[int, int]:
        """Levels: from the outline and tags where they say, else by number, size and weight."""
        # Of looks that rank alike, the one that comes first stands above.
        looks = sorted(dict.fromkeys(self._looks[place] for place in found), key=self._rank)
        known: dict[_Look, Counter[int]] = defaultdict(Counter)
        depths: dict[_Look, Counter[int]] = defaultdict(Counter)
        for place in found:
            if level := self._named.get(place):
                known[self._looks[place]][level] += 1
            depths[self._looks[place]][self._depth(place)] += 1
        numbered = [look for look in looks if depths[look].most_common(1)[0][0]]
        # Larger headings without numbers stand above those with numbers.
        above = sum(1 for look in looks if numbered and self._rank(look) < self._rank(numbered[0]))
        # A title that stands once over all is no level of its own.
        if above and found and sum(self._looks[place] == looks[0] for place in found) == 1 and looks[0] not in known:
            above -= 1
        ranks: dict[_Look, int] = {}
        level = 0
        for look in looks:
            depth = depths[look].most_common(1)[0][0]
            if look in known:
                level = known[look].most_common(1)[0][0]
            elif depth:
                level = above + depth
            else:
                level += 1
            ranks[look] = max(level, 1)
        levels = {}
        for place in found:
            own = self._named.get(place)
            depth, look = self._depth(place), self._looks[place]
            if not own and depth and look not in known and depths[look].most_common(1)[0][0]:
                own = above + depth
            levels[place] = own or ranks[look]
        return levels

    def _rank(self, look: _Look) -> tuple[float, bool, bool, bool]:
        return (-look.size, not look.bold, not look.capitals, look.italic)

    def _depth(self, place: int) -> int:
        """How deep the number of a heading goes; 0 without a number."""
        match = _NUMBER.match(self._texts[place])
        if not match or not (match[1] or match[3]):
            return 0
        return (match[1] or match[3]).count(".") + 1
