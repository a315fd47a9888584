from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from typed import Backbones

from graphdoc.sampling.sentence_pairs import SentencePairSampler, TokenMasks
from graphdoc.sampling.sub_documents import DocumentSections, SectionSplit, SubDocumentSplit

own_sections = st.lists(st.integers(0, 8), min_size=1, max_size=40).map(lambda some: np.array(sorted(some)))
counts = st.integers(1, 6)


def sizes_of(split: SectionSplit) -> list[int]:
    return np.bincount(split.section_ids).tolist()


@given(
    own_sections,
    counts,
    st.sampled_from(["headings", "length"]),
    st.sampled_from(["natural", "shuffled"]),
    st.integers(0, 9),
)
def test_every_passage_is_in_exactly_one_section(own, count: int, by: str, positions: str, epoch: int) -> None:
    drawn = DocumentSections(count, by, positions).sample("id", epoch, own)  # type: ignore[arg-type]
    assert sorted(drawn.order) == list(range(len(own)))
    assert len(drawn) == len(set(drawn.section_ids.tolist())) <= min(count, len(own))
    for section in range(len(drawn)):
        here = drawn.section_ids == section
        # Passages of a section stand together, and in reading order.
        assert np.diff(np.flatnonzero(here)).tolist() == [1] * (int(here.sum()) - 1)
        assert np.diff(drawn.order[here]).tolist() == [1] * (int(here.sum()) - 1)
        assert drawn.chunk_ids[here].tolist() == list(range(int(here.sum())))
    if positions == "natural":
        assert drawn.order.tolist() == sorted(drawn.order)
    if by == "length":
        sizes = sizes_of(drawn)
        assert len(sizes) == min(count, len(own)) and max(sizes) - min(sizes) <= 1
    assert drawn.section_ids.tolist() == sorted(drawn.section_ids)


@given(own_sections, counts)
def test_headings_are_merged_as_evenly_as_they_can_be(own, count: int) -> None:
    split = DocumentSections(count).split(own)
    starts = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist()]
    if len(starts) == 1:
        assert max(sizes_of(split)) - min(sizes_of(split)) <= 1
        assert len(split) == min(count, len(own))
        return
    assert len(split) == min(count, len(starts))
    assert set((np.flatnonzero(np.diff(split.section_ids)) + 1).tolist()) <= set(starts)
    possible = [np.diff([0, *some, len(own)]) for some in combinations(starts[1:], len(split) - 1)]
    assert sum(size**2 for size in sizes_of(split)) == min(int((one**2).sum()) for one in possible)


def test_of_cuts_that_are_as_even_the_first_is_taken() -> None:
    own = np.array([0, 0, 0, 1, 2, 2, 3])
    assert DocumentSections(3).split(own).section_ids.tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert DocumentSections(2, "length").split(own).section_ids.tolist() == [0, 0, 0, 0, 1, 1, 1]


@given(own_sections, counts, st.randoms(use_true_random=False))
def test_natural_positions_are_those_of_the_text_as_it_was(own, count: int, draw) -> None:
    split = DocumentSections(count).split(own)
    moved = split.permuted(np.array(draw.sample(range(len(split)), len(split))), "natural")
    places = [
        dict(zip(each.order.tolist(), zip(each.section_ids, each.chunk_ids, strict=True), strict=True))
        for each in (split, moved)
    ]
    assert places[0] == places[1]


@pytest.mark.parametrize("kind", ["half", "one_passage", "sections"])
def test_a_draw_depends_on_seed_epoch_and_id_alone(kind: Any) -> None:
    def drawn(seed: int, epoch: int, name: str) -> list[Any]:
        ids = [f"{name} {number}" for number in range(40)]
        if kind == "sections":
            sections = DocumentSections(5, "length", "shuffled", seed)
            return [sections.sample(id, epoch, np.zeros(20, np.int64)).order.tolist() for id in ids]
        return [SubDocumentSplit(kind, seed).sample(id, epoch, 40)[0].tolist() for id in ids]

    first = drawn(0, 0, "document")
    np.random.default_rng(0).random(7)
    assert drawn(0, 0, "document") == first
    assert all(other != first for other in (drawn(1, 0, "document"), drawn(0, 1, "document"), drawn(0, 0, "other")))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300)), min_size=1, max_size=30),
    st.integers(1, 4),
    st.integers(1, 900),
    st.booleans(),
)
def test_sections_are_limited_to_their_beginnings(
    passages: list[tuple[int, int]], count: int, most: int, shuffled: bool
) -> None:
    own = np.sort(np.array([section for section, _ in passages]))
    tokens = np.array([length for _, length in passages])
    split = DocumentSections(count, section_positions="shuffled" if shuffled else "natural").sample("id", 0, own)
    limited = split.limited(tokens, most)
    assert len(limited) == len(split)
    for section in range(len(split)):
        whole, kept = (part.order[part.section_ids == section].tolist() for part in (split, limited))
        expected, used = whole[:1], tokens[whole[0]]
        for row in whole[1:]:
            used += tokens[row]
            if used > most:
                break
            expected.append(row)
        assert kept == expected
        assert limited.chunk_ids[limited.section_ids == section].tolist() == list(range(len(kept)))


@given(
    split=st.sampled_from(["half", "one_passage"]),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 100),
    id=st.text(max_size=12),
    passages=st.integers(2, 60),
)
def test_every_passage_is_in_exactly_one_view(split: str, seed: int, epoch: int, id: str, passages: int) -> None:
    anchor, candidate = SubDocumentSplit(split, seed).sample(id, epoch, passages)  # type: ignore[arg-type]

    assert sorted([*anchor, *candidate]) == list(range(passages))
    assert list(anchor) == sorted(anchor)
    assert list(candidate) == sorted(candidate)
    assert len(anchor) == (passages // 2 if split == "half" else 1)


def test_draws_are_uniform() -> None:
    sections = DocumentSections(3, "length", "shuffled")
    orders = [tuple(sections.sample(str(number), 0, np.zeros(3, np.int64)).order) for number in range(1_200)]
    # Six orders of 200 expected, standard deviation 13.
    assert len(set(orders)) == 6
    assert np.abs(np.unique(orders, axis=0, return_counts=True)[1] - 200).max() < 65
    halves, first = np.zeros(10), np.zeros(5)
    for number in range(3_000):
        halves[SubDocumentSplit("half").sample(str(number), 0, 10)[0]] += 1 / 3_000
        first[SubDocumentSplit("one_passage").sample(str(number), 0, 5)[0]] += 1 / 3_000
    np.testing.assert_allclose(halves, 0.5, atol=0.05)
    # One passage is the first in half of the draws and any in the others.
    np.testing.assert_allclose(first, [0.6, 0.1, 0.1, 0.1, 0.1], atol=0.03)
    with pytest.raises(ValueError, match="'short' has 1 passages"):
        SubDocumentSplit().sample("short", 0, 1)


# Sentences of every paragraph of every document, and the group of the document.
DOCUMENTS = [([3, 1, 2], 7), ([1], 1), ([2], 5), ([1, 4], 7), ([5], 2)]


def made(documents: list[tuple[list[int], int]], seed: int = 0, rows: list[int] | None = None) -> SentencePairSampler:
    counts = np.array([sum(sizes) for sizes, _ in documents])
    paragraphs = np.concatenate([np.repeat(np.arange(len(sizes)), sizes) for sizes, _ in documents])
    groups = np.array([group for _, group in documents])
    return SentencePairSampler(
        counts, paragraphs, groups, seed, rows=None if rows is None else np.array(rows, np.int64)
    )


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
    assert pairs.unpaired == sizes.count(1)
    assert len({pairs.anchor(number) for number in range(len(pairs))}) == len(pairs)
    texts = {documents[row][1] for row in rows if max(documents[row][0]) > 1}
    assert pairs.groups == len(texts)
    for number in range(len(pairs)):
        for epoch in range(3):
            if len(texts) < 2:
                continue
            first, (second, is_intra) = pairs.anchor(number), pairs.sample(epoch, number)
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
    drawn = [pairs.sample(epoch, number) for epoch in range(6000)]
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
    drawn = {place: first.sample(*place) for place in places}
    assert all(second.sample(*place) == drawn[place] for place in reversed(places))
    assert any(other.sample(*place) != drawn[place] for place in places)
    assert any(drawn[0, number] != drawn[1, number] for number in range(len(first)))


def test_texts_that_give_no_pairs() -> None:
    one_text, alone = made([([2], 3), ([4], 3)]), made([([1, 1], 0), ([1], 1)])
    assert (one_text.groups, len(alone), alone.unpaired, alone.groups) == (1, 0, 3, 0)
    with pytest.raises(ValueError, match="one text"):
        for epoch in range(50):
            one_text.sample(epoch, 0)
    always, never = (
        SentencePairSampler(np.full(4, 6), np.tile([0, 0, 0, 1, 1, 1], 4), np.arange(4), 3, intra_probability=share)
        for share in (1.0, 0.0)
    )
    assert all(always.sample(0, number)[1] and not never.sample(0, number)[1] for number in range(24))


MASK = 399


@pytest.fixture
def tokenizer(backbone_folder: Backbones) -> PreTrainedTokenizerFast:
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
        for before, after in zip(sentences, masks.mask(sentences, 0, number), strict=True):
            assert len(after.token_ids) == len(before)
            np.testing.assert_array_equal(after.tokens, before[after.positions])
            others = np.setdiff1d(np.arange(len(before)), after.positions)
            np.testing.assert_array_equal(after.token_ids[others], before[others])
            assert {0, len(before) - 1} <= set(others.tolist())
            seen = after.token_ids[after.positions]
            counts += (len(seen), (seen == MASK).sum(), (seen == after.tokens).sum(), len(before) - 2)
    chosen, masked, kept, tokens = counts
    assert chosen / tokens == pytest.approx(0.15, abs=0.01)
    assert masked / chosen == pytest.approx(0.8, abs=0.03)
    assert kept / chosen == pytest.approx(0.1, abs=0.03)


def test_masks_depend_on_the_key_alone(tokenizer: PreTrainedTokenizerFast) -> None:
    sentences = [np.arange(4, 60), np.arange(60, 90)]
    masks, others = TokenMasks(tokenizer), TokenMasks(tokenizer)
    first, second = ([one.token_ids.tolist() for one in masks.mask(sentences, 0, number)] for number in (1, 2))
    assert first != second
    assert [one.token_ids.tolist() for one in others.mask(sentences, 0, 1)] == first
