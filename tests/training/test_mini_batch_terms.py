"""Terms of the loss on the tokens of mini-batches, beside the loss on documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from test_cached_step import assert_equal_gradients, gradients
from torch import Tensor, nn

from graphdoc.graphs.layout import MiniBatch, Packing
from graphdoc.losses import ONE_PROCESS, Gather, LossOutput, SubDocumentContrast
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.recipes.sub_documents import sub_document_batch
from graphdoc.sampling import SubDocumentSplit
from graphdoc.training.data import TrainingBatch
from graphdoc.training.objectives import MiniBatchTerm, ViewContrast
from graphdoc.training.step import CachedStep


@dataclass(frozen=True)
class WithTokens(ViewContrast):
    """Contrast of views, and the mean over all tokens of a batch of a square that a head gives for each."""

    head: nn.Module = field(default_factory=lambda: nn.Sequential(nn.Linear(32, 4), nn.Dropout(0.3)))

    def mini_batch_term(self, batch: TrainingBatch, gather: Gather) -> MiniBatchTerm:
        total = gather.rows(torch.tensor([batch.tokens]))[0].sum()

        def term(mini_batch: MiniBatch, tokens: Tensor) -> LossOutput:
            squares = self.head(tokens).square().sum(dim=-1) * mini_batch.attention_mask
            loss = squares.sum() * (gather.processes / total)
            return LossOutput(loss, {"token_loss": loss.detach()})

        return term


@pytest.fixture
def model(tiny_encoder_config: Callable[..., Any]) -> DocumentModel:
    """A tiny model with dropout everywhere, ready to train."""
    dropout = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2}
    config = tiny_encoder_config("roberta", hidden_size=32, initializer_range=0.1, **dropout)
    return DocumentModel(DocumentConfig(encoder_config=config, projection_size=16, attention_dropout=0.3)).train()


@pytest.fixture
def batch(training_examples: Any) -> TrainingBatch:
    return sub_document_batch(training_examples(6), SubDocumentSplit(), 0)


@pytest.fixture
def objective() -> WithTokens:
    torch.manual_seed(1)
    objective = WithTokens(SubDocumentContrast("cosine", 0.3))
    objective.head.eval()
    return objective


def plain(
    model: DocumentModel, objective: WithTokens, batch: TrainingBatch, packing: Packing
) -> tuple[Tensor, Tensor]:
    """Both parts of the loss by plain autograd: everything held at once."""
    term = objective.mini_batch_term(batch, ONE_PROCESS)
    mini_batches = list(model.mini_batches(batch.graphs, packing))
    parts = [model.encode_tokens(mini_batch) for mini_batch in mini_batches]
    terms = [term(mini_batch, tokens).loss for mini_batch, (_, tokens) in zip(mini_batches, parts, strict=True)]
    order = torch.argsort(torch.cat([mini_batch.passage_order for mini_batch in mini_batches]))
    output = model.encode_graphs(torch.cat([vectors for vectors, _ in parts])[order], batch.graphs)
    return objective.loss(objective.rows(output), batch, ONE_PROCESS).loss, torch.stack(terms).sum()


def all_gradients(model: DocumentModel, objective: WithTokens) -> dict[str, Tensor]:
    found = {f"head.{name}": weight.grad.clone() for name, weight in objective.head.named_parameters()}
    objective.head.zero_grad()
    return {**gradients(model), **found}


@pytest.mark.parametrize(("budget", "keep", "scale"), [(41, 0, 1.0), (97, 300, 0.25), (100_000, 0, 0.25)])
def test_gradients_are_those_of_plain_autograd(
    model: DocumentModel, objective: WithTokens, batch: TrainingBatch, budget: int, keep: int, scale: float
) -> None:
    packing = Packing(budget)
    torch.manual_seed(5)
    contrast, tokens = plain(model, objective, batch, packing)
    contrast.backward(retain_graph=True)
    without = gradients(model)
    (scale * (contrast + tokens)).backward()
    expected = all_gradients(model, objective)
    contrast, tokens = contrast.detach(), tokens.detach()
    assert float(tokens) > 0.1
    assert any(not torch.allclose(expected[name], scale * without[name], rtol=0.1) for name in without)

    torch.manual_seed(5)
    step = CachedStep(model, objective, packing=packing, keep_activations=keep)
    step.scale = scale
    output = step(batch)

    assert_equal_gradients(all_gradients(model, objective), expected)
    assert output.loss.item() == pytest.approx(float(contrast + tokens), rel=1e-6)
    assert output.metrics["token_loss"].item() == pytest.approx(float(tokens), rel=1e-6)
    assert "accuracy" in output.metrics


def test_what_a_term_draws_does_not_depend_on_what_is_kept(
    model: DocumentModel, objective: WithTokens, batch: TrainingBatch
) -> None:
    objective.head.train()
    found = []
    for keep in (0, 100, 10_000):
        torch.manual_seed(5)
        CachedStep(model, objective, packing=Packing(60), keep_activations=keep)(batch)
        found.append(all_gradients(model, objective))
    assert_equal_gradients(found[1], found[0])
    assert_equal_gradients(found[2], found[0])


def test_measuring_counts_the_term(model: DocumentModel, objective: WithTokens, batch: TrainingBatch) -> None:
    model.eval()
    with torch.no_grad():
        contrast, tokens = plain(model, objective, batch, Packing(60))
    for numbers in (None, 300):
        measured = CachedStep(model, objective, packing=Packing(60), graph_numbers=numbers).measure(batch)
        assert measured.loss.item() == pytest.approx(float(contrast + tokens), rel=1e-5)
        assert measured.metrics["token_loss"].item() == pytest.approx(float(tokens), rel=1e-5)
    assert not gradients(model)


def test_a_head_learns_on_tokens_of_an_encoder_that_stands_still(
    model: DocumentModel, objective: WithTokens, batch: TrainingBatch
) -> None:
    model.passage_encoder.requires_grad_(False)
    CachedStep(model, objective, packing=Packing(60))(batch)
    found = all_gradients(model, objective)
    assert float(found["head.0.weight"].norm()) > 1e-3
    assert not any("transformer" in name for name in found)
