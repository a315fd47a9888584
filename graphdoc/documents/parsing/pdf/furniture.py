"""What repeats on the pages and is no part of the text: running heads and feet, page numbers, tables of contents."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from ..outline import CONTENTS
from .page import Line, Page, body_style, is_raised_first

# Rows from the edge of a page that may be furniture, and how far from the edge, as a share of the height.
_OUTERMOST, _MARGIN, _WIDE_MARGIN = 3, 0.14, 0.24
# Gap between a running head and the text, in usual distances between rows.
_APART = 1.25
_EDGE = 0.045
_LONGEST_NUMBER, _FEW_PAGES = 4, 3
_ROMAN = r"[ivxlcdm]{1,7}"
_PAGE_NUMBER = re.compile(
    rf"(?:(?:page|seite|p\.|s\.|pg\.?)\s*)?[-–—\[(|]*\s*(?:[A-Z]-)?(?:\d{{1,4}}|{_ROMAN})\s*[-–—\])|]*"
    rf"(?:\s*(?:of|/|von|sur|de|out of)\s*\d{{1,4}})?[.|]?",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"\d+")
_WORDS = re.compile(r"[^\W\d]+|\d+")
_LEADERS = re.compile(r"(?:[.·…]\s?){5,}")
# Sentences and what a terminal shows may end in dots as well, but not in the number of a page after them.
_ENTRY = re.compile(
    rf"(?:[.·…‥_]\s?){{3,}}\s*(?:[A-Z]-)?(?:\d{{1,4}}|{_ROMAN})(?:[-–,]\s*\d{{1,4}})*,?\s*$", re.IGNORECASE
)
_ENDS_IN_NUMBER = re.compile(rf"\t\s*(?:\d{{1,4}}|{_ROMAN})$", re.IGNORECASE)


def take_furniture(pages: Sequence[Page]) -> Counter[str]:
    """Take running heads, running feet and page numbers out of the rows of pages; counts them by what they are."""
    taken: Counter[str] = Counter()
    size, _ = body_style(row for page in pages for row in page.rows)
    distances = [upper.base - lower.base for page in pages for upper, lower in pairwise(page.rows)]
    # On slides and title pages rows stand far apart.
    usual = min(statistics.median(distances), 2.0 * size) if distances else 0.0
    candidates = {page.number: _candidates(page, usual) for page in pages}
    repeated = _repeated(candidates, size)
    heads = _head_heights(pages, candidates)
    offsets = _number_offsets(candidates)
    for page in pages:
        kept = []
        for row in page.rows:
            kind = ""
            if row.share("artifact") > 0.5:
                kind = "artifact"
            elif any(row is candidate for candidate in candidates[page.number]):
                # A larger number is the heading of a chapter, unless it counts the pages.
                if _is_page_number(row.text) and (row.size <= 1.1 * size or _offset(page.number, row) in offsets):
                    kind = "page number"
                elif (
                    _key(row, size) in repeated
                    or any(abs(row.base - height) <= 2.0 for height in heads)
                    or _names_its_page(page, row)
                    or _is_in_margin(page, row, size)
                ):
                    kind = "running head" if row.base > page.height / 2 else "running foot"
            if kind:
                taken[kind] += 1
            else:
                kept.append(row)
        page.rows = kept
    return taken


def _candidates(page: Page, usual: float) -> list[Line]:
    """Rows at the edges of a page, from outside until the first gap that closes them off."""
    found: list[Line] = []
    for rows in (page.rows, page.rows[::-1]):
        for row in rows[: _outside(rows, usual)]:
            # A number alone may stand further in.
            margin = _WIDE_MARGIN if row is rows[0] and _is_page_number(row.text) else _MARGIN
            high, low = page.height * (1 - margin), page.height * margin
            if not (row.base > high or row.base < low):
                break
            # A note at the foot may be the same on several pages.
            if not (row.base < low and is_raised_first(row)) and not any(row is other for other in found):
                found.append(row)
    return found


def _outside(rows: Sequence[Line], usual: float) -> int:
    """How many of the outermost rows a gap parts from the text."""
    if len(rows) == 1:
        return 1
    gaps = [abs(row.base - inner.base) for row, inner in pairwise(rows[: _OUTERMOST + 1])]
    return max((place for place, gap in enumerate(gaps, start=1) if gap > _APART * usual), default=0)


def _is_page_number(text: str) -> bool:
    text = text.strip()
    return bool(_PAGE_NUMBER.fullmatch(text)) and (any(map(str.isdigit, text)) or text.islower() or len(text) <= 4)


def _offset(page: int, row: Line) -> int | None:
    """How far the number that a row is runs ahead of the pages; none where it is no number."""
    text = row.text.strip()
    return int(text) - page if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def _number_offsets(candidates: dict[int, list[Line]]) -> set[int]:
    """Distances between page and number that several pages share."""
    counts = Counter(found for page, rows in candidates.items() for found in {_offset(page, row) for row in rows})
    return {offset for offset, count in counts.items() if offset is not None and count >= _FEW_PAGES}


def _key(row: Line, size: float) -> tuple[str, int]:
    """What running heads of one kind share: their words, whatever number stands among them, and their height."""
    text = row.text.casefold()
    numbers = _NUMBERS.findall(text)
    # "Chapter 3" at the top of a page is a heading.
    if len(numbers) <= 3 and any(map(str.isalpha, text)) and row.size <= 1.06 * size and row.share("bold") < 0.9:
        text = _NUMBERS.sub("#", text)
    return " ".join(text.split()), round(row.base / 6)


def _repeated(candidates: dict[int, list[Line]], size: float) -> set[tuple[str, int]]:
    pages: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, rows in candidates.items():
        for row in rows:
            pages[_key(row, size)[0]].append((number, row.base))
    found: set[tuple[str, int]] = set()
    for text, places in pages.items():
        heights = [base for _, base in places]
        if len({number for number, _ in places}) >= 2 and max(heights) - min(heights) < 30:
            found |= {(text, round(base / 6)) for base in heights}
    return found


def _head_heights(pages: Sequence[Page], candidates: dict[int, list[Line]]) -> list[float]:
    """Heights at which most pages have a row apart from their text, whatever it says: heads that name the chapter."""
    heights = Counter(round(row.base / 3) for page in pages for row in candidates[page.number] if _is_apart(page, row))
    found = []
    for height, count in heights.items():
        near = count + heights.get(height + 1, 0)
        if near >= max(3, 0.3 * len(pages)):
            found += [height * 3.0] + ([(height + 1) * 3.0] if heights.get(height + 1) else [])
    return found


def _is_apart(page: Page, row: Line) -> bool:
    place = next(place for place, other in enumerate(page.rows) if other is row)
    if place == 0 and len(page.rows) > 3:
        gap = row.base - page.rows[1].base
    elif place == len(page.rows) - 1 and len(page.rows) > 3:
        gap = page.rows[-2].base - row.base
    else:
        return False
    usual = statistics.median([upper.base - lower.base for upper, lower in pairwise(page.rows)])
    # A heading at the top of a page is larger than the text; a running head is not.
    sizes = statistics.median(other.size for other in page.rows)
    return gap > 1.5 * usual and row.size <= 1.05 * sizes and len(row.text) < 150 and bool(_WORDS.search(row.text))


def _names_its_page(page: Page, row: Line) -> bool:
    """Whether a row apart from the text has the number of its page at an end, as a running head has."""
    number = str(page.number + 1)
    ends = {row.segments[0].text.strip(), row.segments[-1].text.strip()}
    return len(row.segments) > 1 and number in ends and _is_apart(page, row)


def _is_in_margin(page: Page, row: Line, size: float) -> bool:
    """Whether a small row stands at the very edge of a page, as browsers print date and address."""
    at_edge = row.base > (1 - _EDGE) * page.height or row.base < _EDGE * page.height
    return at_edge and row.size < 0.85 * size and _is_apart(page, row)


def take_contents(lines: list[Line]) -> tuple[list[Line], int]:
    """Take tables of contents out of lines; gives the lines that remain, and how many were taken."""
    sure = {place for place, line in enumerate(lines) if _ENTRY.search(line.text)}
    runs: list[list[int]] = []
    for place, line in enumerate(lines):
        ends = _ENDS_IN_NUMBER.search(line.text) and line.right >= line.column_right - 6
        if not (ends or place in sure or _LEADERS.search(line.text)):
            continue
        # An entry may take two lines, of which the second has the number.
        if runs and place - runs[-1][-1] <= 2:
            runs[-1].append(place)
        else:
            runs.append([place])
    taken: set[int] = set()
    for run in runs:
        above = range(run[0] - 1, max(run[0] - 4, -1), -1)
        # A list of tables, whatever it is called, follows the table of contents, and may have but one entry.
        heads = [at for at in above if CONTENTS.fullmatch(lines[at].text.strip()) or (at in taken and len(run) < 3)]
        entries = len(sure.intersection(run))
        if (len(run) >= 3 and (heads or entries >= 2)) or (heads and len(run) == entries):
            taken.update(range(min(heads[:1] or run), run[-1] + 1))
    return [line for place, line in enumerate(lines) if place not in taken], len(taken)
