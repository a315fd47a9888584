from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from graphdoc.evaluation.faithfulness import shortened
from graphdoc.evaluation.faithfulness.shortened import encode_shortened
from graphdoc.graphs.batch import GraphBatch
from graphdoc.modeling import DocumentModel
from graphdoc.registry import GRAPH_KINDS
from graphdoc.segmentation.spans import SegmentedDocument

ModelFactory = Callable[..., DocumentModel]
SECTIONS = [0, 0, 0, 1, 1, 2, 2, 2]
MODELS: dict[str, dict[str, Any]] = {
    **{kind: {"graph_kind": kind} for kind in GRAPH_KINDS},
    "mean": {"graph_kind": "section", "readout": "mean"},
    "attention": {"graph_kind": "window", "readout": "attention"},
    "before the graph": {"readout": "initial_mean"},
    "no graph": {"graph_layers": 0, "readout": "mean"},
    "classes": {"labels": ["a", "b", "c"], "readout": "mean"},
    "sections": {"readout": "sections", "graph_layers": 0, "chunk_attention_heads": 2, "section_lstm_size": 6},
}
KEPT = [
    np.array(one, np.bool_)
    for one in ([1] * 8, [0, 1, 0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 1, 1])
]


def cached(model: DocumentModel, document: SegmentedDocument) -> SegmentedDocument:
    with torch.no_grad():
        batch = GraphBatch.from_documents([document], model.config.graph)
        return replace(document, passage_vectors=model.encode_passages(batch).numpy())


@pytest.mark.parametrize("most", [2**18, 1])
@pytest.mark.parametrize("name", MODELS)
def test_a_shortened_document_is_encoded_as_if_it_had_never_been_longer(
    tiny_model: ModelFactory, random_document: Any, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(shortened, "MOST_PAIRS", most)
    model, document = tiny_model(**MODELS[name]), random_document(SECTIONS)
    vectors, _, logits = encode_shortened(model, cached(model, document), KEPT)
    for row, kept in enumerate(KEPT):
        rows = np.flatnonzero(kept).tolist()
        part = replace(
            document,
            passages=tuple(document.passages[one] for one in rows),
            token_ids=tuple(document.token_ids[one] for one in rows),
        )
        with torch.no_grad():
            output = model(GraphBatch.from_documents([part], model.config.graph))
        np.testing.assert_allclose(vectors[row], output.documents[0].numpy(), atol=2e-5)
        if logits is not None:
            np.testing.assert_allclose(logits[row], output.logits[0].numpy(), atol=2e-5)
    assert (logits is not None) == (name == "classes")
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def test_with_structural_embeddings_passages_keep_their_places(tiny_model: ModelFactory, random_document: Any) -> None:
    model, document = tiny_model(structural_embeddings=True, **MODELS["sections"]), random_document(SECTIONS)
    assert model.structural_embeddings is not None
    with torch.no_grad():
        model.structural_embeddings.chunks.normal_()
        vectors, _, _ = encode_shortened(model, cached(model, document), [KEPT[1]])
        rows = np.flatnonzero(KEPT[1])
        part = replace(
            document,
            passages=tuple(document.passages[one] for one in rows),
            token_ids=tuple(document.token_ids[one] for one in rows),
        )
        moved_up = GraphBatch.from_documents([part], "full")
        in_place = moved_up.split_into(None, rows)
        np.testing.assert_allclose(vectors[0], model(in_place).documents[0].numpy(), atol=2e-5)
        assert np.abs(vectors[0] - model(moved_up).documents[0].numpy()).max() > 1e-3


def test_a_document_never_gets_empty(tiny_model: ModelFactory, random_document: Any) -> None:
    model = tiny_model()
    with pytest.raises(ValueError, match="without passages"):
        encode_shortened(model, cached(model, random_document(SECTIONS)), [np.zeros(8, np.bool_)])


def test_a_model_that_is_trained_stays_in_training(tiny_model: ModelFactory, random_document: Any) -> None:
    model = tiny_model().train()
    document = cached(model.eval(), random_document(SECTIONS))
    model.train()
    encode_shortened(model, document, KEPT)
    assert model.training
