from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.sampling import DocumentSections, SectionSplit, SubDocumentSplit

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
    drawn = DocumentSections(count, by, positions).draw("id", epoch, own)  # type: ignore[arg-type]
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
    cuts = np.flatnonzero(np.diff(split.section_ids)) + 1
    assert set(cuts.tolist()) <= set(starts)
    possible = [np.diff([0, *some, len(own)]) for some in combinations(starts[1:], len(split) - 1)]
    assert sum(size**2 for size in sizes_of(split)) == min(int((one**2).sum()) for one in possible)


def test_of_cuts_that_are_as_even_the_first_is_taken() -> None:
    own = np.array([0, 0, 0, 1, 2, 2, 3])
    assert DocumentSections(3).split(own).section_ids.tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert DocumentSections(2, "length").split(own).section_ids.tolist() == [0, 0, 0, 0, 1, 1, 1]


@given(own_sections, counts, st.randoms(use_true_random=False))
def test_natural_positions_are_those_of_the_text_as_it_was(own, count: int, draw) -> None:
    split = DocumentSections(count).split(own)
    moved = split.moved(np.array(draw.sample(range(len(split)), len(split))), "natural")
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
            return [sections.draw(id, epoch, np.zeros(20, np.int64)).order.tolist() for id in ids]
        return [SubDocumentSplit(kind, seed).draw(id, epoch, 40)[0].tolist() for id in ids]

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
    split = DocumentSections(count, section_positions="shuffled" if shuffled else "natural").draw("id", 0, own)
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
    anchor, candidate = SubDocumentSplit(split, seed).draw(id, epoch, passages)  # type: ignore[arg-type]

    assert sorted([*anchor, *candidate]) == list(range(passages))
    assert list(anchor) == sorted(anchor)
    assert list(candidate) == sorted(candidate)
    assert len(anchor) == (passages // 2 if split == "half" else 1)


def test_draws_are_uniform() -> None:
    sections = DocumentSections(3, "length", "shuffled")
    orders = [tuple(sections.draw(str(number), 0, np.zeros(3, np.int64)).order) for number in range(1_200)]
    # Six orders of 200 expected, standard deviation 13.
    assert len(set(orders)) == 6
    assert np.abs(np.unique(orders, axis=0, return_counts=True)[1] - 200).max() < 65
    halves, first = np.zeros(10), np.zeros(5)
    for number in range(3_000):
        halves[SubDocumentSplit("half").draw(str(number), 0, 10)[0]] += 1 / 3_000
        first[SubDocumentSplit("one_passage").draw(str(number), 0, 5)[0]] += 1 / 3_000
    np.testing.assert_allclose(halves, 0.5, atol=0.05)
    # One passage is the first in half of the draws and any in the others.
    np.testing.assert_allclose(first, [0.6, 0.1, 0.1, 0.1, 0.1], atol=0.03)
    with pytest.raises(ValueError, match="'short' has 1 passages"):
        SubDocumentSplit().draw("short", 0, 1)
