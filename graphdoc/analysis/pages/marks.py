"""Texts with the words that match a query marked, cut to the stretch that has most of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...runtime.text import one_line

Range = tuple[int, int]
Pieces = list[tuple[str, bool]]

# A passage that is a little longer is shown whole: a button for one more line is in the way.
SHOWN_CHARACTERS = 480
_NEARLY = 160
_BEFORE = 80
_WORD = 24


def marked_text(text: str, ranges: Iterable[Sequence[int]], most: int = SHOWN_CHARACTERS) -> dict[str, Pieces]:
    """Cut a text at its marked ranges, around the stretch that holds most of the matching words.

    A range is the first character of a match and the one after its last; what lies outside of the text is ignored.

    Returns:
        ``before``, ``shown`` and ``after``, each a list of (text, whether it is marked).

    >>> marked_text("a tidal barrage", [(2, 7)])["shown"]
    [('a ', False), ('tidal', True), (' barrage', False)]
    """
    matches = _in_order(ranges, len(text))
    start, end = _stretch(text, matches, most)
    spans = {"before": (0, start), "shown": (start, end), "after": (end, len(text))}
    return {name: list(_pieces(text, matches, *span)) for name, span in spans.items()}


def excerpt(text: str, ranges: Iterable[Sequence[int]], most: int) -> str:
    """The stretch of a text that holds most of the matching words, on one line, with dots where the text goes on.

    >>> excerpt("The sea is held back by a barrage, which is a dam with gates.", [(26, 33), (46, 49)], 30)
    '… back by a barrage, which is a dam with …'
    """
    most = max(1, most)
    matches = _in_order(ranges, len(text))
    # In scripts without spaces, whose letters are wide, the way back to a word's beginning would fill the line.
    start, end = _stretch(text, matches, most, before=most // 5, nearly=0, word=min(_WORD, most // 5))
    inside = sum(first >= start and last <= end for first, last in matches)
    if start and sum(last <= most for _, last in matches) == inside:
        # The beginning has as many of them.
        start, end = 0, _stretch(text, (), most, before=0, nearly=0)[1]
    return one_line(f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}")


def _in_order(ranges: Iterable[Sequence[int]], characters: int) -> list[Range]:
    """Ranges inside of a text, from first to last, those that overlap as one."""
    merged: list[Range] = []
    for start, end in sorted((max(0, start), min(characters, end)) for start, end in ranges):
        if merged and start < merged[-1][1] and start < end:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _pieces(text: str, ranges: Sequence[Range], first: int, last: int) -> Iterator[tuple[str, bool]]:
    place = first
    for start, end in ranges:
        start, end = max(start, first), min(end, last)
        if start < end:
            if start > place:
                yield text[place:start], False
            yield text[start:end], True
            place = end
    if place < last:
        yield text[place:last], False


def _stretch(
    text: str, ranges: Sequence[Range], most: int, *, before: int = _BEFORE, nearly: int = _NEARLY, word: int = _WORD
) -> Range:
    """The stretch with the most distinct matching words; ties go to the most matches, then to the first."""
    if len(text) <= most + nearly:
        return 0, len(text)
    words = [text[start:end].casefold() for start, end in ranges]

    def value(first: int) -> tuple[int, int]:
        last = ranges[first][0] + most - before
        inside = [word for word, (_, end) in zip(words[first:], ranges[first:], strict=True) if end <= last]
        return len(set(inside)), len(inside)

    chosen = ranges[max(range(len(ranges)), key=value)][0] if ranges else 0
    start = min(max(0, chosen - before), len(text) - most)
    end = start + most
    for _ in range(word):
        start -= start > 0 and not text[start - 1].isspace()
        end += end < len(text) and not text[end].isspace()
    return start, end
