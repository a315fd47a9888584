"""Which of the lines that look like headings stand where no heading stands: terms of lists, words of pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .blocks import Block

_LARGE = 1.15
# Shares of the size of the running text.
_INDENT, _SURE_INDENT, _EDGE = 0.8, 1.8, 0.6
_FEW = 3
_STEP = 3.0


def hanging_terms(blocks: Sequence[Block], places: Iterable[int], size: float) -> set[int]:
    """Lines under which the text is set in, as under the terms of a list.

    Where most headings hang out to the left of their text, it says nothing.

    Args:
        blocks: of the whole document.
        places: of what may be headings.
        size: of the running text.
    """
    places = list(places)
    large = [place for place in places if blocks[place].first.size >= _LARGE * size]
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


def scattered(blocks: Sequence[Block], places: Iterable[int], size: float) -> set[int]:
    """Lines that begin at no edge where text or other headings begin, and are not centred: words of pictures.

    Args:
        blocks: of the whole document.
        places: of what may be headings.
        size: of the running text.
    """
    places = list(places)
    edges: Counter[int] = Counter()
    for block in blocks:
        for line in block.lines[:2]:
            if len(line.text) > 40:
                edges[round((line.left - line.column_left) / _STEP)] += 1
    for place in places:
        line = blocks[place].first
        edges[round((line.left - line.column_left) / _STEP)] += 1
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
