"""Where a text may be cut: at white space, between tokens, between characters, into pieces of similar length."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

_NOT_SPACE = re.compile(r"\S")
_MARKS = frozenset({"Mn", "Me", "Mc", "Sk"})
_MAX_MARKS = 32


def balanced_cuts(totals: Sequence[int], pieces: int) -> list[int]:
    """Choose where to cut a row of units so that the pieces come out as equal as they can.

    Args:
        totals: running total of the units' lengths, one number for each unit.
        pieces: number of pieces wanted; long units can make it fewer.

    Returns:
        how many units lie before each cut, rising, without 0 and the number of units.

    >>> balanced_cuts([10, 20, 30, 40], pieces=2)
    [2]
    """
    cuts: list[int] = []
    for piece in range(1, pieces):
        ideal = totals[-1] * piece / pieces
        above = bisect_left(totals, ideal)
        cut = above if above and ideal - totals[above - 1] <= totals[above] - ideal else above + 1
        if (cuts[-1] if cuts else 0) < cut < len(totals):
            cuts.append(cut)
    return cuts


def trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Take the white space off both ends of a span; ``None`` if nothing else is in it."""
    part = text[start:end]
    stripped = part.lstrip()
    if not stripped:
        return None
    return start + len(part) - len(stripped), start + len(part.rstrip())


def skip_white_space(text: str, start: int, end: int) -> int:
    """First character of a span that is not white space; its end if there is none."""
    found = _NOT_SPACE.search(text, start, end)
    return found.start() if found else end


def cut_at_white_space(text: str, start: int, end: int, max_characters: int) -> list[tuple[int, int]]:
    """Cut a span into pieces of similar length, at white space, or between characters where there is none.

    Args:
        text: the text that the span lies in.
        start: first character of the span, not white space.
        end: one past its last character, which is not white space either.
        max_characters: length that no piece exceeds.

    Returns:
        ``(start, end)`` of the pieces, without white space at their edges.
    """
    pieces = []
    while end - start > max_characters:
        remaining = end - start
        target = start + -(-remaining // -(-remaining // max_characters))
        lowest = start + (target - start) // 2
        cut = next((place for place in range(target, lowest, -1) if text[place].isspace()), None)
        if cut is None:
            cut = character_boundary(text, start, target)
        pieces.append((start, start + len(text[start:cut].rstrip())))
        start = skip_white_space(text, cut, end)
    if start < end:
        pieces.append((start, end))
    return pieces


def character_boundary(text: str, start: int, place: int) -> int:
    """Move a place back so that it does not part an accent, a joiner or an emoji's modifier from its character.

    Stays at ``place`` when nothing but such marks stands within the 32 characters before it.
    """
    for candidate in range(place, max(start, place - _MAX_MARKS), -1):
        after, before = text[candidate], text[candidate - 1]
        if before != "\u200d" and after != "\u200d" and unicodedata.category(after) not in _MARKS:
            return candidate
    return place


def cut_at_tokens(
    text: str, start: int, end: int, tokens: Sequence[tuple[int, int]], pieces: int
) -> list[tuple[int, int]]:
    """Cut a span into pieces with about as many tokens each, at white space nearby or else between two tokens.

    Args:
        text: the text that the span lies in.
        start: first character of the span.
        end: one past its last character.
        tokens: ``(start, end)`` of the tokens, counted from the start of the span.
        pieces: number of pieces wanted, 2 or more.

    Returns:
        ``(start, end)`` of the pieces, without white space at their edges; the span itself if it is one character.
    """
    reach = len(tokens) // (4 * pieces)
    places = [start]
    for piece in range(1, pieces):
        ideal = len(tokens) * piece // pieces
        nearest = sorted(range(ideal - reach, ideal + reach + 1), key=lambda index: abs(index - ideal))
        place = best_place(text, places[-1], start, tokens, nearest, nearest)
        if place is not None and place < end:
            places.append(place)
    if len(places) == 1 and end - start > 1:
        places.append(character_boundary(text, start, (start + end) // 2))
    places.append(end)
    spans = (trim(text, first, last) for first, last in pairwise(places))
    return [span for span in spans if span is not None]


def best_place(
    text: str,
    after: int,
    offset: int,
    tokens: Sequence[tuple[int, int]],
    at_space: Sequence[int],
    anywhere: Sequence[int],
) -> int | None:
    """Find the first token before which the text can be cut, if possible where white space stands.

    Args:
        text: the text to cut.
        after: the cut has to come after this character.
        offset: where the tokens' own count of characters begins in the text.
        tokens: ``(start, end)`` of every token.
        at_space: tokens to try for a cut at white space, the best first.
        anywhere: tokens to try for any cut when there is none, the best first.

    Returns:
        the character to cut before, ``None`` if there is no place.
    """
    for candidates, needs_space in ((at_space, True), (anywhere, False)):
        for index in candidates:
            if not 0 <= index < len(tokens):
                continue
            # Tokens that share a character share its place too, so no character is ever parted.
            place = offset + tokens[index][0]
            if place <= after:
                continue
            if text[place - 1].isspace() or text[place].isspace():
                return place
            if not needs_space:
                return character_boundary(text, after, place)
    return None
