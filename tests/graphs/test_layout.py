from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sections_by_hand import batch_of, documents, sections_of

from graphdoc import DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.graphs.layout import PADDING, Packing, SectionLayout

lengths = st.lists(st.integers(1, 400), max_size=300)
budgets = st.integers(1, 5_000)
shares = st.sampled_from([0.0, 0.03, 0.2])


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
    layout = GraphBatch.from_graphs([graph_of_sections([0, 0, 1, 2]), graph_of_sections([3])]).sections
    assert layout.counts.tolist() == [4, 1] and layout.chunks.tolist() == [0, 1, 2, 3, 4]
    assert following_of(layout) == {0: 0, 1: 1}
    # Padding repeats a chunk of the section.
    (group,) = batch_of([[0, 0, 0], [0, 0, 0, 0]]).sections.groups
    assert group.asking.tolist() == group.asked.tolist() == [[0, 1, 2, 0], [3, 4, 5, 6]]
    assert group.is_asking.tolist() == group.is_asked.tolist() == [[True, True, True, False], [True] * 4]


def cells_of(tokens: list[int]) -> int:
    return len(tokens) * max(tokens)


@given(lengths, budgets, shares, st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_it_is_a_partition_longest_first_that_keeps_to_budget_and_padding(
    lengths: list[int], budget: int, padding: float, filled: float
) -> None:
    packed = [positions.tolist() for positions in Packing(budget, padding, filled).pack(lengths)]
    assert packed == [found.tolist() for found in Packing(budget, padding, filled).pack(np.asarray(lengths))]
    flat = [position for positions in packed for position in positions]
    assert flat == sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    tokens = [[lengths[position] for position in positions] for positions in packed]
    assert all(cells_of(held) <= budget or len(held) == 1 for held in tokens)
    if filled == 0:
        assert all(cells_of(held) - sum(held) <= padding * cells_of(held) for held in tokens)
    # Padding closes a mini-batch only once it is filled.
    for held, following in pairwise(tokens):
        more = [*held, following[0]]
        is_padded = cells_of(more) - sum(more) > padding * cells_of(more)
        assert cells_of(more) > budget or (is_padded and cells_of(held) >= filled * budget)


@pytest.mark.parametrize("values", [{"token_budget": 0}, {"padding": 1.5}])
def test_values_out_of_range_are_refused(values: dict[str, Any]) -> None:
    ((name, value),) = values.items()
    with pytest.raises(SettingsError) as error:
        Packing(**{"token_budget": 9, **values})
    assert name in str(error.value) and str(value) in str(error.value)


def test_the_rule_depends_on_the_device() -> None:
    draw = np.random.default_rng(0)
    # 160 and 4,500 passages of about 100 words, in tokens.
    few, many = (np.clip(draw.normal(145, 30, count), 20, 256).astype(int) for count in (160, 4_500))
    # On accelerators a mini-batch is filled first ...
    assert len(Packing.on("cuda").pack(few)) == 1
    assert 10 <= len(Packing.on("cuda").pack(many)) <= 13
    assert len(Packing.on("cuda", padding=0.5).pack(many)) <= len(Packing.on("cuda").pack(many))
    # ... and on a processor padding is what costs.
    for packing in (Packing.on("cpu"), Packing.on("cpu", 65_536)):
        for tokens in (few, many):
            padded = sum(cells_of(tokens[rows].tolist()) for rows in packing.pack(tokens))
            assert tokens.sum() >= (1 - PADDING) * padded
    assert len(Packing.on("cpu", 65_536).pack(few)) > 5


def test_the_padding_of_an_encoder_can_be_set(mini: DocumentEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [" ".join(["rice"] * (10 + 3 * number)) for number in range(12)]
    counts = []
    pack = Packing.pack

    def counted(packing: Packing, lengths: Any) -> Any:
        found = pack(packing, lengths)
        counts.append(len(found))
        return found

    monkeypatch.setattr(Packing, "pack", counted)
    tight, loose = (mini.encode(texts, token_budget=1000, padding=padding) for padding in (0.0, 1.0))
    assert counts[0] > counts[1]
    np.testing.assert_allclose(tight, loose, atol=1e-5)
    with pytest.raises(SettingsError) as error:
        mini.encode(texts, padding=1.5)
    assert "padding" in str(error.value) and "1.5" in str(error.value)
