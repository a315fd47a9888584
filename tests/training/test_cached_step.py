from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graphdoc.graphs.layout import Packing
from graphdoc.losses import SubDocumentContrast
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.recipes.sub_documents import sub_document_batch
from graphdoc.registry import GRAPH_KINDS
from graphdoc.sampling import SubDocumentSplit
from graphdoc.training.objectives import TrainingBatch, ViewContrast, describe_vectors
from graphdoc.training.step import CachedStep

LOSS = SubDocumentContrast("cosine", 0.3)


@pytest.fixture
def model(tiny_encoder_config: Callable[..., Any]) -> DocumentModel:
    """A tiny model with dropout everywhere, ready to train."""
    config = DocumentConfig(
        encoder_config=tiny_encoder_config(
            "roberta", hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2, initializer_range=0.1
        ),
        projection_size=16,
        readout="attention",
    )
    return DocumentModel(config).train()


def plain_loss(model: DocumentModel, batch: TrainingBatch, loss: SubDocumentContrast, budget: int | None) -> Tensor:
    """The loss by plain autograd: everything held at once."""
    vectors = model.encode_passages(batch.graphs, Packing(budget))
    documents = model.encode_graphs(vectors, batch.graphs).documents
    assert documents is not None
    anchors, candidates = (documents[batch.roles[role]] for role in ("anchor", "candidate"))
    return loss(anchors, candidates, batch.targets["group"]).loss


def gradients(model: DocumentModel) -> dict[str, Tensor]:
    result = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return result


def assert_equal_gradients(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """The whole gradient to 1e-6, and every tensor of it but those that are zero up to rounding (biases of keys)."""
    assert found.keys() == expected.keys()
    assert any("transformer" in name for name in expected)
    difference = torch.cat([(found[name] - gradient).flatten() for name, gradient in expected.items()])
    whole = torch.cat([gradient.flatten() for gradient in expected.values()])
    assert float(difference.norm()) <= 1e-6 * float(whole.norm())
    largest = float(whole.abs().max())
    for name, gradient in expected.items():
        scale = max(float(gradient.abs().max()), 0.1 * largest)
        assert float((found[name] - gradient).abs().max()) <= 2e-6 * scale, name


@pytest.mark.parametrize(
    ("graph_kind", "split", "budget"),
    [*((kind, "half", 97) for kind in GRAPH_KINDS), ("section", "one_passage", 41), ("full", "half", 100_000)],
)
def test_gradients_are_those_of_plain_autograd_under_dropout(
    model: DocumentModel, training_examples: Any, graph_kind: str, split: str, budget: int
) -> None:
    batch = sub_document_batch(training_examples(6), SubDocumentSplit(split), 0, graph=graph_kind)  # type: ignore[arg-type]
    torch.manual_seed(5)
    expected_loss = plain_loss(model, batch, LOSS, budget)
    expected_loss.backward()
    expected = gradients(model)
    torch.manual_seed(6)
    plain_loss(model, batch, LOSS, budget).backward()
    other = gradients(model)
    assert any(not torch.allclose(other[name], expected[name], rtol=0.01) for name in expected), "no dropout active"

    torch.manual_seed(5)
    output = CachedStep(model, ViewContrast(LOSS), packing=Packing(budget))(batch)

    assert output.loss.item() == pytest.approx(expected_loss.item(), rel=1e-6)
    assert_equal_gradients(gradients(model), expected)


@pytest.mark.parametrize("keep", [50, 500])
def test_kept_activations_change_nothing(model: DocumentModel, training_examples: Any, keep: int) -> None:
    batch = sub_document_batch(training_examples(5), SubDocumentSplit(), 0)
    torch.manual_seed(5)
    CachedStep(model, ViewContrast(LOSS), packing=Packing(80))(batch)
    expected = gradients(model)

    torch.manual_seed(5)
    CachedStep(model, ViewContrast(LOSS), packing=Packing(80), keep_activations=keep)(batch)

    assert_equal_gradients(gradients(model), expected)


@pytest.mark.parametrize(("graph_numbers", "split"), [(1, "half"), (300, "one_passage"), (600, "half")])
def test_graphs_in_slices_change_nothing_but_random_numbers(
    model: DocumentModel, training_examples: Any, graph_numbers: int, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In double precision, since sums in another order are rounded otherwise.
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    model.double()
    # Dropout in the graphs draws for every slice; without it the gradient is the same.
    for layer in model.graph.layers:
        layer.dropout = 0.0
    batch = sub_document_batch(training_examples(6), SubDocumentSplit(split), 0, graph="section")  # type: ignore[arg-type]
    step = CachedStep(model, ViewContrast(LOSS), packing=Packing(80), graph_numbers=graph_numbers)
    assert len(step._slices(torch.zeros(len(batch.graphs.token_ids), 1), batch.graphs)) > 1
    torch.manual_seed(5)
    CachedStep(model, ViewContrast(LOSS), packing=Packing(80))(batch)
    expected = gradients(model)

    torch.manual_seed(5)
    step(batch)

    for name, found in gradients(model).items():
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, expected[name], rtol=1e-10, atol=1e-12)


def test_dropout_in_sliced_graphs_is_the_same_in_both_passes(model: DocumentModel, training_examples: Any) -> None:
    """The second pass over a slice has to repeat the first one, or its gradient belongs to another loss."""
    batch = sub_document_batch(training_examples(6), SubDocumentSplit(), 0)
    model.passage_encoder.requires_grad_(False)
    model.passage_encoder.eval()
    seen: list[Tensor] = []
    step = CachedStep(model, ViewContrast(LOSS), graph_numbers=300)
    slices = len(step._slices(torch.zeros(len(batch.graphs.token_ids), 1), batch.graphs))
    original = step._encode_slice

    def watched(part: Any) -> Tensor:
        result = original(part)
        seen.append(result.detach().clone())
        return result

    step._encode_slice = watched  # type: ignore[method-assign]
    step(batch)

    # The last slice is kept.
    assert len(seen) == 2 * slices - 1 > 2
    for first, second in zip(seen[: slices - 1], reversed(seen[slices:]), strict=True):
        assert torch.equal(first, second)


def test_a_query_keeps_its_initial_vector(model: DocumentModel, training_examples: Any) -> None:
    model.eval()
    batch = sub_document_batch(training_examples(4), SubDocumentSplit("one_passage"), 0)
    with torch.no_grad():
        vectors = model.encode_passages(batch.graphs)
        documents = model.encode_graphs(vectors, batch.graphs).documents
    assert documents is not None

    torch.testing.assert_close(documents[:4], model.initial_passages(vectors[:4]))
    assert batch.graphs.node_counts[:4] == (1, 1, 1, 1)


def test_vectors_made_before_stand_for_a_frozen_encoder(model: DocumentModel, training_examples: Any) -> None:
    model.passage_encoder.requires_grad_(False)
    model.passage_encoder.eval()
    examples = training_examples(5)
    batch = sub_document_batch(examples, SubDocumentSplit(), 3, graph="section")
    torch.manual_seed(1)
    expected_loss = CachedStep(model, ViewContrast(LOSS))(batch).loss
    expected = gradients(model)
    assert not any("transformer" in name for name in expected)
    vectors = []
    for example in examples:
        padded = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(ids.astype(np.int64)) for ids in example.token_ids], True, 1
        )
        mask = (padded != 1).long()
        with torch.no_grad():
            encoder = model.passage_encoder
            vectors.append(encoder.pool(encoder.tokens(padded, mask), mask).numpy())

    torch.manual_seed(1)
    ready = sub_document_batch(examples, SubDocumentSplit(), 3, graph="section", passage_vectors=vectors)
    loss = CachedStep(model, ViewContrast(LOSS))(ready).loss

    assert ready.tokens == 0
    torch.testing.assert_close(loss, expected_loss)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)


def test_the_graph_and_the_loss_are_in_fp32_under_autocast(model: DocumentModel, training_examples: Any) -> None:
    batch = sub_document_batch(training_examples(5), SubDocumentSplit(), 0)
    step = CachedStep(model, ViewContrast(LOSS), precision="bfloat16", packing=Packing(90))

    loss = step(batch).loss

    assert loss.dtype == torch.float32
    found = gradients(model)
    assert all(gradient.dtype == torch.float32 and torch.isfinite(gradient).all() for gradient in found.values())
    # A cache of weights that were cast without gradient would leave the transformer without any.
    assert sum("transformer" in name for name in found) == sum(
        "transformer" in name for name, _ in model.named_parameters()
    )


def test_spread_tells_a_collapse_from_even_directions() -> None:
    torch.manual_seed(0)
    even = describe_vectors(torch.randn(2_000, 64))
    collapsed = describe_vectors(torch.ones(50, 64) * 3)

    assert even["spread"].item() == pytest.approx(1.0, abs=0.02)
    assert collapsed["spread"].item() == pytest.approx(0.0, abs=1e-6)
    assert collapsed["embedding_norm"].item() == pytest.approx(24.0)
