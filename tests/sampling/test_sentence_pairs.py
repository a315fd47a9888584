from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.sampling.sentence_pairs import SentencePairBatches, SentencePairDraws

# Sentences of every paragraph of every document, and the group of the document.
DOCUMENTS = [([3, 1, 2], 7), ([1], 1), ([2], 5), ([1, 4], 7), ([5], 2)]


def made(documents: list[tuple[list[int], int]], seed: int = 0, rows: list[int] | None = None) -> SentencePairDraws:
    counts = np.array([sum(sizes) for sizes, _ in documents])
    paragraphs = np.concatenate([np.repeat(np.arange(len(sizes)), sizes) for sizes, _ in documents])
    groups = np.array([group for _, group in documents])
    return SentencePairDraws(counts, paragraphs, groups, seed, rows=None if rows is None else np.array(rows))


def paragraph_of(documents: list[tuple[list[int], int]], document: int, number: int) -> tuple[int, int]:
    """Paragraph of a sentence and its size, by counting."""
    sizes = documents[document][0]
    paragraph = next(place for place in range(len(sizes)) if number < sum(sizes[: place + 1]))
    return paragraph, sizes[paragraph]


@given(
    documents=st.lists(
        st.tuples(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 3)), min_size=1, max_size=6
    ),
    data=st.data(),
)
def test_pairs_are_of_one_paragraph_or_of_different_texts(
    documents: list[tuple[list[int], int]], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.sampled_from(range(len(documents))), unique=True, min_size=1))
    pairs = made(documents, rows=rows)
    sizes = [size for row in rows for size in documents[row][0]]
    assert len(pairs) == sum(size for size in sizes if size > 1)
    assert pairs.alone == sizes.count(1)
    assert len({pairs.anchor(number) for number in range(len(pairs))}) == len(pairs)
    texts = {documents[row][1] for row in rows if max(documents[row][0]) > 1}
    assert pairs.groups == len(texts)
    for number in range(len(pairs)):
        for epoch in range(3):
            if len(texts) < 2:
                continue
            first, second, is_intra = pairs.draw(epoch, number)
            assert first == pairs.anchor(number) != second
            assert {first.document, second.document} <= set(rows)
            one, other = paragraph_of(documents, *first), paragraph_of(documents, *second)
            assert one[1] > 1 and other[1] > 1
            if is_intra:
                assert (first.document, one) == (second.document, other)
            else:
                assert documents[first.document][1] != documents[second.document][1]


@pytest.mark.parametrize("probability", [0.0, 0.2, 1.0])
def test_a_partner_of_the_same_paragraph_is_as_probable_as_is_said(probability: float) -> None:
    counts, paragraphs = np.full(40, 6), np.tile([0, 0, 0, 1, 1, 1], 40)
    pairs = SentencePairDraws(counts, paragraphs, np.arange(40), 3, intra_probability=probability)
    intra = [pairs.draw(0, number).is_intra for number in range(len(pairs))]
    assert len(intra) == 240
    assert np.mean(intra) == pytest.approx(probability, abs=0.07 if 0 < probability < 1 else 0)


def test_half_of_the_partners_are_of_the_same_paragraph_and_all_are_drawn_alike() -> None:
    pairs = made(DOCUMENTS)
    number = next(number for number in range(len(pairs)) if pairs.anchor(number) == (0, 1))
    drawn = [pairs.draw(epoch, number) for epoch in range(6000)]
    counts = {kind: Counter(pair.second for pair in drawn if pair.is_intra == kind) for kind in (True, False)}
    assert set(counts[True]) == {(0, 0), (0, 2)}
    # Neither copies of its text nor sentences without a neighbour.
    assert set(counts[False]) == {(2, 0), (2, 1), *((4, sentence) for sentence in range(5))}
    for kind in (True, False):
        assert sum(counts[kind].values()) == pytest.approx(3000, abs=200)
        expected = sum(counts[kind].values()) / len(counts[kind])
        assert all(count == pytest.approx(expected, rel=0.2) for count in counts[kind].values())


def test_draws_depend_on_seed_epoch_and_number_alone() -> None:
    first, second, other = made(DOCUMENTS), made(DOCUMENTS), made(DOCUMENTS, seed=1)
    places = [(epoch, number) for epoch in range(3) for number in range(len(first))]
    drawn = {place: first.draw(*place) for place in places}
    assert all(second.draw(*place) == drawn[place] for place in reversed(places))
    assert any(other.draw(*place) != drawn[place] for place in places)
    assert any(drawn[0, number] != drawn[1, number] for number in range(len(first)))


def test_one_text_has_no_other_document() -> None:
    pairs = made([([2], 3), ([4], 3)])
    assert pairs.groups == 1
    with pytest.raises(ValueError, match="one text"):
        for epoch in range(50):
            pairs.draw(epoch, 0)


def test_paragraphs_of_one_sentence_give_no_pairs() -> None:
    pairs = made([([1, 1], 0), ([1], 1)])
    assert (len(pairs), pairs.alone, pairs.groups) == (0, 3, 0)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_an_epoch_passes_once_over_all_anchors_or_a_part_of_them(processes: int) -> None:
    pairs = made(DOCUMENTS)
    assert len(pairs) == 16

    def of_epoch(epoch: int, most: int | None = None) -> list[list[int]]:
        ones = np.ones(len(pairs), np.int64)
        shares = [SentencePairBatches(ones, 4, 0, rank, processes, pairs_per_epoch=most) for rank in range(processes)]
        parts = zip(*(share.of_epoch(epoch) for share in shares), strict=True)
        return [sorted(number for part in batch for _, number in part) for batch in parts]

    whole = of_epoch(0)
    assert [len(batch) for batch in whole] == [4] * 4
    assert sorted(number for batch in whole for number in batch) == list(range(16))
    assert of_epoch(0) == whole != of_epoch(1)
    assert of_epoch(0, 11) == whole[:2]
    assert [len(batch) for batch in of_epoch(0, 3)] == [3]


def test_a_batch_is_too_small_for_the_processes() -> None:
    with pytest.raises(ValueError, match="too small"):
        SentencePairBatches(np.ones(len(made(DOCUMENTS)), np.int64), 2, 0, processes=3)
