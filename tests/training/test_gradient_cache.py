"""Gradient caching at chunk vectors, with CoLDE's parts around them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typed import Patch

from graphdoc.graphs.batch import Packing
from graphdoc.losses import InfoNCELoss, SupervisedContrastiveLoss
from graphdoc.losses.base import ONE_PROCESS
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.recipes.classify import section_batch
from graphdoc.recipes.sub_documents import sub_document_batch
from graphdoc.registry import GRAPH_KINDS
from graphdoc.sampling.sub_documents import DocumentSections, SubDocumentSplit
from graphdoc.training.objectives import SectionObjective, SubDocumentObjective, TrainingBatch, describe_vectors
from graphdoc.training.step import CachedStep, GradientCache

CPU = torch.device("cpu")


@pytest.fixture
def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Dropout(0.4), nn.Linear(12, 5)).double()


def loss_of(vectors: Tensor) -> Tensor:
    half = len(vectors) // 2
    return nn.functional.cross_entropy(vectors[:half] @ vectors[half : 2 * half].T, torch.arange(half))


@pytest.mark.parametrize(("keep", "twice"), [(0, 4), (3, 4), (4, 3), (15, 1), (16, 0)])
def test_the_last_mini_batch_and_those_that_fit_are_encoded_once(network: nn.Module, keep: int, twice: int) -> None:
    passes: list[bool] = []

    def encode(rows: Tensor) -> Tensor:
        passes.append(torch.is_grad_enabled())
        return network(rows)

    cache = GradientCache(encode, torch.randn(20, 6).double().split(4), CPU, keep_activations=keep, size=len)
    loss_of(cache.rows).backward()
    cache.backward()
    assert (passes.count(False), passes.count(True)) == (twice, 5)


@pytest.mark.parametrize("fails", [1, 6])
def test_nothing_stays_of_a_step_that_fails(network: nn.Module, fails: int) -> None:
    """In the first pass, and in the second one: random numbers go on as if nothing had been encoded again."""
    made: list[weakref.ref[Tensor]] = []

    def encode(rows: Tensor) -> Tensor:
        if len(made) == fails:
            torch.rand(3)
            raise RuntimeError("too little memory")
        result = network(rows)
        made.append(weakref.ref(result))
        return result

    def step() -> None:
        cache = GradientCache(encode, torch.randn(20, 6).double().split(4), CPU)
        loss_of(cache.rows).backward()
        states.append(torch.get_rng_state())
        cache.backward()

    states: list[Tensor] = []
    with pytest.raises(RuntimeError, match="too little memory"):
        step()
    gc.collect()
    assert [reference for reference in made if reference() is not None] == []
    assert all(torch.equal(state, torch.get_rng_state()) for state in states)
    assert len(states) == (fails > 5)


@pytest.mark.parametrize("keep", [0, 8])
def test_under_autocast_the_backward_pass_computes_as_the_forward_pass_did(keep: int) -> None:
    first, second = nn.Linear(6, 12), nn.Linear(12, 5)

    def encode(rows: Tensor) -> Tensor:
        hidden = first(rows)
        assert hidden.dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            return torch.matmul(hidden.float().tanh(), second.weight.T)

    def precision() -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16)

    mini_batches = list(torch.randn(20, 6).split(4))
    network = nn.ModuleList([first, second])
    with precision():
        vectors = torch.cat([encode(part) for part in mini_batches])
    loss_of(vectors).backward()
    expected = gradients(network)
    cache = GradientCache(encode, mini_batches, CPU, keep_activations=keep, size=len, precision=precision)
    loss_of(cache.rows).backward()
    cache.backward()
    found = gradients(network)
    # Gradients of weights in bfloat16 are rounded for every mini-batch; the product in fp32 is exact to its rounding.
    torch.testing.assert_close(found["1.weight"], expected["1.weight"], rtol=1e-5, atol=1e-7)
    for name, other in expected.items():
        assert float((found[name] - other).norm()) < 0.02 * float(other.norm())


LOSS = InfoNCELoss("cosine", 0.3, "both")
DROPOUT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.2, "initializer_range": 0.1}


@pytest.fixture
def model(tiny_encoder_config: Callable[..., Any]) -> DocumentModel:
    """A tiny model with dropout everywhere, ready to train."""
    encoder = tiny_encoder_config("roberta", **DROPOUT)
    return DocumentModel(DocumentConfig(encoder_config=encoder, projection_size=16, readout="attention")).train()


def plain_loss(model: DocumentModel, batch: TrainingBatch, loss: InfoNCELoss, budget: int | None) -> Tensor:
    """The loss by plain autograd: everything held at once."""
    documents = model.encode_graphs(model.encode_passages(batch.graphs, Packing(budget)), batch.graphs).documents
    assert documents is not None
    anchors, candidates = (documents[batch.roles[role]] for role in ("anchor", "candidate"))
    return loss(anchors, candidates, batch.targets["group"]).loss


def gradients(model: nn.Module) -> dict[str, Tensor]:
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
    output = CachedStep(model, SubDocumentObjective(LOSS), packing=Packing(budget))(batch)

    assert output.loss.item() == pytest.approx(expected_loss.item(), rel=1e-6)
    assert_equal_gradients(gradients(model), expected)


@pytest.mark.parametrize(("graph_numbers", "split"), [(1, "half"), (300, "one_passage"), (600, "half")])
def test_graphs_in_slices_change_nothing_but_random_numbers(
    model: DocumentModel, training_examples: Any, graph_numbers: int, split: str, monkeypatch: Patch
) -> None:
    # In double precision, since sums in another order are rounded otherwise.
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    model.double()
    # Dropout in the graphs draws for every slice; without it the gradient is the same.
    for layer in model.graph.layers:
        layer.dropout = 0.0
    batch = sub_document_batch(training_examples(6), SubDocumentSplit(split), 0, graph="section")  # type: ignore[arg-type]
    step = CachedStep(model, SubDocumentObjective(LOSS), packing=Packing(80), graph_numbers=graph_numbers)
    assert len(step._slices(torch.zeros(len(batch.graphs.token_ids), 1), batch.graphs)) > 1
    torch.manual_seed(5)
    CachedStep(model, SubDocumentObjective(LOSS), packing=Packing(80))(batch)
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
    step = CachedStep(model, SubDocumentObjective(LOSS), graph_numbers=300)
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


def test_vectors_made_before_stand_for_a_frozen_encoder(model: DocumentModel, training_examples: Any) -> None:
    model.passage_encoder.requires_grad_(False)
    model.passage_encoder.eval()
    examples = training_examples(5)
    batch = sub_document_batch(examples, SubDocumentSplit(), 3, graph="section")
    torch.manual_seed(1)
    expected_loss = CachedStep(model, SubDocumentObjective(LOSS))(batch).loss
    expected = gradients(model)
    assert not any("transformer" in name for name in expected)
    vectors = []
    for example in examples:
        alone = sub_document_batch([example, example], SubDocumentSplit("one_passage"), 0).graphs
        with torch.no_grad():
            own = dict(zip(map(tuple, alone.token_ids), model.encode_passages(alone), strict=True))
        vectors.append(torch.stack([own[tuple(ids)] for ids in example.token_ids]).numpy())

    torch.manual_seed(1)
    ready = sub_document_batch(examples, SubDocumentSplit(), 3, graph="section", passage_vectors=vectors)
    loss = CachedStep(model, SubDocumentObjective(LOSS))(ready).loss

    assert ready.tokens == 0
    torch.testing.assert_close(loss, expected_loss)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)


def test_the_graph_and_the_loss_are_in_fp32_under_autocast(model: DocumentModel, training_examples: Any) -> None:
    batch = sub_document_batch(training_examples(5), SubDocumentSplit(), 0)
    step = CachedStep(model, SubDocumentObjective(LOSS), precision="bfloat16", packing=Packing(90))

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


@pytest.mark.parametrize(
    ("settings", "budget"),
    [
        ({"graph_layers": 0}, 41),
        ({"graph_layers": 1}, 97),
        ({"graph_layers": 1, "readout_settings": {"section_aggregation": "mean", "section_projection_size": 8}}, 10**5),
    ],
)
def test_gradients_of_sections_are_those_of_plain_autograd(
    tiny_encoder_config: Callable[..., Any], training_examples: Any, settings: dict[str, Any], budget: int
) -> None:
    """CoLDE's parts lie below the passage vectors (structural embeddings) and above them."""
    encoder = tiny_encoder_config("bert", **DROPOUT)
    own = {"section_lstm_size": 12, "section_projection_size": 8}
    colde = {"projection_size": None, "readout": "sections", "readout_settings": own}
    config = DocumentConfig(encoder_config=encoder, structural_embeddings=True, **{**colde, **settings})
    model, objective = DocumentModel(config).train(), SectionObjective(SupervisedContrastiveLoss(0.5))
    for table in model.structural_embeddings.parameters():  # type: ignore[union-attr]
        torch.nn.init.normal_(table, std=0.2)
    batch = section_batch(training_examples(7), DocumentSections(3), 0, {"group": torch.arange(7) % 2}, graph="section")
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
    # The tables learn also where the encoder is frozen.
    model.passage_encoder.requires_grad_(False).eval()
    CachedStep(model, objective, packing=Packing(80))(batch)
    found = gradients(model)
    assert not any("transformer" in name for name in found)
    assert float(found["structural_embeddings.sections"].abs().max()) > 0
