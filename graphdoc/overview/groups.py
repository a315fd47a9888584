"""Groups of documents that lie together on the map."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.cluster import HDBSCAN

from .neighbours import Rows


def find_groups(
    vectors: npt.NDArray[np.float32], points: npt.NDArray[np.float32], size: int | None, seed: int
) -> list[Rows]:
    documents = len(points)
    size = size or max(5, round(documents / 100))
    if documents < 2 * size:
        return []
    labels = HDBSCAN(min_cluster_size=size, min_samples=5, cluster_selection_method="leaf", copy=True).fit_predict(points)
    groups = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
    return sorted(groups, key=lambda rows: (-len(rows), int(rows[0])))
