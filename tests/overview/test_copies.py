"""Copies of documents are known by their words, whatever their format and what stands around them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.overview.digests import BINS, EMPTY, sketch_of
from graphdoc.overview.groups import Neighbours

WORDS = [f"word{number}" for number in range(400)]


def text(seed: int, count: int = 1_200) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(count))


def alike(first: str, second: str) -> float:
    a, b = (np.frombuffer(sketch_of(one), np.uint32) for one in (first, second))
    used = (a != EMPTY) | (b != EMPTY)
    return float((a == b)[used].mean()) if used.any() else 0.0


@given(st.integers(0, 999), st.sampled_from([0, 20, 60, 300]))
def test_bins_alike_are_about_the_share_of_runs_of_words_alike(seed: int, changed: int) -> None:
    words = text(seed).split()
    other = list(words)
    for place in random.Random(seed).sample(range(len(words)), changed):
        other[place] = f"else{place}"
    runs = [{tuple(one[start : start + 4]) for start in range(len(one) - 3)} for one in (words, other)]
    exact = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
    # The spread of 64 draws is a sixteenth at most.
    assert alike(" ".join(words), " ".join(other)) == pytest.approx(exact, abs=0.27)
    assert len(sketch_of(" ".join(words))) == 4 * BINS


def test_line_ends_page_heads_and_case_leave_a_copy_a_copy() -> None:
    original = text(1)
    words = original.split()
    pages = [" ".join(words[start : start + 300]) for start in range(0, len(words), 300)]
    printed = "\n".join(
        f"Journal of Words {number}\n{page.replace(' ', chr(10), 20)}" for number, page in enumerate(pages)
    )
    half = " ".join([*words[:600], *text(2, 600).split()])
    vectors = np.eye(4, dtype=np.float32)
    sketches = [sketch_of(one) for one in (original, printed.upper(), half, text(3))]
    near = Neighbours.of(vectors, 3)
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.98, sketches)] == [[0, 1]]
    assert near.duplicates(vectors, 0.98, [sketches[0], b"", b"", b""]) == []


@pytest.mark.parametrize("short", ["", "one", "one two", "潮汐は一日に", "half \ud800 a pair"])
def test_short_texts_have_sketches(short: str) -> None:
    assert sketch_of(short) == sketch_of(f"  {short}\n") and len(sketch_of(short)) == 4 * BINS
    assert sketch_of(short) != sketch_of("other words than these")
