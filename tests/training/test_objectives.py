"""The contrast of queries and documents, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from test_gradient_cache import DROPOUT, assert_equal_gradients, gradients

from graphdoc.graphs.batch import GraphBatch, Packing
from graphdoc.graphs.kinds import JoinedGraphs
from graphdoc.losses import InfoNCELoss, MaskedTokenLoss, PairCosineLoss
from graphdoc.losses.base import ONE_PROCESS
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.modeling.heads import NewHead
from graphdoc.recipes.sentence_pairs import sentence_pair_batch
from graphdoc.sampling.sentence_pairs import MaskedSentence
from graphdoc.training.objectives import BestPassageObjective, QueryObjective, SentencePairObjective, TrainingBatch
from graphdoc.training.step import CachedStep

# Three pairs of two queries; document 3 answers the first query too, and 4 and 5 are repeats.
QUERY, POSITIVE = np.array([0, 1, 0]), np.array([0, 1, 3])
ANSWERS, GROUPS = np.array([[7, 3], [5, -1], [7, 3]]), np.array([7, 5, 9, 3, 9, 5, 2])
NEGATIVES = {0: [1, 2, 6], 1: [0, 2, 3, 6]}


def query_batch(passages: list[int]) -> TrainingBatch:
    """Two queries, and seven documents of so many passages."""
    sections = [np.zeros(count, np.int64) for count in passages]
    graphs = JoinedGraphs.join([JoinedGraphs.from_queries([0, 0]), JoinedGraphs.from_sections(sections, "full")])
    tokens = tuple(np.zeros(3, np.int32) for _ in range(2 + sum(passages)))
    targets = {"positive": POSITIVE, "group": GROUPS, "answers": ANSWERS}
    return TrainingBatch(
        GraphBatch.from_graphs(graphs, tokens),
        tuple("abcdefg"),
        {name: torch.from_numpy(value) for name, value in targets.items()},
        {"query": torch.from_numpy(QUERY), "candidate": slice(2, None)},
    )


def expected_loss(scores: Any) -> float:
    """The loss of scores ``(queries, documents)`` that were divided by the temperature."""
    losses = []
    for query, positive in zip(QUERY.tolist(), POSITIVE.tolist(), strict=True):
        negatives = np.exp(scores[query, NEGATIVES[query]]).sum()
        losses.append(np.log(np.exp(scores[query, positive]) + negatives) - scores[query, positive])
    return float(np.mean(losses))


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("similarity", "temperature"), [("dot", 1.0), ("cosine", 0.05)])
def test_the_loss_of_a_batch_and_of_its_best_passages(similarity: Any, temperature: float) -> None:
    counts, loss = [5, 1, 3, 2, 4, 1, 7], InfoNCELoss(similarity, temperature)
    rows = np.random.default_rng(1).normal(size=(2 + sum(counts), 6))
    given = torch.from_numpy(rows).requires_grad_()
    queries, passages = (rows[:2], rows[2:]) if similarity == "dot" else (unit(rows[:2]), unit(rows[2:]))
    scores = queries @ passages.T / temperature
    output = QueryObjective(loss).loss(given[:9], query_batch([1] * 7), ONE_PROCESS)
    assert float(output.loss.detach()) == pytest.approx(expected_loss(scores[:, :7]), rel=1e-5)
    # Of seven documents one is the positive of a pair and three or two are neither.
    assert float(output.metrics["left_out_share"]) == pytest.approx((3 + 2 + 3) / 3 / 7)
    output = BestPassageObjective(loss).loss(given, query_batch(counts), ONE_PROCESS)
    parts = np.split(scores, np.cumsum(counts)[:-1], axis=1)
    scores = np.stack([np.sort(part, axis=1)[:, -3:].sum(axis=1) / 3 for part in parts], axis=1)
    assert float(output.loss.detach()) == pytest.approx(expected_loss(scores), rel=1e-5)
    output.loss.backward()
    assert given.grad is not None
    assert bool(torch.isfinite(given.grad).all())
    # No passage beyond the three best of a document learns from a query, of which there are two.
    touched = np.split((given.grad[2:].abs().sum(dim=1) > 0).numpy(), np.cumsum(counts)[:-1])
    assert all(part.sum() <= 6 for part in touched)
    # The document whose text was there before learns nothing.
    assert not touched[4].any()


MASK = 3
LABELS = [1, 0, 0, 1, 0, 1, 1]


@pytest.fixture
def model(tiny_encoder_config: Callable[..., Any]) -> DocumentModel:
    """A tiny model with dropout, ready to train, and a head."""
    config = tiny_encoder_config("roberta", **DROPOUT)
    model = DocumentModel(DocumentConfig(encoder_config=config, pooling="mean", projection_size=16, readout="mean"))
    model.training_parts["language_model"] = NewHead(model.passage_encoder.transformer)
    return model.train()


def masked_by_hand(ids: np.ndarray[Any, Any], number: int) -> MaskedSentence:
    """Every fourth token is masked, but for one sentence."""
    places = np.arange(1 + number % 3, len(ids) - 1, 4) if number != 2 else np.empty(0, np.int64)
    changed = ids.copy()
    changed[places] = MASK
    return MaskedSentence(changed, places, ids[places].astype(np.int64))


@pytest.fixture
def batch_of(training_examples: Any) -> Callable[..., TrainingBatch]:
    """Makes a batch of sentence pairs: ``batch_of(masked=True, clean=False)``."""
    found = [replace(one, token_ids=one.token_ids[:1]) for one in training_examples(14)]
    pairs = list(zip(found[:7], found[7:], strict=True))
    masks = [
        [masked_by_hand(one.token_ids[0], 2 * number + side) for side, one in enumerate(pair)]
        for number, pair in enumerate(pairs)
    ]

    def make(*, masked: bool = True, clean: bool = False) -> TrainingBatch:
        return sentence_pair_batch(pairs, LABELS, masks if masked else None, clean=clean)

    return make


def objective_of(model: DocumentModel, **changes: Any) -> SentencePairObjective:
    values = {"criterion": PairCosineLoss(-0.2), "contrast_weight": 0.7, "tokens": MaskedTokenLoss(0.4)}
    return SentencePairObjective(**{**values, "head": model.training_parts["language_model"], **changes})


def by_hand(model: DocumentModel, batch: TrainingBatch, packing: Packing) -> tuple[torch.Tensor, torch.Tensor]:
    """Both terms of equation 3 by plain autograd, sentence by sentence, with all activations held at once."""
    vectors: dict[int, torch.Tensor] = {}
    losses = []
    asked = zip(batch.targets["masked_positions"].tolist(), batch.targets["masked_tokens"].tolist(), strict=True)
    wanted = {(row, place): token for (row, place), token in asked}
    for mini_batch in model.mini_batches(batch.graphs, packing):
        hidden = model.passage_encoder.tokens(mini_batch.input_ids, mini_batch.attention_mask)
        logits = model.training_parts["language_model"](hidden.flatten(0, 1)).view(*hidden.shape[:2], -1)
        for number, row in enumerate(mini_batch.passage_order.tolist()):
            length = int(mini_batch.attention_mask[number].sum())
            vectors[row] = torch.tanh(model.projection(hidden[number, :length].mean(dim=0)))
            losses += [
                -logits[number, place].log_softmax(dim=0)[wanted[row, place]]
                for place in range(length)
                if (row, place) in wanted
            ]
    assert len(losses) == len(wanted) > 20
    pairs = len(LABELS)
    cosines = [torch.cosine_similarity(vectors[row], vectors[row + pairs], dim=0) for row in range(pairs)]
    labelled = zip(cosines, LABELS, strict=True)
    terms = [1 - cosine if label else (cosine + 0.2).clamp(min=0) for cosine, label in labelled]
    return torch.stack(terms).mean(), torch.stack(losses).mean()


@pytest.mark.parametrize(
    ("clean", "budget", "keep", "scale"), [(False, 41, 0, 1.0), (True, 97, 300, 8.0), (True, 100_000, 0, 1.0)]
)
def test_gradients_are_those_of_plain_autograd_under_dropout(
    model: DocumentModel, batch_of: Callable[..., TrainingBatch], clean: bool, budget: int, keep: int, scale: float
) -> None:
    batch, packing = batch_of(clean=clean), Packing(budget)
    assert len(batch.graphs.token_ids) == (28 if clean else 14)
    torch.manual_seed(5)
    contrast, tokens = by_hand(model, batch, packing)
    (scale * (0.7 * contrast + 0.4 * tokens)).backward()
    contrast, tokens = contrast.detach(), tokens.detach()
    expected = gradients(model)
    assert float(expected["training_parts.language_model.dense.weight"].norm()) > 1e-3
    assert float(expected["projection.weight"].norm()) > 1e-3

    torch.manual_seed(5)
    step = CachedStep(model, objective_of(model), packing=packing, keep_activations=keep)
    # As float16 needs it; the loss itself is not scaled.
    step.scale = scale
    output = step(batch)

    found = {name: gradient for name, gradient in gradients(model).items() if name in expected or gradient.any()}
    assert_equal_gradients(found, expected)
    assert output.loss.item() == pytest.approx(float(0.7 * contrast + 0.4 * tokens), rel=1e-5)
    assert output.metrics["contrast_loss"].item() == pytest.approx(float(contrast), rel=1e-5)
    assert output.metrics["masked_loss"].item() == pytest.approx(float(tokens), rel=1e-5)


def test_pairs_as_they_are_do_not_depend_on_masks(model: DocumentModel, batch_of: Callable[..., TrainingBatch]) -> None:
    model.eval()
    step = CachedStep(model, objective_of(model), packing=Packing(97))
    both, masked = step.measure(batch_of(clean=True)), step.measure(batch_of())
    alone = CachedStep(model, objective_of(model, head=None)).measure(batch_of(masked=False, clean=True))
    assert both.metrics["contrast_loss"].item() == pytest.approx(alone.metrics["contrast_loss"].item(), rel=1e-5)
    assert alone.loss.item() == pytest.approx(0.7 * alone.metrics["contrast_loss"].item(), rel=1e-6)
    assert "masked_loss" not in alone.metrics
    assert masked.metrics["contrast_loss"].item() != pytest.approx(alone.metrics["contrast_loss"].item(), rel=1e-3)
    assert both.metrics["masked_loss"].item() == pytest.approx(masked.metrics["masked_loss"].item(), rel=1e-5)
