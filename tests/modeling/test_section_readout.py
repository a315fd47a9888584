from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sections_by_hand import batch_of, documents, readout_by_hand, sections_of

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.layout import section_ids
from graphdoc.modeling import DocumentConfig
from graphdoc.modeling.section_readout import SectionReadout
from graphdoc.registry import GRAPH_KINDS

IDS = [[0, 0, 0, 1, 1], [0], [0] * 6, [0, 1, 2, 2, 2, 2, 3], [1, 0, 1, 0]]
# The rows of the paper's ablation, and what lies between them.
VARIANTS: list[dict[str, Any]] = [
    {},
    {"chunk_attention_heads": 0},
    {"section_aggregation": "mean"},
    {"chunk_attention_heads": 0, "section_aggregation": "mean"},
    {"section_projection_size": None},
    {"chunk_attention_heads": 0, "section_aggregation": "mean", "section_projection_size": None},
]
SIZES = {"section_lstm_size": 10, "section_projection_size": 6}
variants = pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: " ".join(map(str, one.values())) or "paper")


def made(**settings: Any) -> SectionReadout:
    """A readout of 16 wide nodes with uneven weights."""
    readout = SectionReadout(DocumentConfig(projection_size=16, readout="sections", **{**SIZES, **settings}))
    with torch.no_grad():
        draw = torch.Generator().manual_seed(3)
        for parameter in readout.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.5)
    return readout.eval()


@variants
def test_the_equations_are_the_papers(variant: dict[str, Any]) -> None:
    readout = made(**variant).double()
    passages = torch.randn(sum(map(len, IDS)), 16, dtype=torch.float64)
    read = readout(passages, passages, batch_of(IDS))
    first, sections = 0, []
    for number, ids in enumerate(IDS):
        vectors, document = readout_by_hand(readout, passages[first : first + len(ids)].numpy(), sections_of(ids))
        np.testing.assert_allclose(read.documents[number].detach(), document, atol=1e-12)
        sections.append(vectors)
        first += len(ids)
    np.testing.assert_allclose(read.sections.detach(), np.concatenate(sections), atol=1e-12)
    assert read.document_of_section.tolist() == [number for number, vectors in enumerate(sections) for _ in vectors]
    torch.testing.assert_close(read.sections.norm(dim=1), torch.ones(len(read.sections), dtype=torch.float64))
    # The document of one section is that section.
    torch.testing.assert_close(read.documents[1:3], read.sections[2:4])


@settings(max_examples=40)
@given(documents, st.sampled_from(VARIANTS), st.randoms(use_true_random=False))
def test_neighbours_packing_and_the_order_of_passages_have_no_influence(
    ids: list[list[int]], variant: dict[str, Any], draw: Any
) -> None:
    readout = made(**variant)
    passages = torch.randn(sum(map(len, ids)), 16, generator=torch.Generator().manual_seed(draw.randrange(2**16)))
    together = readout(passages, passages, batch_of(ids), True)
    first = section = 0
    for number, one in enumerate(ids):
        # The same passages in another order, with ids that say where they belong.
        order = draw.sample(range(len(one)), len(one))
        places = [sections_of(one)[sorted(set(one)).index(id)].index(row) for row, id in enumerate(one)]
        batch = batch_of([[one[row] for row in order]], [[places[row] for row in order]])
        moved = passages[[first + row for row in order]]
        alone = readout(moved, moved, batch)
        assert float((together.documents[number] - alone.documents[0]).detach().abs().max()) < 1e-5
        found = together.sections[section : section + len(alone.sections)]
        assert float((found - alone.sections).abs().max()) < 1e-5
        first, section = first + len(one), section + len(alone.sections)
    assert section == len(together.sections)


@torch.no_grad()
def test_moving_sections_with_their_ids_moves_nothing(tiny_model, random_document) -> None:
    """Natural positions: whoever shuffles sections and leaves their ids alone gets the same vectors."""
    own = random_document([0, 0, 0, 1, 1, 2, 2, 2], seed=4)
    order = [3, 4, 5, 6, 7, 0, 1, 2]
    moved = replace(
        own, passages=tuple(own.passages[row] for row in order), token_ids=tuple(own.token_ids[row] for row in order)
    )
    settings = {"structural_embeddings": True, "projection_size": None, **SIZES}
    # The edges of "window" follow the passages, wherever their sections stand.
    for layers, kinds in ((0, ["full"]), (1, [kind for kind in GRAPH_KINDS if kind != "window"])):
        model = tiny_model("bert", readout="sections", graph_layers=layers, **settings)
        torch.nn.init.normal_(model.structural_embeddings.sections)
        torch.nn.init.normal_(model.structural_embeddings.chunks)
        for kind in kinds:
            batch = GraphBatch.from_documents([own], kind, split=True)
            shuffled = GraphBatch.from_documents([moved], kind)
            natural = shuffled.split_into(*batch.places[order].T)
            expected, found = model(batch), model(natural)
            assert float((found.sections - expected.sections).abs().max()) < 1e-5
            assert float((found.documents - expected.documents).abs().max()) < 1e-5
            numbered_anew = shuffled.split_into(section_ids([1, 1, 2, 2, 2, 0, 0, 0]))
            assert float((model(numbered_anew).documents - expected.documents).abs().max()) > 1e-3
