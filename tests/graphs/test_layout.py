from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from sections_by_hand import batch_of, documents, sections_of

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.graphs.layout import SectionLayout


def following_of(layout: SectionLayout) -> dict[int, int]:
    """The section that each looks at."""
    pairs = [
        (int(layout.section_of[asking]), int(layout.section_of[asked]))
        for group in layout.groups
        for asking, asked in zip(group.asking[:, 0], group.asked[:, 0], strict=True)
    ]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@settings(max_examples=80)
@given(documents, st.randoms(use_true_random=False), st.booleans())
def test_sections_and_chunks_come_by_their_ids(ids: list[list[int]], draw, given_places: bool) -> None:
    places = [draw.sample(range(50), len(one)) for one in ids] if given_places else None
    layout = batch_of(ids, places).sections
    following = following_of(layout)
    first = section = row = 0
    for number, one in enumerate(ids):
        members = sections_of(one, None if places is None else places[number])
        for position, chunks in enumerate(members):
            assert layout.chunks[row : row + len(chunks)].tolist() == [first + chunk for chunk in chunks]
            assert layout.section_of[row : row + len(chunks)].tolist() == [section + position] * len(chunks)
            assert int(layout.counts[section + position]) == len(chunks)
            assert int(layout.document_of[section + position]) == number
            assert following[section + position] == section + (position + 1) % len(members)
            row += len(chunks)
        first, section = first + len(one), section + len(members)
    assert len(layout) == section
    assert layout.section_counts.tolist() == [len(set(one)) for one in ids]
    assert len(layout.chunks) == row


def test_without_a_split_every_document_is_one_section() -> None:
    batch = GraphBatch.from_graphs([graph_of_sections([0, 0, 1, 2]), graph_of_sections([3])])
    layout = batch.sections
    assert layout.counts.tolist() == [4, 1]
    assert following_of(layout) == {0: 0, 1: 1}
    assert layout.chunks.tolist() == [0, 1, 2, 3, 4]


def test_padding_repeats_a_chunk_of_the_section() -> None:
    (group,) = batch_of([[0, 0, 0], [0, 0, 0, 0]]).sections.groups
    assert group.asking.tolist() == group.asked.tolist() == [[0, 1, 2, 0], [3, 4, 5, 6]]
    assert group.is_asking.tolist() == group.is_asked.tolist() == [[True, True, True, False], [True] * 4]
