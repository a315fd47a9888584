from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sections_by_hand import sections_of

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.modeling.readouts.section_layout import SectionLayout

documents = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=5)


def batch_of(ids: list[list[int]], places: list[list[int]] | None = None) -> GraphBatch:
    """Documents with the given section id and chunk id for every passage."""
    batch = GraphBatch.from_graphs([graph_of_sections(one) for one in ids])
    batch = replace(batch, section_ids=torch.tensor([id for one in ids for id in one]))
    return batch if places is None else replace(batch, chunk_ids=torch.tensor([p for one in places for p in one]))


@settings(deadline=None, max_examples=80)
@given(documents, st.randoms(use_true_random=False), st.booleans())
def test_sections_and_chunks_come_by_their_ids(ids: list[list[int]], draw, given_places: bool) -> None:
    places = [draw.sample(range(50), len(one)) for one in ids] if given_places else None
    layout = SectionLayout.of(batch_of(ids, places))
    first = section = row = 0
    for number, one in enumerate(ids):
        members = sections_of(one, None if places is None else places[number])
        for position, chunks in enumerate(members):
            assert layout.chunks[row : row + len(chunks)].tolist() == [first + chunk for chunk in chunks]
            assert layout.section_of[row : row + len(chunks)].tolist() == [section + position] * len(chunks)
            assert layout.place_of[row : row + len(chunks)].tolist() == list(range(len(chunks)))
            assert int(layout.starts[section + position]) == row
            assert int(layout.counts[section + position]) == len(chunks)
            assert int(layout.document_of[section + position]) == number
            assert int(layout.following[section + position]) == section + (position + 1) % len(members)
            row += len(chunks)
        first, section = first + len(one), section + len(members)
    assert len(layout) == section
    assert len(layout.chunks) == row


def test_without_a_split_every_document_is_one_section() -> None:
    batch = GraphBatch.from_graphs([graph_of_sections([0, 0, 1, 2]), graph_of_sections([3])])
    layout = SectionLayout.of(batch)
    assert layout.counts.tolist() == [4, 1]
    assert layout.following.tolist() == [0, 1]
    assert layout.chunks.tolist() == [0, 1, 2, 3, 4]


def test_padding_repeats_a_chunk_of_the_section() -> None:
    layout = SectionLayout.of(batch_of([[0, 0, 0, 1], [0, 0]]))
    chunks, is_chunk = layout.padded(torch.tensor([2, 1, 0]))
    assert chunks.tolist() == [[4, 5, 4], [3, 3, 3], [0, 1, 2]]
    assert is_chunk.tolist() == [[True, True, False], [True, False, False], [True] * 3]
