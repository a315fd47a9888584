"""How central sentences are among others: PageRank over their similarities."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Shares = npt.NDArray[np.float64]


def centrality(similarity: npt.NDArray[np.floating[Any]], *, damping: float = 0.85, rounds: int = 100) -> Shares:
    """PageRank of sentences by their similarities, as TextRank and Match-Ignition take it.

    Args:
        similarity: ``(sentences, sentences)``, not negative, symmetric.
        damping: how much of a sentence's weight comes from the others.
        rounds: rounds of the power iteration, at most.

    Returns:
        ``(sentences,)``, adding up to 1.
    """
    weights = np.array(similarity, np.float64)
    np.fill_diagonal(weights, 0.0)
    sums = weights.sum(axis=0)
    # A sentence that is like no other passes its weight on to all.
    steps = np.where(sums > 0, weights / np.where(sums > 0, sums, 1.0), 1.0 / len(weights))
    ranks = np.full(len(weights), 1.0 / len(weights))
    for _ in range(rounds):
        following = (1 - damping) / len(weights) + damping * (steps @ ranks)
        if np.abs(following - ranks).sum() < 1e-10:
            return np.asarray(following)
        ranks = following
    return ranks
