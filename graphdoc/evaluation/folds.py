"""Folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def folds_of(ids: Sequence[str], folds: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Draw folds of as equal size as can be, whatever the order of the ids.

    Args:
        ids: what is divided, each once.
        folds: number of folds.
        seed: of the draw.

    Returns:
        Number of the fold of every id from 0, ``(ids,)``.

    >>> folds_of(["a", "b", "c", "d"], 2).tolist()
    [1, 0, 0, 1]
    """
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
    result = np.empty(len(ids), np.int64)
    result[np.random.default_rng(seed).permutation(order)] = np.arange(len(ids)) % folds
    return result
