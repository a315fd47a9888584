from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc.analysis.search_page.content import MarkedText, excerpt, marked_text


def whole(found: MarkedText) -> str:
    return "".join(text for stretch in (found.before, found.shown, found.after) for text, _ in stretch)


def marks(found: MarkedText) -> list[str]:
    return [text for stretch in (found.before, found.shown, found.after) for text, marked in stretch if marked]


def test_marks_count_code_points() -> None:
    text = "𝔸 🌊🌊 tidal – e\u0301bb"
    start = text.index("tidal")
    found = marked_text(text, [[start, start + 5]])
    assert marks(found) == ["tidal"]
    assert found.before == found.after == []
    assert whole(found) == text


def test_ranges_that_overlap_or_lie_outside() -> None:
    assert marks(marked_text("abcdef", [[4, 99], [1, 3], [2, 4], [-5, 1], [3, 3], [5, 2], [50, 60]])) == [
        "a",
        "bcd",
        "ef",
    ]


def test_a_long_text_shows_the_stretch_with_most_different_words() -> None:
    text = "tide " * 20 + "x " * 1_000 + "tide and barrage " + "y " * 1_000 + "tide"
    ranges = [
        [place, place + len(word)]
        for word in ("tide", "barrage")
        for place in range(len(text))
        if text.startswith(word, place)
    ]
    found = marked_text(text, ranges)
    assert "tide and barrage" in "".join(piece for piece, _ in found.shown)
    assert len(marks(found)) == len(ranges)
    assert whole(found) == text


def test_a_long_text_without_matches_begins_at_its_beginning_and_ends_after_a_word() -> None:
    found = marked_text("word " * 500, [])
    assert found.before == []
    assert found.shown[0][0].endswith("word")


@pytest.mark.parametrize(
    ("text", "ranges", "shown"),
    [
        ("short text", [(0, 5)], "short text"),
        ("word " * 40, [], "word word word word word …"),
        # One word in the middle, two at the end, and the beginning where it has as many.
        ("a " * 20 + "tide " + "b " * 20, [(40, 44)], "… a a tide b b b b b b …"),
        ("tide " + "b " * 30 + "tide", [(0, 4), (65, 69)], "tide b b b b b b b b …"),
        ("x " * 30 + "tide sea", [(60, 64), (65, 68)], "… x x x x x x tide sea"),
    ],
)
def test_an_excerpt(text: str, ranges: list[tuple[int, int]], shown: str) -> None:
    assert excerpt(text, ranges, 20) == shown


def test_a_match_stands_near_the_beginning_of_an_excerpt_without_spaces() -> None:
    text = "海" * 100 + "堰" + "海" * 100
    shown = excerpt(text, [(100, 101)], 26)
    assert 0 < shown.index("堰") <= 12 and len(shown) <= 26 + 2 * 5 + 4


def test_twenty_thousand_matches_take_no_time() -> None:
    text = "ab " * 20_000
    assert len(marks(marked_text(text, [[3 * i, 3 * i + 2] for i in range(20_000)]))) >= 20_000


@settings(max_examples=30)
@given(
    st.text(max_size=300),
    st.lists(st.tuples(st.integers(-5, 310), st.integers(-5, 310)), max_size=12),
    st.integers(90, 200),
)
def test_nothing_is_lost_and_exactly_the_ranges_are_marked(
    text: str, ranges: list[tuple[int, int]], most: int
) -> None:
    found = marked_text(text, ranges, most)
    assert whole(found) == text
    expected = {place for start, end in ranges for place in range(max(0, start), min(len(text), end))}
    place, marked = 0, set()
    for stretch in (found.before, found.shown, found.after):
        for piece, is_marked in stretch:
            assert piece
            marked |= set(range(place, place + len(piece))) if is_marked else set()
            place += len(piece)
    assert marked == expected
