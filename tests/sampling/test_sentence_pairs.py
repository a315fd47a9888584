from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from graphdoc.sampling.sentence_pairs import SentencePairDraws, TokenMasks

# Sentences of every paragraph of every document, and the group of the document.
DOCUMENTS = [([3, 1, 2], 7), ([1], 1), ([2], 5), ([1, 4], 7), ([5], 2)]


def made(documents: list[tuple[list[int], int]], seed: int = 0, rows: list[int] | None = None) -> SentencePairDraws:
    counts = np.array([sum(sizes) for sizes, _ in documents])
    paragraphs = np.concatenate([np.repeat(np.arange(len(sizes)), sizes) for sizes, _ in documents])
    groups = np.array([group for _, group in documents])
    return SentencePairDraws(counts, paragraphs, groups, seed, rows=None if rows is None else np.array(rows, np.int64))


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
            first, (second, is_intra) = pairs.anchor(number), pairs.draw(epoch, number)
            assert first != second
            assert {first[0], second[0]} <= set(rows)
            one, other = paragraph_of(documents, *first), paragraph_of(documents, *second)
            assert one[1] > 1 and other[1] > 1
            if is_intra:
                assert (first[0], one) == (second[0], other)
            else:
                assert documents[first[0]][1] != documents[second[0]][1]


def test_half_of_the_partners_are_of_the_same_paragraph_and_all_are_drawn_alike() -> None:
    pairs = made(DOCUMENTS)
    number = next(number for number in range(len(pairs)) if pairs.anchor(number) == (0, 1))
    drawn = [pairs.draw(epoch, number) for epoch in range(6000)]
    counts = {kind: Counter(partner for partner, is_intra in drawn if is_intra == kind) for kind in (True, False)}
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


def test_texts_that_give_no_pairs() -> None:
    one_text, alone = made([([2], 3), ([4], 3)]), made([([1, 1], 0), ([1], 1)])
    assert (one_text.groups, len(alone), alone.alone, alone.groups) == (1, 0, 3, 0)
    with pytest.raises(ValueError, match="one text"):
        for epoch in range(50):
            one_text.draw(epoch, 0)
    always, never = (
        SentencePairDraws(np.full(4, 6), np.tile([0, 0, 0, 1, 1, 1], 4), np.arange(4), 3, intra_probability=share)
        for share in (1.0, 0.0)
    )
    assert all(always.draw(0, number)[1] and not never.draw(0, number)[1] for number in range(24))


MASK = 399


@pytest.fixture
def tokenizer(backbone_folder: Callable[[str], Path]) -> PreTrainedTokenizerFast:
    """A tokenizer of 400 tokens, the last of which is the mask."""
    found: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(backbone_folder("roberta"))
    found.mask_token = found.convert_ids_to_tokens(MASK)
    return found


def test_shares_are_those_of_bert(tokenizer: PreTrainedTokenizerFast) -> None:
    masks = TokenMasks(tokenizer)
    draw = np.random.default_rng(0)
    counts = np.zeros(4)
    for number in range(400):
        sentences = [np.array([0, *draw.integers(4, MASK, size=size), 2], np.int32) for size in (12, 30)]
        for before, after in zip(sentences, masks.draw(sentences, 0, number), strict=True):
            assert len(after.token_ids) == len(before)
            np.testing.assert_array_equal(after.tokens, before[after.places])
            others = np.setdiff1d(np.arange(len(before)), after.places)
            np.testing.assert_array_equal(after.token_ids[others], before[others])
            assert {0, len(before) - 1} <= set(others.tolist())
            seen = after.token_ids[after.places]
            counts += (len(seen), (seen == MASK).sum(), (seen == after.tokens).sum(), len(before) - 2)
    chosen, masked, kept, tokens = counts
    assert chosen / tokens == pytest.approx(0.15, abs=0.01)
    assert masked / chosen == pytest.approx(0.8, abs=0.03)
    assert kept / chosen == pytest.approx(0.1, abs=0.03)


def test_masks_depend_on_the_key_alone(tokenizer: PreTrainedTokenizerFast) -> None:
    sentences = [np.arange(4, 60), np.arange(60, 90)]
    masks, others = TokenMasks(tokenizer), TokenMasks(tokenizer)
    first, second = ([one.token_ids.tolist() for one in masks.draw(sentences, 0, number)] for number in (1, 2))
    assert first != second
    assert [one.token_ids.tolist() for one in others.draw(sentences, 0, 1)] == first
