"""Lines to blocks: paragraphs, lines of code and tables, notes, and what may be a heading."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .characters import is_ideographic
from .page import Line, Piece, is_raised_first, is_raised_mark, joined_pieces, leading

BULLET = re.compile(r"^(?:[•◦▪▫‣⁃∙●○■□–—*·o➢✓]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)]|\(?[ivx]{1,4}[.)])(?:\s|$)")
_MARK = re.compile(r"^(?:\d{1,3}|[*†‡§¶]{1,3}|[a-z])$")
_SENTENCE_END = re.compile(r"[.!?:…。！？][\"'”’»)\]]*$")
_HYPHENATED = re.compile(r"[^\W\d_]{2,}[-‐]$")
_LONGEST_END, _BROKEN_WORDS = 200, 0.02
# First parts of words that are not written as one.
_KEEPS_ITS_HYPHEN = frozenset({"self"})
_PART_NUMBER = re.compile(r"^(?:[A-Z]|[IVXLC]+|\d{1,3})(?:\.\d{1,3})*[.)]?$|^(?:\d+\.)+\d*$|^§+\s*\d+")
# The gap above the first line of a column.
NEW_COLUMN = 9.0
_WORD = re.compile(r"[^\W\d_]+(?:[-‐][^\W\d_]+)*")


@dataclass(slots=True)
class Block:
    """Lines that belong together.

    Args:
        lines: from top to bottom.
        kind: ``text``, ``item``, ``code``, ``table`` or ``note``.
        gap: distance above, in usual distances between lines; large at the top of a column.
    """

    lines: list[Line]
    kind: str = "text"
    gap: float = NEW_COLUMN

    @property
    def first(self) -> Line:
        """The upper line."""
        return self.lines[0]

    @property
    def last(self) -> Line:
        """The lowest line."""
        return self.lines[-1]


class BlockBuilder:
    """Cuts the lines of a document into blocks, given the size of the running text and whether it is bold."""

    def __init__(self, lines: Sequence[Line], size: float, bold: bool) -> None:
        self._lines, self._size, self._bold = lines, size, bold
        self._leading = leading(lines, size)
        self._marks = _note_marks(lines, size)

    def blocks(self) -> list[Block]:
        """The blocks in reading order; notes stand where their page has them."""
        blocks: list[Block] = []
        for before, line in zip([None, *self._lines], self._lines, strict=False):
            kind = self._kind(line)
            if before is not None and blocks and self._goes_on(blocks[-1], before, line, kind):
                blocks[-1].lines.append(line)
                continue
            gap = self._gap(before, line)
            if before is not None and blocks and blocks[-1].kind == "table" and self._describes(before, line, kind):
                # The row is a term and the first line of what is said of it.
                entry = Block([blocks[-1].lines.pop(), line], "item", blocks[-1].gap)
                blocks[-1:] = [blocks[-1], entry] if blocks[-1].lines else [entry]
                continue
            blocks.append(Block([line], kind, gap))
        return blocks

    def _gap(self, before: Line | None, line: Line) -> float:
        if before is None or before.column != line.column or before.page != line.page:
            return NEW_COLUMN
        return (before.base - line.base) / (self._leading * max(line.size / self._size, 1.0))

    def _kind(self, line: Line) -> str:
        if id(line) in self._marks:
            return "note"
        if line.share("fixed") > 0.9:
            return "code"
        if _is_spread(line) and not BULLET.match(line.segments[0].text) and not _is_numbered(line):
            return "table"
        return "item" if BULLET.match(line.text) else "text"

    def _goes_on(self, block: Block, before: Line, line: Line, kind: str) -> bool:
        if "code" in (kind, block.kind) or "table" in (kind, block.kind):
            near = self._gap(before, line) <= 1.6
            return kind == block.kind and (near or before.column != line.column)
        if kind in ("note", "item"):
            return False
        if before.page != line.page or before.column != line.column:
            return block.kind != "note" and self._continues(block, before, line)
        if self._differs(before, line):
            return False
        distance = before.base - line.base
        limit = 1.3 * self._leading_of(line)
        if not 0 < distance <= limit:
            return False
        if _is_heading_like(before, self._size, self._bold) and len(block.lines) < 4:
            # A centred title and the first heading, at the margin, may look alike.
            shifts = (before.left - line.left, before.right - line.right)
            is_aside = shifts[0] > 2 * line.size and abs(sum(shifts)) > 4 * line.size
            return not is_aside and not (_is_numbered(line) and _is_numbered(before))
        indent = line.left - before.left
        if block.kind in ("item", "note"):
            return indent > -0.5 * self._size or not _ended(before, line)
        if indent > 0.8 * self._size and line.left - line.column_left < 6 * self._size:
            # The first line of a paragraph is indented; all lines but the first of an entry of a list are.
            return len(block.lines) == 1 and not _ended(before, line)
        return not _ended(before, line)

    def _describes(self, before: Line, line: Line, kind: str) -> bool:
        """Whether a line goes on below the second and last part of a row, and beside its first."""
        if kind != "text" or len(before.segments) != 2 or _ended(before, line):
            return False
        is_below = 0 < before.base - line.base <= 1.3 * self._leading_of(line)
        return is_below and abs(line.left - before.segments[1].left) < 0.5 * self._size

    def _leading_of(self, line: Line) -> float:
        if abs(line.size - self._size) < 0.06 * self._size:
            return self._leading
        return max(self._leading * line.size / self._size, 1.25 * line.size)

    def _differs(self, before: Line, line: Line) -> bool:
        """Whether two lines look so different that they are no one paragraph."""
        if abs(before.size - line.size) > 0.06 * max(before.size, line.size):
            return True
        bold = before.share("bold") > 0.9, line.share("bold") > 0.9
        if bold[0] != bold[1]:
            # A bold line is a heading; a paragraph that begins or ends in bold goes on in the same line.
            whole = before if bold[0] else line
            partly = line if bold[0] else before
            edge = partly.pieces[0] if bold[0] else partly.pieces[-1]
            return not edge.style.bold and not (whole is before and not _ended(before, line))
        slanted = before.share("italic") > 0.9, line.share("italic") > 0.9
        if slanted[0] != slanted[1]:
            return _ended(before, line)
        return bool(before.style.tag != line.style.tag and "H" in (before.style.tag[:1], line.style.tag[:1]))

    def _continues(self, block: Block, before: Line, line: Line) -> bool:
        """Whether a paragraph goes on in the next column or on the next page."""
        if abs(before.size - line.size) > 0.06 * before.size or self._differs(before, line):
            return False
        if _is_heading_like(before, self._size, self._bold):
            return False
        if _HYPHENATED.search(before.text) or line.text.lstrip("\"'“‘(")[:1].islower():
            return True
        return not _SENTENCE_END.search(before.text) and before.right > before.column_right - 3 * self._size


def _is_numbered(line: Line) -> bool:
    """Whether the first segment of a line is the number of a heading or an entry."""
    return len(line.segments) == 2 and _PART_NUMBER.match(line.segments[0].text) is not None


def _is_spread(line: Line) -> bool:
    gaps = [right.left - left.right for left, right in pairwise(line.segments)]
    return any(gap > 1.5 * line.size for gap in gaps) and not _is_justified(line, gaps)


def _is_justified(line: Line, gaps: Sequence[float]) -> bool:
    """Whether few long words fill a narrow column, with the same gap between all of them."""
    alike = len(gaps) > 1 and max(gaps) - min(gaps) <= 0.1 * line.size
    fills = line.left - line.column_left < 0.5 * line.size and line.column_right - line.right < 0.5 * line.size
    return alike and fills and all(len(segment.text.split()) == 1 for segment in line.segments)


def _is_heading_like(line: Line, size: float, bold: bool) -> bool:
    return line.size > 1.06 * size or (line.share("bold") > 0.9 and not bold)


def _ended(before: Line, line: Line) -> bool:
    """Whether a line ended although the first word of the next had room in it."""
    first = line.text.split(None, 1)[0] if line.text.split() else ""
    if line.text[:1].islower() and not _SENTENCE_END.search(before.text):
        return False
    # The word may have wider letters than the line has on average.
    width = 1.2 * (line.right - line.left) / max(len(line.text), 1)
    return before.right + width * (len(first) + 1) < before.column_right - 0.3 * before.size


def _note_marks(lines: Sequence[Line], size: float) -> set[int]:
    """Identities of lines at the foot of a column that begin a note."""
    found: set[int] = set()
    columns: dict[int, list[Line]] = {}
    for line in lines:
        columns.setdefault(line.column, []).append(line)
    for column in columns.values():
        # From the foot upwards, as long as lines are small or belong to a note that begins with a raised mark.
        for place in range(len(column) - 1, -1, -1):
            line = column[place]
            is_small = line.size < 0.95 * size or is_raised_first(line)
            if note_mark(line) and is_small and (place > 0 or len(column) < 12):
                found.add(id(line))
            # A line of usual size may still be the second line of a note.
            elif line.size > 0.95 * size and not any(
                note_mark(above) and is_raised_first(above) for above in column[max(place - 4, 0) : place]
            ):
                break
    return found


def note_mark(line: Line) -> str:
    """The mark with which a line begins, if it is one of a note."""
    first = line.pieces[0]
    if len(line.pieces) > 1 and _MARK.match(first.text) and first.style.size < 0.9 * line.size:
        return first.text
    start = line.text.split(" ", 1)[0].split("\t", 1)[0]
    return start if len(start) <= 3 and _MARK.match(start) and start != "a" and len(line.text) > len(start) else ""


def _is_hyphenated(text: str) -> bool:
    return _HYPHENATED.search(text[-_LONGEST_END:]) is not None


class TextJoiner:
    """Joins lines to running text; words that stand in a document without a hyphen are joined without one."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._words: set[str] = set()
        broken = ""
        lines = list(lines)
        parts: list[tuple[str, str]] = []
        for line in lines:
            words = [word.casefold() for word in _WORD.findall(line.text)]
            # Parts of words that are broken over lines are no words.
            if broken and words:
                parts.append((broken, words.pop(0)))
            broken = words.pop() if words and _is_hyphenated(line.text) else ""
            self._words.update(words)
        # Where words are not broken, as in most files of word processors, hyphens at line ends belong to the word.
        whole = sum((start + end in self._words) - (f"{start}-{end}" in self._words) for start, end in parts)
        self._breaks_words = whole > 0 or len(parts) > _BROKEN_WORDS * len(lines)

    def text(self, lines: Sequence[Line], marks: frozenset[str] = frozenset()) -> str:
        """The text of the lines of a paragraph or heading, without marks of notes that stand raised after a word."""
        parts: list[str] = []
        # Where thousands of lines are one paragraph, looking at the whole text for each would take hours.
        end = ""
        for line in lines:
            following = " ".join(_without_marks(segment.pieces, marks) for segment in line.segments)
            if end:
                following = " ".join(following.split())
                joint = self._joint(end, following)
                if joint is None:
                    parts[-1], end, joint = parts[-1][:-1], end[:-1], ""
                following = joint + following
            parts.append(following)
            end = (end + following)[-_LONGEST_END:]
        return " ".join("".join(parts).split())

    def _joint(self, text: str, following: str) -> str | None:
        """What stands between the end of a text and the line that follows; None if a hyphen at the end goes."""
        if not _is_hyphenated(text) or not following[:1].isalpha():
            goes_on = text.endswith(("—", "/", "-", "\u2011")) and following[:1].isalnum()
            return "" if goes_on or is_ideographic(text[-1:] + (following[:1] or " ")) else " "
        first, second = _WORD.findall(text)[-1], _WORD.findall(following)[0]
        start, goes_on = first.rpartition("-")[2], second.partition("-")[0]
        whole, hyphenated = (start + second).casefold(), f"{start}-{second}".casefold()
        keeps = (
            following[:1].isupper()
            or start.casefold() in _KEEPS_ITS_HYPHEN
            or hyphenated in self._words
            or ("-" in first + second and {start.casefold(), goes_on.casefold()} <= self._words)
            or (whole not in self._words and not self._breaks_words)
        )
        return "" if keeps else None


def _without_marks(pieces: Sequence[Piece], marks: frozenset[str]) -> str:
    if marks:
        kept = [pieces[0]]
        for before, piece in pairwise(pieces):
            if not (piece.text in marks and is_raised_mark(before, piece)):
                kept.append(piece)
        pieces = kept
    return joined_pieces(pieces)
