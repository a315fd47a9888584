"""Cosines between the parts of two documents, and the best of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float64]


def similarity_matrix(a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "cosine") -> Floats:
    """Compare every row of one matrix with every row of another, in double precision.

    Args:
        a: ``(rows of a, hidden)``.
        b: ``(rows of b, hidden)``.
        kind: ``cosine`` or ``dot``.

    Returns:
        ``(rows of a, rows of b)``; the cosine with a row of zeros is 0.

    >>> similarity_matrix([[1, 0], [0, 0]], [[3, 4], [2, 0]])
    array([[0.6, 1. ],
           [0. , 0. ]])
    """
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    products: Floats = left @ right.T
    if kind == "dot":
        return products
    return np.clip(products / similarity_scale(left, right, kind), -1.0, 1.0)


def similarity_of_tensors(a: Tensor, b: Tensor, kind: str = "cosine") -> Tensor:
    """Compare every row of one tensor with every row of another, where they are (see :func:`similarity_matrix`)."""
    left, right = a.float(), b.to(a.device).float()
    products = left @ right.T
    if kind == "dot":
        return products
    scale = torch.outer(left.norm(dim=1), right.norm(dim=1))
    return (products / torch.where(scale > 0, scale, 1.0)).clamp(-1.0, 1.0)


def similarity_scale(a: Floats, b: Floats, kind: str) -> Floats:
    """What dot products are divided by to become similarities, ``(rows of a, rows of b)``."""
    if kind == "dot":
        return np.ones((len(a), len(b)))
    scale: Floats = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    return np.where(scale > 0, scale, 1.0)


def row_cosines(a: npt.ArrayLike, b: npt.ArrayLike) -> Floats:
    """Compare every row of one matrix with the same row of another, in double precision.

    Args:
        a: ``(rows, hidden)``.
        b: ``(rows, hidden)``.

    Returns:
        ``(rows,)``; the cosine with a row of zeros is 0.
    """
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: Floats = (left * right).sum(axis=1) / np.where(lengths > 0, lengths, 1.0)
    return cosines


# As many as search adds up (graphdoc.retrieval.fusion).
BEST_PASSAGES = 3


def best_passages(similarity: Tensor, passage_counts: Tensor, best: int = BEST_PASSAGES) -> Tensor:
    """Mean of the similarities of the best passages of every document; those that it lacks count as 0.

    Args:
        similarity: ``(queries, passages)``, document after document.
        passage_counts: ``(documents,)``.
        best: passages that count.

    Returns:
        ``(queries, documents)``.

    >>> best_passages(torch.tensor([[1.0, 5.0, 3.0, 2.0, 9.0]]), torch.tensor([4, 1]), best=2)
    tensor([[4.0000, 4.5000]])
    """
    most = int(passage_counts.max())
    places = torch.arange(most, device=similarity.device)
    is_there = places < passage_counts.unsqueeze(1)
    starts = passage_counts.cumsum(0) - passage_counts
    columns = torch.where(is_there, starts.unsqueeze(1) + places, 0)
    # (queries, documents, most passages)
    found = similarity[:, columns].masked_fill(~is_there, -torch.inf).topk(min(best, most), dim=2).values
    return found.masked_fill(found == -torch.inf, 0).sum(dim=2) / best
