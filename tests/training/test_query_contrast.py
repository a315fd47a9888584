"""The contrast of queries and documents, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.kinds import JoinedGraphs
from graphdoc.losses import ONE_PROCESS, InfoNCE
from graphdoc.training.objectives import BestPassageContrast, QueryContrast, TrainingBatch, false_negative_mask


def test_answers_their_copies_and_repeats_are_no_negatives() -> None:
    answers = torch.tensor([[7, 3], [5, -1]])
    groups = torch.tensor([7, 5, 9, 3, 9, 5, 2])
    expected = [
        [True, False, False, True, True, True, False],
        [False, True, False, False, True, True, False],
    ]
    assert false_negative_mask(answers, groups).tolist() == expected


# Three pairs of two queries; document 3 answers the first query too, and 4 and 5 are repeats.
QUERY, POSITIVE = np.array([0, 1, 0]), np.array([0, 1, 3])
ANSWERS, GROUPS = np.array([[7, 3], [5, -1], [7, 3]]), np.array([7, 5, 9, 3, 9, 5, 2])
NEGATIVES = {0: [1, 2, 6], 1: [0, 2, 3, 6]}


def batch_of(passages: list[int]) -> TrainingBatch:
    """Two queries, and seven documents of so many passages."""
    sections = [np.zeros(count, np.int64) for count in passages]
    graphs = JoinedGraphs.join([JoinedGraphs.of_queries([0, 0]), JoinedGraphs.of_sections(sections, "full")])
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
def test_the_loss_of_a_batch(similarity: Any, temperature: float) -> None:
    rows = np.random.default_rng(0).normal(size=(2 + 7, 6))
    objective = QueryContrast(InfoNCE(similarity, temperature))
    output = objective.loss(torch.from_numpy(rows), batch_of([1] * 7), ONE_PROCESS)
    queries, documents = (rows[:2], rows[2:]) if similarity == "dot" else (unit(rows[:2]), unit(rows[2:]))
    assert float(output.loss) == pytest.approx(expected_loss(queries @ documents.T / temperature), rel=1e-5)
    # Of seven documents one is the positive of a pair and three or two are neither.
    assert float(output.metrics["left_out_share"]) == pytest.approx((3 + 2 + 3) / 3 / 7)


@pytest.mark.parametrize(("similarity", "temperature"), [("dot", 1.0), ("cosine", 0.05)])
def test_the_loss_of_the_best_passages(similarity: Any, temperature: float) -> None:
    counts = [5, 1, 3, 2, 4, 1, 7]
    rows = np.random.default_rng(1).normal(size=(2 + sum(counts), 6))
    given = torch.from_numpy(rows).requires_grad_()
    output = BestPassageContrast(InfoNCE(similarity, temperature)).loss(given, batch_of(counts), ONE_PROCESS)
    queries, passages = (rows[:2], rows[2:]) if similarity == "dot" else (unit(rows[:2]), unit(rows[2:]))
    parts = np.split(queries @ passages.T, np.cumsum(counts)[:-1], axis=1)
    scores = np.stack([np.sort(part, axis=1)[:, -3:].sum(axis=1) / 3 for part in parts], axis=1)
    assert float(output.loss.detach()) == pytest.approx(expected_loss(scores / temperature), rel=1e-5)
    output.loss.backward()
    assert given.grad is not None
    assert bool(torch.isfinite(given.grad).all())
    # No passage beyond the three best of a document learns from a query, of which there are two.
    touched = np.split((given.grad[2:].abs().sum(dim=1) > 0).numpy(), np.cumsum(counts)[:-1])
    assert all(part.sum() <= 6 for part in touched)
    # The document whose text was there before learns nothing.
    assert not touched[4].any()
