"""The order in which the rows of a page are read: columns one after the other, tables row by row."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .page import Line, Page, Segment

_FEWEST_ROWS = 3
_NARROWEST = 0.15
_MOST_GUTTERS = 24
_DEEPEST = 6


def lines_of(page: Page, first_column: int) -> list[Line]:
    """Lines of a page in reading order.

    A page is cut where a gutter runs down between texts. Whether the two sides are columns or cells of a table shows
    in the order of the file, which goes down a column but along the rows of a table; where the file is sorted from top
    to bottom, columns are what is filled with prose.

    Args:
        page: with rows from top to bottom.
        first_column: the number that the first column gets.
    """
    lines: list[Line] = []
    for number, rows in enumerate(_parts(page.rows, page.width, 0), start=first_column):
        left = min(row.left for row in rows)
        right = max(row.right for row in rows)
        for row in rows:
            row.column, row.column_left, row.column_right = number, left, right
        lines += rows
    return lines


def _parts(rows: list[Line], width: float, depth: int) -> Iterator[list[Line]]:
    """Groups of rows that are read one after the other, without a gutter inside."""
    band = _widest_band(rows, width) if depth < _DEEPEST else None
    if band is None:
        if rows:
            yield rows
        return
    first, end, gutter = band
    yield from _parts(rows[:first], width, depth + 1)
    for side in (False, True):
        kept = [_side(row, gutter, side) for row in rows[first:end]]
        yield from _parts([row for row in kept if row is not None], width, depth + 1)
    yield from _parts(rows[end:], width, depth + 1)


def _side(row: Line, gutter: float, right: bool) -> Line | None:
    segments = [segment for segment in row.segments if (_middle(segment) > gutter) == right]
    if not segments:
        return None
    weights = [piece for segment in segments for piece in segment.pieces]
    largest = max(weights, key=lambda piece: (piece.style.size, len(piece.text)))
    return Line(segments, largest.base, row.page)


def _middle(segment: Segment) -> float:
    return (segment.left + segment.right) / 2


def _widest_band(rows: Sequence[Line], width: float) -> tuple[int, int, float] | None:
    """The most rows in a row that a gutter divides into columns: first, end, and place of the gutter."""
    best: tuple[int, int, int, float] | None = None
    for gutter in _gutters(rows):
        for first, end in _bands(rows, gutter):
            band = rows[first:end]
            both = _count_both(band, gutter)
            if (best is None or both > best[0]) and _are_columns(band, gutter, width):
                best = (both, first, end, gutter)
    return best[1:] if best else None


def _gutters(rows: Sequence[Line]) -> list[float]:
    """Places of gaps that occur in several rows, those of the most rows first."""
    gaps = [
        (left.right, right.left) for row in rows for left, right in pairwise(row.segments) if right.left > left.right
    ]
    counts: dict[float, int] = {}
    starts = sorted({round(right) for _, right in gaps})
    for start in starts[:200]:
        place = start - 3.0
        counts[place] = sum(left < place < right for left, right in gaps)
    # Columns without lines side by side at one height have no gap within a row.
    lefts = [round(row.left) for row in rows]
    for start in {left for left in lefts if lefts.count(left) >= _FEWEST_ROWS}:
        counts.setdefault(start - 3.0, lefts.count(start) // 2)
    likely = sorted(counts, key=lambda place: -counts[place])
    return [place for place in likely if counts[place] > 1][:_MOST_GUTTERS]


def _bands(rows: Sequence[Line], gutter: float) -> Iterator[tuple[int, int]]:
    """Runs of rows in which nothing crosses a gutter."""
    first = 0
    for place, row in enumerate([*rows, None]):
        crossed = row is None or any(segment.left < gutter < segment.right for segment in row.segments)
        if crossed:
            if place - first >= _FEWEST_ROWS:
                yield first, place
            first = place + 1


def _sides(band: Sequence[Line], gutter: float) -> tuple[list[Segment], list[Segment]]:
    segments = [segment for row in band for segment in row.segments]
    return (
        [segment for segment in segments if _middle(segment) < gutter],
        [segment for segment in segments if _middle(segment) > gutter],
    )


def _count_both(band: Sequence[Line], gutter: float) -> int:
    left, right = _sides(band, gutter)
    return min(len(left), len(right))


def _count_rows(side: Sequence[Segment]) -> int:
    """The number of rows among segments from top to bottom and from left to right."""
    return 1 + sum(after.left < before.right for before, after in pairwise(side))


def _are_columns(band: Sequence[Line], gutter: float, width: float) -> bool:
    left, right = _sides(band, gutter)
    if min(len(left), len(right)) < _FEWEST_ROWS:
        return False
    spans = [max(part.right for part in side) - min(part.left for part in side) for side in (left, right)]
    if min(spans) < _NARROWEST * width:
        return False
    sides = [(segment.order, False) for segment in left] + [(segment.order, True) for segment in right]
    sides.sort()
    switches = sum(a[1] != b[1] for a, b in pairwise(sides))
    fewer = min(len(left), len(right))
    fills = [
        statistics.median((part.right - part.left) / span for part in side)
        for side, span in zip((left, right), spans, strict=True)
    ]
    # Of all that stands in a row: where a narrow column is justified, each word may be a segment.
    letters = [sum(len(part.text) for part in side) / _count_rows(side) for side in (left, right)]
    prose = min(letters) >= 20
    if switches <= max(2, fewer // 5):
        return prose or min(fills) > 0.3
    return prose and min(fills) > 0.75 and fewer >= 2 * _FEWEST_ROWS
