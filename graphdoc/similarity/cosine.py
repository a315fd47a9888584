"""Cosine and dot products between the rows of two matrices."""

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
