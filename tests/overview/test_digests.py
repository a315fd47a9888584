from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.overview.digests import BINS, EMPTY, OPENING_CHARACTERS, TERMS, Digests, date_of, sketch_of
from graphdoc.overview.neighbours import Neighbours

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
    printed = "\n".join(f"Journal {number}\n{page.replace(' ', chr(10), 20)}" for number, page in enumerate(pages))
    half = " ".join([*words[:600], *text(2, 600).split()])
    vectors = np.eye(4, dtype=np.float32)
    sketches = [sketch_of(one) for one in (original, printed.upper(), half, text(3))]
    near = Neighbours.from_vectors(vectors, 3)
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.98, sketches)] == [[0, 1]]
    assert near.duplicates(vectors, 0.98, [sketches[0], b"", b"", b""]) == []
    unspaced = "".join(map(chr, range(0x4E00, 0x4E50)))
    assert alike(unspaced, unspaced[:40] + unspaced[41:]) > 0.7 > alike(unspaced, unspaced[::-1])


@pytest.mark.parametrize("short", ["", "one", "one two", "潮汐は一日に", "half \ud800 a pair"])
def test_short_texts_have_sketches(short: str) -> None:
    assert sketch_of(short) == sketch_of(f"  {short}\n") and len(sketch_of(short)) == 4 * BINS
    assert sketch_of(short) != sketch_of("other words than these")


def test_what_is_kept_of_a_document() -> None:
    text = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(600))
    metadata = {"year": 1851, "kind": "letter", "tags": ("a", "b"), "abstract": "x" * 500}
    document = Document.from_text(text, id="a/b/c", title="A\u202e title " * 3, label=("x", "y"), metadata=metadata)
    digests = Digests()
    digests.add(document)
    digests.add(document)
    (kept,), words = digests.chosen(["a/b/c"])
    digests.add(Document.from_text("other", id="d", title=document.title))
    # A title that two have tells neither.
    assert [one.title for one in digests.chosen(["a/b/c", "d"])[0]] == [f"{kept.title} (a/b/c)", f"{kept.title} (d)"]
    assert (kept.label, kept.date, kept.folder, kept.words) == ("x, y", "1851", "a/b", 600)
    assert kept.values == {"year": "1851", "kind": "letter", "tags": "a, b"}
    assert len(kept.opening) == OPENING_CHARACTERS and "\u202e" not in kept.title
    assert words.counts.shape[0] == 1 and words.counts.nnz == TERMS


def test_dates() -> None:
    values = {"2019-03-07T10:00": "2019-03-07", "in 1999.": "1999", 2005: "2005", "2019-13-07": "2019", "12345": ""}
    assert {value: date_of(value) for value in values} == values and date_of(None) == ""
