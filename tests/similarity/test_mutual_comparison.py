from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder

EncoderFactory = Callable[..., DocumentEncoder]
COLDE: dict[str, Any] = {"readout": "sections", "graph_layers": 0, "projection_size": None}


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    texts = (("The tide came in.", "A wall held it."), ("Salt is dried.", "Water runs off.", "Rakes."), ("Clocks.",))
    return [
        Document(f"d{n}", tuple(Section(text, f"part {m}") for m, text in enumerate(parts)))
        for n, parts in enumerate(texts)
    ]


@pytest.mark.parametrize("settings", [{}, COLDE], ids=["graph", "colde"])
def test_every_block_is_the_comparison_of_its_two_documents(
    tiny_encoder: EncoderFactory, documents: list[Document], settings: dict[str, Any]
) -> None:
    encoder = tiny_encoder("bert", **settings)
    with torch.no_grad():
        for parameter in encoder.model.readout.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    together = encoder.compare_all(documents)
    assert together.first_sections == (0, 2, 5, 6)
    assert together.first_passages[-1] == len(together.passages) == 6
    for i, j in permutations(range(3), 2):
        two = encoder.compare(documents[i], documents[j])
        assert together.document_scores[i, j] == pytest.approx(two.document)
        sections = [slice(*bounds) for bounds in pairwise(together.first_sections)]
        passages = [slice(*bounds) for bounds in pairwise(together.first_passages)]
        np.testing.assert_allclose(together.sections[sections[i], sections[j]], two.sections, atol=1e-6)
        np.testing.assert_allclose(together.passages[passages[i], passages[j]], two.passages, atol=1e-6)
        if not settings:
            assert together.attention is None
            continue
        assert together.attention is not None
        np.testing.assert_allclose(together.attention[:, passages[i], passages[j]], two.attention_to_b, atol=1e-6)
        own = together.documents[i].attention
        assert own is not None
        np.testing.assert_array_equal(together.attention[:, passages[i], passages[i]], own.within())
        # Every passage looks at every document once.
        np.testing.assert_allclose(together.attention.sum(-1), 3, atol=1e-5)


def test_one_document_twice_is_within_only_where_it_meets_itself(
    tiny_encoder: EncoderFactory, documents: list[Document]
) -> None:
    encoder = tiny_encoder("bert", **COLDE)
    together = encoder.compare_all([documents[1], documents[1]])
    assert together.attention is not None
    assert (together.attention[:, :3, :3] == 0).any() and (together.attention[:, :3, 3:] > 0).all()
