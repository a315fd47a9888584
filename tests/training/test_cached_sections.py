"""Gradient caching at chunk vectors, with CoLDE's parts around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from test_cached_step import assert_equal_gradients, gradients
from torch import Tensor

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.graphs.layout import Packing
from graphdoc.losses import ONE_PROCESS, Gather, LossOutput
from graphdoc.modeling import DocumentConfig, DocumentModel, DocumentOutput
from graphdoc.training.objectives import Objective, TrainingBatch
from graphdoc.training.step import CachedStep


@dataclass(frozen=True)
class ProductsOfSections(Objective):
    """A loss in which every section meets every other."""

    def rows(self, output: DocumentOutput) -> Tensor:
        assert output.sections is not None
        return output.sections

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        return LossOutput((rows @ rows.T / 0.5).logsumexp(dim=1).mean(), {})


@pytest.fixture
def make_model(tiny_encoder_config: Callable[..., Any]) -> Callable[..., DocumentModel]:
    """Makes CoLDE with dropout, ready to train."""

    def make(**settings: Any) -> DocumentModel:
        encoder = tiny_encoder_config(
            "bert", hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2, initializer_range=0.1
        )
        sizes = {"projection_size": None, "section_lstm_size": 12, "section_projection_size": 8}
        colde = {"structural_embeddings": True, "graph_layers": 0, "readout": "sections", **sizes}
        config = DocumentConfig(encoder_config=encoder, **{**colde, **settings})
        model = DocumentModel(config).train()
        for table in model.structural_embeddings.parameters():
            torch.nn.init.normal_(table, std=0.2)
        return model

    return make


@pytest.fixture
def batch(training_examples: Any) -> TrainingBatch:
    """Documents split into sections of uneven lengths."""
    examples = training_examples(7)
    graphs = GraphBatch.from_graphs(
        [graph_of_sections(example.sections.tolist(), "section") for example in examples],
        tuple(ids for example in examples for ids in example.token_ids),
    )
    sections = np.concatenate([np.arange(len(example.sections)) // 3 for example in examples])
    assert len(set(sections.tolist())) == 3
    split = graphs.split_into(sections)
    return TrainingBatch(split, tuple(example.id for example in examples), {})


@pytest.mark.parametrize(("layers", "aggregation", "budget"), [(0, "lstm", 41), (1, "lstm", 97), (1, "mean", 100_000)])
def test_gradients_are_those_of_plain_autograd(
    make_model: Callable[..., DocumentModel], batch: TrainingBatch, layers: int, aggregation: str, budget: int
) -> None:
    model = make_model(graph_layers=layers, section_aggregation=aggregation)
    objective = ProductsOfSections()
    torch.manual_seed(5)
    output = model.encode_graphs(model.encode_passages(batch.graphs, Packing(budget)), batch.graphs)
    expected_loss = objective.loss(objective.rows(output), batch, ONE_PROCESS).loss
    expected_loss.backward()
    expected = gradients(model)
    assert {"structural_embeddings.sections", "structural_embeddings.chunks"} <= expected.keys()

    torch.manual_seed(5)
    step = CachedStep(model, objective, packing=Packing(budget))(batch)

    assert step.loss.item() == pytest.approx(expected_loss.item(), rel=1e-6)
    assert_equal_gradients(gradients(model), expected)


def test_tables_learn_also_where_the_encoder_stands_still(
    make_model: Callable[..., DocumentModel], batch: TrainingBatch
) -> None:
    model = make_model()
    model.passage_encoder.requires_grad_(False)
    model.passage_encoder.eval()
    CachedStep(model, ProductsOfSections(), packing=Packing(80))(batch)
    found = gradients(model)
    assert not any("transformer" in name for name in found)
    assert float(found["structural_embeddings.sections"].abs().max()) > 0
