from __future__ import annotations

import random

import numpy as np
import pytest
from collections_of_topics import TOPICS, make_collection
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from graphdoc.documents.document import Document
from graphdoc.overview.digests import BINS, EMPTY, OPENING_CHARACTERS, TERMS, Digests, WordCounts, date_of, sketch_of
from graphdoc.overview.groups import (
    SHARE,
    Neighbours,
    background_of,
    find_groups,
    fit_vectors,
    lay_out,
    words_of_documents,
    words_of_groups,
)


def test_topics_are_found_and_a_stranger_joins_none() -> None:
    _, vectors = make_collection(40)
    stranger = np.eye(32, dtype=np.float32)[[30]]
    vectors = normalize(np.concatenate([vectors, stranger]))
    near = Neighbours.from_vectors(vectors, 8)
    # Between all topics, no group has three of the nearest.
    near.rows[160] = [0, 1, 40, 41, 80, 81, 120, 121]
    groups = find_groups(vectors, vectors, near, 12)
    topics = np.repeat(np.arange(len(TOPICS)), 40)
    found = np.full(161, -1)
    for number, rows in enumerate(groups):
        found[rows] = number
        assert len(set(topics[rows])) == 1
    assert found[160] == -1
    assert (found[:160] >= 0).all()
    assert sorted(map(len, groups), reverse=True) == [len(rows) for rows in groups]


@pytest.mark.parametrize(("size", "strangers"), [(3, 2), (5, 1), (9, 3)])
def test_of_few_documents_strangers_are_in_no_group(size: int, strangers: int) -> None:
    vectors = normalize(np.concatenate([make_collection(size)[1], np.eye(32, dtype=np.float32)[-strangers:]]))
    groups = find_groups(vectors, vectors, Neighbours.from_vectors(vectors, 10))
    assert sorted(map(list, groups)) == [list(range(place, place + size)) for place in range(0, 4 * size, size)]


def test_those_who_join_have_enough_neighbours_in_the_group() -> None:
    draw = np.random.default_rng(1)
    vectors = normalize(draw.normal(size=(300, 6)).astype(np.float32) + 2 * np.eye(6)[draw.integers(0, 6, 300)])
    near = Neighbours.from_vectors(vectors, 10)
    group_of = np.full(300, -1)
    groups = find_groups(vectors, vectors, near)
    for number, rows in enumerate(groups):
        group_of[rows] = number
    left = np.flatnonzero(group_of < 0)
    assert len(groups) > 1
    # The last digits of vectors move no document to another group.
    noisy = vectors + draw.normal(scale=1e-6, size=vectors.shape)
    again = find_groups(noisy, noisy, Neighbours.from_vectors(noisy, 10))
    assert [rows.tolist() for rows in again] == [rows.tolist() for rows in groups]
    for row in left:
        own = group_of[near.rows[row]]
        assert max(np.bincount(own[own >= 0], minlength=1)) < SHARE * 10


def test_the_map_of_few_or_equal_documents() -> None:
    for vectors in (np.ones((1, 3)), np.eye(2, 3), np.ones((40, 3))):
        points = lay_out(vectors.astype(np.float32))
        assert np.isfinite(points).all() and np.abs(points).max() <= 1
        assert len({tuple(point) for point in points.tolist()}) == len(vectors)
    seven = normalize(np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32))
    assert find_groups(seven, seven, Neighbours.from_vectors(seven, 10)) == []


def test_fitted_vectors_are_centred_and_beside_the_words_of_the_collection() -> None:
    documents, vectors = make_collection(20)
    digests = Digests()
    for document in documents:
        digests.add(document)
    _, words = digests.chosen([document.id for document in documents])
    lexical = 5
    found = fit_vectors(vectors, lexical, words)

    def centred(rows: np.ndarray) -> np.ndarray:
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(normalize(unit - unit.mean(axis=0)))

    counts = words.counts.toarray().astype(float)
    counts = counts[:, (counts > 0).sum(axis=0) > 1]
    logarithms = np.zeros_like(counts)
    np.log(counts, out=logarithms, where=counts > 0)
    idf = np.log((1 + len(counts)) / (1 + (counts > 0).sum(axis=0))) + 1
    weights = normalize((1 + logarithms) * (counts > 0) * idf)
    left, lengths, _ = np.linalg.svd(weights, full_matrices=False)
    numbers = min(256, *(size - 1 for size in weights.shape))
    dense, latent = centred(vectors[:, :-lexical]), centred((left * lengths)[:, :numbers])
    pairs = np.triu_indices(len(documents), 1)
    weight = np.sqrt((dense @ dense.T)[pairs].std() / (latent @ latent.T)[pairs].std())
    expected = normalize(np.hstack([dense, weight * latent]))
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)
    background = background_of(found)
    scores = np.sort((found @ found.T)[pairs])
    assert background.share(scores[len(scores) // 2]) == pytest.approx(0.5, abs=0.01)
    # Without words of its own a collection is centred alone.
    found = fit_vectors(vectors, 0, WordCounts(csr_array((80, 3)), ["a", "b", "c"]))
    np.testing.assert_allclose(found, centred(vectors), atol=1e-5)


@given(st.integers(2, 30), st.integers(1, 12), st.integers(0, 10_000))
def test_nearest_are_those_of_all_cosines(documents: int, count: int, seed: int) -> None:
    vectors = normalize(np.random.default_rng(seed).normal(size=(documents, 5)).astype(np.float32))
    near = Neighbours.from_vectors(vectors, count)
    cosines = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    np.fill_diagonal(cosines, -np.inf)
    count = min(count, documents - 1)
    expected = -np.sort(-cosines, axis=1)[:, :count]
    assert near.rows.shape == near.scores.shape == (documents, count)
    np.testing.assert_allclose(near.scores, expected, atol=2e-6)
    np.testing.assert_allclose(np.take_along_axis(cosines, near.rows, axis=1), expected, atol=2e-6)
    np.testing.assert_allclose(near.closeness, expected[:, :5].mean(axis=1), atol=2e-6)
    linked = {tuple(sorted((row, int(other)))) for row, own in enumerate(near.rows) for other in own}
    pairs = near.pairs(20)
    best = sorted((float(cosines[pair]) for pair in linked), reverse=True)[:20]
    assert [score for *_, score in pairs] == pytest.approx(best, abs=2e-6)
    assert len({(a, b) for a, b, _ in pairs if a < b}) == len(pairs)


def test_copies_outliers_and_documents_are_no_neighbours_of_themselves() -> None:
    near = Neighbours.from_vectors(normalize(np.array([[1, 2]] * 9 + [[2, -1]], np.float32)), 3)
    assert all(row not in rows for row, rows in enumerate(near.rows))
    assert near.scores[:9].min() == pytest.approx(1, abs=1e-6)
    assert near.outliers(1) == [9] and len(near.outliers(50)) == 10


def test_near_duplicates_are_linked_by_cosines_and_by_texts() -> None:
    vectors = normalize(np.array([[1, 0], [1, 0.01], [0, 1], [0.9, 1], [0, -1], [-1, 0.5]], np.float32))
    near = Neighbours.from_vectors(vectors, 5)
    copies = [sketch_of(text) if text else b"" for text in ("a", "b", "c", "d", "c", "")]
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.99, copies)] == [[0, 1], [2, 4]]
    assert near.duplicates(vectors, 0.99999, [b""] * 6) == []
    # By a lower cosine all but the last are one set.
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.6, [b""] * 6)] == [[0, 1, 2, 3]]


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
    near = Neighbours.from_vectors(vectors, 3)
    assert [rows.tolist() for rows in near.duplicates(vectors, 0.98, sketches)] == [[0, 1]]
    assert near.duplicates(vectors, 0.98, [sketches[0], b"", b"", b""]) == []
    unspaced = "".join(map(chr, range(0x4E00, 0x4E50)))
    assert alike(unspaced, unspaced[:40] + unspaced[41:]) > 0.7 > alike(unspaced, unspaced[::-1])


@pytest.mark.parametrize("short", ["", "one", "one two", "潮汐は一日に", "half \ud800 a pair"])
def test_short_texts_have_sketches(short: str) -> None:
    assert sketch_of(short) == sketch_of(f"  {short}\n") and len(sketch_of(short)) == 4 * BINS
    assert sketch_of(short) != sketch_of("other words than these")


def test_groups_are_named_by_their_own_words() -> None:
    documents, _ = make_collection(20)
    digests = Digests()
    passed = list(digests.passing(documents))
    assert passed == documents
    _, words = digests.chosen([document.id for document in documents])
    groups = [np.arange(20 * number, 20 * number + 20) for number in range(4)]
    # One long document does not name its group.
    long = [Document.from_text("harbour wall " + "zeppelin " * 500, id="long")]
    long += [Document.from_text(f"harbour wall quay{'abcdefgh'[n]}", id=str(n)) for n in range(8)]
    other = Digests()
    list(other.passing(long))
    assert set(words_of_groups(other.chosen([one.id for one in long])[1], [np.arange(9)], 2)[0]) == {"harbour", "wall"}
    for found, topic in zip(words_of_groups(words, groups, 6), TOPICS.values(), strict=True):
        assert len(found) == 6
        assert set(found) <= set(topic.split()) | set(TOPICS)


def test_words_of_documents_by_hand() -> None:
    texts = ["tide tide tide wave", "wave wave clock", "clock wave"]
    digests = Digests()
    for number, text in enumerate(texts):
        digests.add(Document.from_text(text, id=str(number)))
    _, words = digests.chosen(["0", "1", "2"])
    listed, places = words_of_documents(words, 2)
    idf = {word: np.log(4 / (1 + found)) + 1 for word, found in (("tide", 1), ("wave", 3), ("clock", 2))}
    for text, own in zip(texts, places, strict=True):
        counts = {word: text.split().count(word) for word in set(text.split())}
        weights = {word: (1 + np.log(count)) * idf[word] for word, count in counts.items()}
        assert [listed[place] for place in own] == sorted(weights, key=lambda word: -weights[word])[:2]


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
