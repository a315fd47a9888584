"""Pieces of text on a page, the rows they form, and the order of reading: column by column, tables row by row."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from typing import Any

from .characters import has_right_to_left, paired_brackets, with_signs_swapped

# The lowered E of TeX is by 0.22 below its line.
_SAME_BASE, _SAME_ROW = 0.3, 0.5
_LONGEST_RAISED, _FEW_LINES = 12, 12
# In a row, pieces nearer than this share of the font size belong to one word.
_WORD_GAP = 0.12
# Beyond this one they are cells, columns, or a number before its heading.
_SEGMENT_GAP = 0.9
# A line whose letters are of the other direction than its page.
_MOST_OF_LINE = 0.8
# A line that would begin with one of these is none.
_ENDS = (".", ",", ";", ":", "!", "?")


@dataclass(frozen=True, slots=True)
class Style:
    """The look of a piece of text, one of the ``styles`` of ``pdfium``."""

    font: str
    size: float
    bold: bool
    italic: bool
    fixed: bool
    capitals: bool
    colour: int
    tag: str
    artifact: bool


@dataclass(slots=True)
class Piece:
    """Text of one style on one base line.

    Args:
        text: its characters.
        left: edge; lengths are in points.
        right: edge.
        base: height of the base line.
        style: its look.
        order: place in the file.
        is_opposed: whether it is read against the direction of its page, as a name in Latin letters between Hebrew;
            None for signs, which follow what is around them.
    """

    text: str
    left: float
    right: float
    base: float
    style: Style
    order: int
    is_opposed: bool | None = None


@dataclass(slots=True)
class Segment:
    """Pieces of a row that stand close together."""

    pieces: list[Piece]

    @property
    def left(self) -> float:
        """Its edge."""
        return self.pieces[0].left

    @property
    def right(self) -> float:
        """Its edge."""
        return max(piece.right for piece in self.pieces)

    @property
    def order(self) -> int:
        """Place in the file of its first piece."""
        return min(piece.order for piece in self.pieces)

    @property
    def text(self) -> str:
        """Its characters, with spaces where there are gaps."""
        return joined_pieces(self.pieces)


@dataclass(slots=True)
class Line:
    """A line of text: segments on one base line, within one column.

    Args:
        segments: from left to right.
        base: height of the base line.
        page: number of the page, from 0.
        column: number of the column, from 0, through the whole document.
        left: edge of the column.
        right: edge of the column.
    """

    segments: list[Segment]
    base: float
    page: int = 0
    column: int = 0
    column_left: float = 0.0
    column_right: float = 0.0
    size: float = field(init=False)
    style: Style = field(init=False)
    text: str = field(init=False)
    left: float = field(init=False)
    right: float = field(init=False)

    def __post_init__(self) -> None:
        pieces = self.pieces
        weights: Counter[Style] = Counter()
        for piece in pieces:
            weights[piece.style] += len(piece.text)
        # Code in a line says nothing of its look unless the whole line is code.
        loud = {style: weight for style, weight in weights.items() if not style.fixed} or weights
        self.style = max(loud, key=lambda style: loud[style])
        self.size = self.style.size
        self.text = "\t".join(segment.text for segment in self.segments)
        self.left, self.right = self.segments[0].left, max(segment.right for segment in self.segments)

    @property
    def pieces(self) -> list[Piece]:
        """The pieces of all segments."""
        return [piece for segment in self.segments for piece in segment.pieces]

    def share(self, trait: str) -> float:
        """The share of the characters that have a trait of a style."""
        total = sum(len(piece.text) for piece in self.pieces)
        return sum(len(piece.text) for piece in self.pieces if getattr(piece.style, trait)) / max(total, 1)


@dataclass(slots=True)
class Page:
    """A page as rows from top to bottom, each reaching over all columns.

    Args:
        number: from 0.
        width: in points.
        height: in points.
        rows: with segments from left to right.
        aside: rows of text that runs in another direction.
        pictures: share of the page that its largest picture covers.
    """

    number: int
    width: float
    height: float
    rows: list[Line]
    aside: list[Line]
    pictures: float = 0.0


def read_page(content: Mapping[str, Any], number: int) -> Page:
    """Make rows of what ``PdfFile.page`` gives."""
    styles = [Style(**style) for style in content["styles"]]
    by_direction: dict[int, list[Piece]] = {}
    for order, (text, left, right, base, style, direction) in enumerate(content["pieces"]):
        by_direction.setdefault(direction, []).append(Piece(text, left, right, base, styles[style], order))
    lengths = {way: sum(len(piece.text) for piece in pieces) for way, pieces in by_direction.items()}
    main = max(lengths, key=lambda way: lengths[way]) if lengths else 0
    width, height = float(content["width"]), float(content["height"])
    if main % 2:
        width, height = height, width
    for pieces in by_direction.values():
        _set_reading_direction(pieces, width)
    aside = [row for way, pieces in sorted(by_direction.items()) if way != main for row in _rows(pieces, number)]
    # On turned pages heights start elsewhere; only their order and distances count.
    for piece in by_direction.get(main, []):
        piece.base += height if main in (1, 2) else 0.0
    rows = _rows(by_direction.get(main, []), number)
    return Page(number, width, height, rows, aside, float(content["pictures"]))


def _set_reading_direction(pieces: Sequence[Piece], width: float) -> None:
    """Mirror what is read from right to left, so that lines and columns are found as from left to right."""
    leftward = [has_right_to_left(piece.text) for piece in pieces]
    if not any(leftward):
        return
    letters = [len(piece.text) for piece in pieces]
    is_mirrored = 2 * sum(compress(letters, leftward)) > sum(letters)
    for piece, goes_left in zip(pieces, leftward, strict=True):
        if is_mirrored:
            piece.left, piece.right = width - piece.right, width - piece.left
            piece.text = piece.text if goes_left else with_signs_swapped(piece.text)
        if any(character.isalnum() for character in piece.text):
            piece.is_opposed = goes_left != is_mirrored


def _rows(pieces: Sequence[Piece], page: int) -> list[Line]:
    """Rows from top to bottom: what stands on one base line, with what is raised or lowered in it."""
    rows: list[tuple[float, float, list[Piece]]] = []
    for piece in sorted(pieces, key=lambda piece: (-round(piece.base, 1), piece.left)):
        for place in range(len(rows) - 1, max(len(rows) - 5, -1), -1):
            base, size, members = rows[place]
            if abs(piece.base - base) <= _SAME_BASE * max(size, piece.style.size):
                members.append(piece)
                # The raised A of TeX comes first; its row is that of the larger letters.
                if size < 0.87 * piece.style.size:
                    rows[place] = (piece.base, piece.style.size, members)
                break
        else:
            rows.append((piece.base, piece.style.size, [piece]))
    # What is raised or lowered joins the larger letters that it touches.
    for place, (base, _, members) in enumerate(rows):
        near = [row for row in (*rows[max(place - 3, 0) : place], *rows[place + 1 : place + 4]) if row[2]]
        rest = []
        for piece in members:
            for other_base, _, others in near:
                large = max(other.style.size for other in others)
                if (
                    (piece.style.size < 0.87 * large or (base < other_base and _is_in_word(piece, others)))
                    and abs(base - other_base) <= _SAME_ROW * large
                    and len(piece.text) <= _LONGEST_RAISED
                    and _is_beside(piece, others)
                ):
                    others.append(piece)
                    break
            else:
                rest.append(piece)
        members[:] = rest
    # A row stands on the base line of its largest letters.
    largest = [max(members, key=lambda one: (one.style.size, len(one.text)), default=None) for _, _, members in rows]
    lines = [Line(_segments(row[2]), top.base, page) for row, top in zip(rows, largest, strict=True) if top]
    return sorted(lines, key=lambda line: -line.base)


def _is_beside(piece: Piece, members: Iterable[Piece]) -> bool:
    reach = 0.9 * piece.style.size
    return any(-reach < piece.left - one.right < reach or -reach < one.left - piece.right < reach for one in members)


def _is_in_word(piece: Piece, members: Iterable[Piece]) -> bool:
    """Whether a capital stands between letters, as the E of BibTeX does, which is lowered by more than TeX's."""
    if len(piece.text) > 1 or not "A" <= piece.text <= "Z":
        return False
    low, high = -0.25 * piece.style.size, 0.05 * piece.style.size
    gaps = [(piece.left - one.right, one.left - piece.right) for one in members if one.style == piece.style]
    return all(any(low < pair[side] < high for pair in gaps) for side in (0, 1))


def _segments(pieces: list[Piece]) -> list[Segment]:
    pieces.sort(key=lambda piece: piece.left)
    segments = [Segment([pieces[0]])]
    right = pieces[0].right
    for piece in pieces[1:]:
        size = min(piece.style.size, segments[-1].pieces[-1].style.size)
        # The smaller size counts: a heading in the next column may stand nearer than its own letters are wide.
        if piece.left - right > _SEGMENT_GAP * size:
            segments.append(Segment([]))
        segments[-1].pieces.append(piece)
        right = max(right, piece.right)
    return segments


def joined_pieces(pieces: Sequence[Piece]) -> str:
    """The text of pieces of one segment."""
    text = ""
    before: Piece | None = None
    for piece in _as_read(pieces):
        if before is not None:
            gap = max(piece.left - before.right, before.left - piece.right)
            if gap > _WORD_GAP * min(piece.style.size, before.style.size) or is_raised_mark(before, piece):
                text += " "
        text += piece.text
        before = piece
    return paired_brackets(text) if has_right_to_left(text) else text


def _as_read(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces in the order of reading: lines, and runs in them, that are opposed to the page are turned round."""
    read = list(pieces)
    letters = sum(len(piece.text) for piece in pieces if piece.is_opposed is not None)
    opposed = [piece for piece in pieces if piece.is_opposed]
    least = 0.5 if any(has_right_to_left(piece.text) for piece in opposed) else _MOST_OF_LINE
    if sum(len(piece.text) for piece in opposed) > least * letters:
        turned = [_turned(piece) for piece in reversed(pieces)]
        read = read if turned[0].text.startswith(_ENDS) else turned
    runs: list[tuple[int, int]] = []
    for place, piece in enumerate(read):
        if piece.is_opposed:
            between = read[runs[-1][1] : place] if runs else []
            # Signs beside a number follow the line.
            is_name = not between or all(any(map(str.isalpha, part.text)) for part in (read[runs[-1][1] - 1], piece))
            is_continued = bool(runs) and is_name and all(part.is_opposed is None for part in between)
            first = runs.pop()[0] if is_continued else place
            runs.append((first, place + 1))
    for first, end in runs:
        read[first:end] = reversed(read[first:end])
    return read


def _turned(piece: Piece) -> Piece:
    text = piece.text if has_right_to_left(piece.text) else with_signs_swapped(piece.text)
    return replace(piece, text=text, is_opposed=None if piece.is_opposed is None else not piece.is_opposed)


def is_raised_mark(before: Piece, piece: Piece) -> bool:
    """Whether a piece is a raised number or sign after a word, as the mark of a note is."""
    return (
        piece.style.size < 1.05 * before.style.size
        and piece.base > before.base + 0.15 * before.style.size
        and len(piece.text) <= 4
        and not piece.text[:1].isalpha()
        and not before.text[-1:].isdigit()
        and len(before.text.split(" ")[-1]) > 1
    )


def is_raised_first(line: Line) -> bool:
    """Whether a line begins with something small and raised, as a note begins with its mark."""
    first = line.pieces[0]
    return first.style.size < 0.9 * line.size and first.base > line.base + 0.1 * line.size


def body_style(lines: Iterable[Line]) -> tuple[float, bool]:
    """Size of the running text, and whether it is bold: what most characters have."""
    sizes: Counter[float] = Counter()
    bold: Counter[float] = Counter()
    for line in lines:
        for piece in line.pieces:
            if not piece.style.fixed:
                sizes[piece.style.size] += len(piece.text)
                bold[piece.style.size] += len(piece.text) * piece.style.bold
    if not sizes:
        return 10.0, False
    size = max(sizes, key=lambda size: sizes[size])
    return size, bold[size] > 0.6 * sizes[size]


def leading(lines: Sequence[Line], size: float) -> float:
    """Usual distance between lines of a size; 1.2 times the size where there are too few."""
    distances = [
        round(upper.base - lower.base, 1)
        for upper, lower in pairwise(lines)
        if upper.column == lower.column
        and abs(upper.size - size) < 0.06 * size
        and abs(lower.size - size) < 0.06 * size
        and 0.9 * size < upper.base - lower.base < 2.6 * size
    ]
    # Distances between paragraphs are larger: the smaller part is that of lines.
    usual = statistics.median(sorted(distances)[: max(len(distances) * 2 // 3, 1)]) if distances else 0.0
    few = len(distances) < 3 or (len(distances) < _FEW_LINES and usual > 1.7 * size)
    return 1.2 * size if few else usual


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
        left, right = min(row.left for row in rows), max(row.right for row in rows)
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
    return Line(segments, max(weights, key=lambda piece: (piece.style.size, len(piece.text))).base, row.page)


def _middle(segment: Segment) -> float:
    return (segment.left + segment.right) / 2


def _widest_band(rows: Sequence[Line], width: float) -> tuple[int, int, float] | None:
    """The most rows in a row that a gutter divides into columns: first, end, and place of the gutter."""
    best: tuple[int, int, int, float] | None = None
    for gutter in _gutters(rows):
        for first, end in _bands(rows, gutter):
            band = rows[first:end]
            both = min(map(len, _sides(band, gutter)))
            if (best is None or both > best[0]) and _are_columns(band, gutter, width):
                best = (both, first, end, gutter)
    return best[1:] if best else None


def _gutters(rows: Sequence[Line]) -> list[float]:
    """Places of gaps that occur in several rows, those of the most rows first."""
    gaps = [(a.right, b.left) for row in rows for a, b in pairwise(row.segments) if b.left > a.right]
    counts: dict[float, int] = {}
    for start in sorted({round(right) for _, right in gaps})[:200]:
        place = start - 3.0
        counts[place] = sum(left < place < right for left, right in gaps)
    # Columns without lines side by side at one height have no gap within a row.
    lefts = [round(row.left) for row in rows]
    for start in {left for left in lefts if lefts.count(left) >= _FEWEST_ROWS}:
        counts.setdefault(start - 3.0, lefts.count(start) // 2)
    return [place for place in sorted(counts, key=lambda place: -counts[place]) if counts[place] > 1][:_MOST_GUTTERS]


def _bands(rows: Sequence[Line], gutter: float) -> Iterator[tuple[int, int]]:
    """Runs of rows in which nothing crosses a gutter."""
    first = 0
    for place, row in enumerate([*rows, None]):
        if row is None or any(segment.left < gutter < segment.right for segment in row.segments):
            if place - first >= _FEWEST_ROWS:
                yield first, place
            first = place + 1


def _sides(band: Sequence[Line], gutter: float) -> tuple[list[Segment], list[Segment]]:
    parts = [segment for row in band for segment in row.segments]
    return [part for part in parts if _middle(part) < gutter], [part for part in parts if _middle(part) > gutter]


def _are_columns(band: Sequence[Line], gutter: float, width: float) -> bool:
    left, right = _sides(band, gutter)
    if min(len(left), len(right)) < _FEWEST_ROWS:
        return False
    spans = [max(part.right for part in side) - min(part.left for part in side) for side in (left, right)]
    if min(spans) < _NARROWEST * width:
        return False
    sides = sorted([(segment.order, False) for segment in left] + [(segment.order, True) for segment in right])
    switches = sum(a[1] != b[1] for a, b in pairwise(sides))
    fewer = min(len(left), len(right))
    fills = [
        statistics.median((part.right - part.left) / span for part in side)
        for side, span in zip((left, right), spans, strict=True)
    ]
    # Of all that stands in a row: where a narrow column is justified, each word may be a segment.
    rows = [1 + sum(after.left < before.right for before, after in pairwise(side)) for side in (left, right)]
    letters = [sum(len(part.text) for part in side) / count for side, count in zip((left, right), rows, strict=True)]
    prose = min(letters) >= 20
    if switches <= max(2, fewer // 5):
        return prose or min(fills) > 0.3
    return prose and min(fills) > 0.75 and fewer >= 2 * _FEWEST_ROWS
