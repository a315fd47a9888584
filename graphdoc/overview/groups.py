"""Groups of documents: dense parts of the map, joined by those whose nearest documents are in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.cluster import HDBSCAN

from .neighbours import Neighbours, Rows

# How many points around a place say how dense it is.
_SAMPLES = 10
_SMALLEST = 4
# A document joins a group where this share of its nearest documents, at least, is in it.
SHARE = 0.3


def find_groups(points: npt.NDArray[np.float32], near: Neighbours, size: int | None = None) -> list[Rows]:
    """Find groups by HDBSCAN (McInnes and others, 2017) on the map, and let the documents around them join.

    In hundreds of dimensions HDBSCAN finds few groups and leaves most documents out. On the map it finds the cores of
    many, the leaves of its tree. A document outside of all cores joins the group of three of its ten nearest
    documents, round after round until nothing changes. Those that are left lie near none or between several, and stay
    without a group.

    Args:
        points: places of the documents on the map, ``(documents, 2)``.
        near: their nearest documents.
        size: documents that a core has at least; None takes a third of the square root of the number of documents.

    Returns:
        Rows of the documents of every group, the largest group first.
    """
    documents = len(points)
    size = max(_SMALLEST, round(np.sqrt(documents) / 3)) if size is None else size
    if documents < 2 * size:
        return []
    # Copies lie at one place, where HDBSCAN divides by a distance of zero.
    places = points + np.random.default_rng(0).normal(scale=1e-5, size=points.shape)
    found = HDBSCAN(
        min_cluster_size=size,
        min_samples=min(_SAMPLES, size),
        cluster_selection_method="leaf",
        copy=True,
    ).fit_predict(places)
    labels = _joined(np.asarray(found, np.int64), near.rows[:, :10])
    groups = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    return sorted(groups, key=lambda rows: (-len(rows), int(rows[0])))


def _joined(labels: Rows, near: Rows) -> Rows:
    """Groups with the documents that join them, ``(documents,)``; -1 for those in none."""
    needed = SHARE * near.shape[1]
    while True:
        before = labels.copy()
        for row in np.flatnonzero(before < 0):
            groups, votes = np.unique(before[near[row]], return_counts=True)
            votes[groups < 0] = 0
            if votes.max() >= needed:
                labels[row] = groups[votes.argmax()]
        if (labels == before).all():
            return labels
