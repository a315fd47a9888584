"""K-means fitted on train vectors and applied to test (Graph-RoBERTa, section 3.2, table 1)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from ..errors import EvaluationError
from .labels import require_labels

STARTS = 10


@dataclass(frozen=True, slots=True)
class SeedScores:
    """A metric over several seeds.

    Args:
        values: one value per seed, in the order of the seeds.
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values))

    @property
    def std(self) -> float:
        """The standard deviation of the sample (divided by seeds - 1); 0 for a single seed."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def min(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def max(self) -> float:
        """The largest value."""
        return max(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Mean, spread and values as plain values for JSON."""
        return {"mean": self.mean, "std": self.std, "min": self.min, "max": self.max, "values": list(self.values)}


@dataclass(frozen=True, slots=True)
class ClusteringScores:
    """How well clusters fit labels, over several seeds of k-means.

    Args:
        nmi: normalised mutual information, divided by the arithmetic mean of both entropies.
        purity: share of documents that have the most frequent label of their cluster.
        clusters: number of clusters.
        seeds: the seeds.
    """

    nmi: SeedScores
    purity: SeedScores
    clusters: int
    seeds: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            "nmi": self.nmi.to_dict(),
            "purity": self.purity.to_dict(),
            "clusters": self.clusters,
            "seeds": list(self.seeds),
        }


def purity(truth: Sequence[Any] | npt.NDArray[Any], clusters: Sequence[Any] | npt.NDArray[Any]) -> float:
    """Share of documents that have the most frequent label of their cluster.

    Args:
        truth: labels, ``(documents,)``.
        clusters: clusters, ``(documents,)``.

    Raises:
        EvaluationError: there is no document.

    >>> purity(["sea", "sea", "land"], [0, 0, 0])
    0.6666666666666666
    """
    if len(truth) == 0:
        raise EvaluationError("there are no documents to measure purity on; give at least one")
    return float(contingency_matrix(truth, clusters).max(axis=0).sum() / len(truth))


def cluster(
    train_vectors: npt.NDArray[Any],
    test_vectors: npt.NDArray[Any],
    test_labels: Sequence[Any],
    clusters: int,
    seeds: Sequence[int] = range(5),
) -> ClusteringScores:
    """Fit k-means on train vectors and measure its clusters on test vectors, once per seed.

    K-means goes by Euclidean distance, so that vectors of a model that compares by cosine are to be brought to unit
    length first, as :class:`~graphdoc.evaluation.ClusteringEvaluator` does.

    Args:
        train_vectors: ``(train documents, hidden)``; their labels play no part.
        test_vectors: ``(test documents, hidden)``.
        test_labels: ``(test documents,)``.
        clusters: number of clusters, usually that of the labels.
        seeds: seeds of k-means; each run is the best of ten starts by its own criterion.

    Raises:
        EvaluationError: there are fewer train documents than clusters, or fewer than two labels in test.

    >>> near, far = np.zeros((4, 2)), np.ones((4, 2))
    >>> vectors = np.concatenate([near, far]) + np.arange(16).reshape(8, 2) / 100
    >>> cluster(vectors, vectors, ["a"] * 4 + ["b"] * 4, clusters=2, seeds=[0]).nmi.mean
    1.0
    """
    if not len(seeds):
        raise EvaluationError("there is no seed to run k-means with; give at least one")
    require_clusters(clusters, len(train_vectors))
    require_labels(test_labels, "test")
    nmi, pure = [], []
    for found in clusters_of(train_vectors, test_vectors, clusters, seeds):
        # Rounding may carry a perfect score just above 1.
        nmi.append(min(1.0, float(normalized_mutual_info_score(test_labels, found))))
        pure.append(purity(test_labels, found))
    return ClusteringScores(SeedScores(tuple(nmi)), SeedScores(tuple(pure)), clusters, tuple(seeds))


def clusters_of(
    train_vectors: Any, test_vectors: Any, clusters: int, seeds: Sequence[int], *, starts: int = STARTS
) -> list[npt.NDArray[np.int64]]:
    """The clusters of test documents by k-means that is fitted on train, once per seed.

    Args:
        train_vectors: ``(train documents, hidden)``, dense or sparse.
        test_vectors: ``(test documents, hidden)``.
        clusters: number of clusters.
        seeds: seeds of k-means.
        starts: of so many starts of a seed the best by its own criterion is taken.

    Returns:
        ``(test documents,)`` for every seed.
    """
    found = []
    for seed in seeds:
        with warnings.catch_warnings():
            # Vectors that fell together in training give fewer clusters; their scores show it.
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = KMeans(clusters, n_init=starts, random_state=seed).fit(train_vectors)
            found.append(np.asarray(fitted.predict(test_vectors), np.int64))
    return found


def require_clusters(clusters: int, documents: int) -> None:
    """Refuse more clusters than documents.

    Raises:
        EvaluationError: k-means cannot make so many clusters.
    """
    if not 1 <= clusters <= documents:
        raise EvaluationError(
            f"k-means cannot make {clusters} clusters of {documents} train documents; give more documents or fewer "
            "clusters"
        )
