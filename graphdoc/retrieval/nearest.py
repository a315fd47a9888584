"""The documents whose vectors are nearest to those of queries, below a score: exact, in blocks of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

# Documents that are compared with some queries at once.
_BLOCK = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Candidates of a query that are neither its positives nor too close to the best of them.

    Args:
        rows: places of the documents, best first, those of equal score by id, ``(candidates,)``.
        scores: ``(candidates,)``, falling.
        positives: scores of the positives, ``(positives,)``; minus infinity for those that were not found.
        close: how many documents were left out because their score is above the limit.
        close_rows: their places, where they are known.
    """

    rows: Rows
    scores: Floats
    positives: Floats
    close: int
    close_rows: frozenset[int] = frozenset()


def nearest(
    queries: Vectors,
    documents: Vectors,
    positives: Sequence[Rows],
    order: Rows,
    most: int,
    limit: Callable[[float], float],
    similarity: str = "cosine",
    device: torch.device | str = "cpu",
    *,
    left_out: Sequence[Rows] | None = None,
    block: int = _BLOCK,
) -> list[Pool]:
    """Find the nearest documents of every query among those whose score is not above a limit.

    Args:
        queries: ``(queries, hidden)``.
        documents: ``(documents, hidden)``; memory is needed for a block of them, where they are mapped.
        positives: places of the documents that answer each query, one at least.
        order: ``(documents,)``, by which documents of equal score are put in order.
        most: how many.
        limit: gives the highest score that is wanted, of the score of the best positive.
        similarity: ``cosine`` or ``dot``.
        device: where they are compared.
        left_out: places of further documents by query that are not looked for, nor counted.
        block: documents that are compared at once.
    """
    asked = as_compared(queries, similarity, device)
    answers = [scores_of(one, documents, rows, similarity) for one, rows in zip(asked, positives, strict=True)]
    limits = torch.tensor([limit(float(own.max())) for own in answers], dtype=torch.float32, device=device)
    hidden = [np.concatenate(some) for some in zip(positives, left_out or positives, strict=True)]
    numbers = torch.from_numpy(np.repeat(np.arange(len(queries)), [len(rows) for rows in hidden]))
    unwanted = torch.from_numpy(np.concatenate(hidden))
    places = torch.from_numpy(np.ascontiguousarray(order)).to(device)
    scores = torch.empty((len(queries), 0), device=device)
    rows = torch.empty((len(queries), 0), dtype=torch.int64, device=device)
    close = torch.zeros(len(queries), dtype=torch.int64, device=device)
    for start in range(0, len(documents), block):
        found = asked @ as_compared(documents[start : start + block], similarity, device).T
        here = (unwanted >= start) & (unwanted < start + block)
        found[numbers[here].to(device), (unwanted[here] - start).to(device)] = -torch.inf
        is_close = found > limits[:, None]
        close += is_close.sum(dim=1)
        found[is_close] = -torch.inf
        new = _best(found, places[start : start + block], most)
        scores, rows = torch.cat([scores, found.gather(1, new)], dim=1), torch.cat([rows, new + start], dim=1)
        chosen = _in_order(scores, places[rows])[:, :most]
        scores, rows = scores.gather(1, chosen), rows.gather(1, chosen)
    return [
        Pool(own_rows[is_there], own_scores[is_there].astype(np.float64), own_answers, count)
        for own_rows, own_scores, own_answers, count in zip(
            rows.cpu().numpy(), scores.cpu().numpy(), answers, close.tolist(), strict=True
        )
        for is_there in [own_scores > -np.inf]
    ]


def as_compared(vectors: Vectors, similarity: str, device: torch.device | str = "cpu") -> Tensor:
    """Vectors whose dot products are similarities, ``(rows, hidden)``."""
    found = torch.from_numpy(np.array(vectors, np.float32)).to(device)
    return normalize(found, dim=-1) if similarity == "cosine" else found


def scores_of(query: Tensor, documents: Vectors, rows: Rows, similarity: str) -> Floats:
    """Scores of some documents for a query, ``(rows,)``.

    Args:
        query: ``(hidden,)``, as :func:`as_compared` gives it.
        documents: ``(documents, hidden)``.
        rows: places of the documents.
        similarity: ``cosine`` or ``dot``.
    """
    found = as_compared(documents[rows], similarity, query.device) @ query
    return found.cpu().numpy().astype(np.float64)


def _best(scores: Tensor, places: Tensor, most: int) -> Tensor:
    """Columns of the best scores of every row, those of equal score by their places, ``(rows, most)``."""
    width = scores.shape[1]
    if most >= width:
        return torch.arange(width, device=scores.device).expand(len(scores), -1)
    values, columns = scores.topk(most, dim=1)
    last = values[:, -1:]
    # Which of several equal scores are among the best, topk leaves to chance.
    is_tied = ((scores >= last).sum(dim=1) > most) & (last[:, 0] > -torch.inf)
    for row in is_tied.nonzero()[:, 0].tolist():
        rivals = (scores[row] >= last[row]).nonzero()[:, 0]
        columns[row] = rivals[_in_order(scores[row, rivals][None], places[rivals][None])[0, :most]]
    return columns


def _in_order(scores: Tensor, places: Tensor) -> Tensor:
    """Columns of every row by falling score, those of equal score by their places."""
    by_place = places.argsort(dim=1, stable=True)
    by_score = scores.gather(1, by_place).argsort(dim=1, descending=True, stable=True)
    return by_place.gather(1, by_score)
