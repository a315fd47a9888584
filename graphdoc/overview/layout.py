"""Documents as points of a map: neighbours next to each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..analysis.projection import project

# The golden angle, by which points on a spiral keep apart.
_TURN = np.pi * (3 - np.sqrt(5))
# Vectors that differ by less are alike but for rounding.
_ALIKE = 1e-6


def lay_out(vectors: npt.NDArray[np.float32], seed: int = 0) -> npt.NDArray[np.float32]:
    """Give every document a place on a map, by t-SNE.

    Two documents, and documents that are all alike, have no neighbourhoods: they are put on a spiral.

    Args:
        vectors: ``(documents, hidden)``, of unit length.
        seed: of t-SNE.

    Returns:
        ``(documents, 2)``, from -1 to 1 in the longer direction and with the middle at 0.
    """
    documents = len(vectors)
    if documents < 3 or are_alike(vectors):
        places = np.arange(documents) + 0.5
        points = np.stack([np.cos(places * _TURN), np.sin(places * _TURN)], axis=1) * np.sqrt(places)[:, None]
    else:
        points = project(vectors, seed).astype(np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    points = (points - (low + high) / 2) / (float((high - low).max()) / 2 or 1.0)
    return np.asarray(points, np.float32)


def are_alike(vectors: npt.NDArray[np.float32]) -> bool:
    """Whether all vectors are the same but for rounding."""
    return float(np.ptp(vectors, axis=0).max()) < _ALIKE
