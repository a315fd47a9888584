"""The contrast of queries and documents, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.joined_graphs import JoinedGraphs
from graphdoc.losses import ONE_PROCESS, InfoNCE
from graphdoc.training.batch import TrainingBatch
from graphdoc.training.objectives import QueryContrast, no_negatives


def test_answers_their_copies_and_repeats_are_no_negatives() -> None:
    answers = torch.tensor([[7, 3], [5, -1]])
    groups = torch.tensor([7, 5, 9, 3, 9, 5, 2])
    expected = [
        [True, False, False, True, True, True, False],
        [False, True, False, False, True, True, False],
    ]
    assert no_negatives(answers, groups).tolist() == expected


@pytest.mark.parametrize(("similarity", "temperature"), [("dot", 1.0), ("cosine", 0.05)])
def test_the_loss_of_a_batch(similarity: str, temperature: float) -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(2 + 7, 6))
    # Three pairs of two queries; document 3 answers the first query too, and 4 and 5 are repeats.
    query, positive = np.array([0, 1, 0]), np.array([0, 1, 3])
    answers, groups = np.array([[7, 3], [5, -1], [7, 3]]), np.array([7, 5, 9, 3, 9, 5, 2])
    nodes = GraphBatch.from_graphs(JoinedGraphs.of_queries([0] * 9), tuple(np.zeros(3, np.int32) for _ in range(9)))
    batch = TrainingBatch(
        nodes,
        tuple("abcdefg"),
        {"positive": torch.from_numpy(positive), "group": torch.from_numpy(groups),
         "answers": torch.from_numpy(answers)},
        {"query": torch.from_numpy(query), "candidate": slice(2, None)},
    )  # fmt: skip
    objective = QueryContrast(InfoNCE(similarity, temperature))  # type: ignore[arg-type]
    output = objective.loss(torch.from_numpy(rows), batch, ONE_PROCESS)

    queries, documents = rows[:2], rows[2:]
    if similarity == "cosine":
        queries, documents = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (queries, documents))
    scores = queries @ documents.T / temperature
    negatives = {0: [1, 2, 6], 1: [0, 2, 3, 6]}
    losses = []
    for q, p in zip(query, positive, strict=True):
        total = np.exp(scores[q, p]) + sum(np.exp(scores[q, n]) for n in negatives[int(q)])
        losses.append(np.log(total) - scores[q, p])
    assert float(output.loss) == pytest.approx(np.mean(losses), rel=1e-5)
    # Of seven documents one is the positive of a pair and three or two are neither.
    assert float(output.metrics["left_out_share"]) == pytest.approx((3 + 2 + 3) / 3 / 7)
