"""What pages share: marked texts, links, numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc.analysis.pages.marks import excerpt, marked_text
from graphdoc.analysis.pages.page import decimals, number, relative_link


def pieces_of(text: dict[str, list[tuple[str, bool]]]) -> list[tuple[str, bool]]:
    return [piece for stretch in ("before", "shown", "after") for piece in text[stretch]]


def marks(text: dict[str, list[tuple[str, bool]]]) -> list[str]:
    return [piece for piece, is_marked in pieces_of(text) if is_marked]


def test_a_long_text_shows_the_stretch_with_most_different_words() -> None:
    text = "tide " * 20 + "x " * 1_000 + "tide and barrage " + "y " * 1_000 + "tide"
    words = [word for word in ("tide", "barrage") for _ in range(text.count(word))]
    ranges = [
        [place, place + len(word)] for word in set(words) for place in range(len(text)) if text.startswith(word, place)
    ]
    shown = marked_text(text, ranges)
    assert "tide and barrage" in "".join(piece for piece, _ in shown["shown"])
    assert len(marks(shown)) == len(ranges) and "".join(piece for piece, _ in pieces_of(shown)) == text
    plain = marked_text("word " * 500, [])
    assert plain["before"] == [] and plain["shown"][0][0].endswith("word")
    # Ranges count code points.
    text = "𝔸 🌊🌊 tidal – e\u0301bb"
    assert marks(marked_text(text, [[text.index("tidal"), text.index("tidal") + 5]])) == ["tidal"]


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
    # Without spaces a match stands near the beginning.
    found = excerpt("海" * 100 + "堰" + "海" * 100, [(100, 101)], 26)
    assert 0 < found.index("堰") <= 12 and len(found) <= 26 + 2 * 5 + 4


@settings(max_examples=30)
@given(
    st.text(max_size=300),
    st.lists(st.tuples(st.integers(-5, 310), st.integers(-5, 310)), max_size=12),
    st.integers(90, 200),
)
def test_nothing_is_lost_and_exactly_ranges_are_marked(text: str, ranges: list[tuple[int, int]], most: int) -> None:
    pieces = pieces_of(marked_text(text, ranges, most))
    assert all(piece for piece, _ in pieces) and "".join(piece for piece, _ in pieces) == text
    flags = [is_marked for piece, is_marked in pieces for _ in piece]
    expected = {place for start, end in ranges for place in range(max(0, start), min(len(text), end))}
    assert {place for place, is_marked in enumerate(flags) if is_marked} == expected


@pytest.mark.parametrize(
    ("link", "stays"),
    [
        *((link, True) for link in ("comparisons/3.html", "../a%20b/c.html#passages=1,2", "/compare?a=1&b=x:y")),
        *(
            (link, False)
            for link in ("javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "a:b", ":")
        ),
        *((link, False) for link in ("java\tscript:alert(1)", "\x01javascript:alert(1)", "data:text/html,x")),
        *((link, False) for link in ("http://example.org", "file:///etc/passwd", "//example.org", "/\\example.org")),
        *((link, False) for link in ("\\\\example.org", "/\t/example.org", "\u00a0//example.org", "", None, 7)),
    ],
)
def test_only_relative_links_stay(link: Any, stays: bool) -> None:
    assert relative_link(link) == (link if stays else None)


def test_numbers() -> None:
    assert [number(value) for value in (-0.0004, 0.0004, -0.0006)] == ["0.000", "0.000", "\u22120.001"]
    assert [number(value) for value in (None, float("nan"), float("inf"))] == ["no value"] * 3
    columns = ([0.0325], [31.2, 0.001], [-1234.5], [123456.0], [1e-12], [0.0, None], [])
    assert [decimals(column) for column in columns] == [5, 2, 0, 0, 6, 3, 3]
