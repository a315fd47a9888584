"""Measures of one way to make vectors with their resamples, so that two ways can be told apart on the same documents.

All resamples of as many documents, pairs or queries are the same ones (see :mod:`graphdoc.evaluation.bootstrap`), so
that the difference of two ways is taken resample by resample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.preprocessing import normalize

from .bootstrap import Estimate, interval, resampled, resampled_means
from .clustering_scores import clusters_of
from .pair_scores import pair_auc

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Verdict = Literal["better", "worse", "no difference"]

NEIGHBOURS = 10
# Similarities of test and train documents that are held at once.
_BLOCK = 2**24


@dataclass(frozen=True, eq=False)
class Resampling:
    """How often documents, pairs or queries are drawn anew.

    Args:
        resamples: number of resamples; 0 for none.
        seed: draws them.
    """

    resamples: int
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Outcome:
    """A measure of one way.

    Args:
        value: the measure.
        samples: the same over resamples, ``(resamples,)``.
        count: number of documents, pairs or queries that it is of.
    """

    value: float
    samples: Floats
    count: int

    @property
    def estimate(self) -> Estimate:
        """The measure with the middle 95 % of its resamples."""
        return Estimate(self.value, interval(self.samples))

    def ahead_of(self, other: Outcome) -> Estimate:
        """By how much this is more than another outcome on the same documents, pairs or queries."""
        return Estimate(self.value - other.value, interval(self.samples - other.samples))


def verdict_of(difference: Estimate) -> Verdict:
    """What a difference says: ``better`` or ``worse`` where its whole interval is above or below 0.

    >>> verdict_of(Estimate(0.02, (0.01, 0.03))), verdict_of(Estimate(0.02, (-0.01, 0.05)))
    ('better', 'no difference')
    """
    if difference.interval is None:
        return "no difference"
    low, high = difference.interval
    return "better" if low > 0 else "worse" if high < 0 else "no difference"


def cluster_outcomes(
    train: Any, test: Any, labels: Sequence[str], clusters: int, seeds: Sequence[int], resampling: Resampling
) -> dict[str, Outcome]:
    """NMI and purity of k-means on train, applied to test: means over seeds of one start each.

    Args:
        train: ``(train documents, hidden)``, dense or sparse.
        test: ``(test documents, hidden)``.
        labels: ``(test documents,)``.
        clusters: number of clusters.
        seeds: seeds of k-means.
        resampling: how test documents are resampled; the clusters stay.
    """
    found = clusters_of(train, test, clusters, seeds, starts=1)
    _, truth = np.unique(np.asarray(labels), return_inverse=True)
    cells = [truth * clusters + one for one in found]
    shape = int(truth.max()) + 1, clusters

    def measured(weights: Whole | None) -> tuple[float, float]:
        tables = np.stack([np.bincount(one, weights, shape[0] * clusters).reshape(shape) for one in cells])
        return float(mutual_information(tables).mean()), float((tables.max(axis=1).sum(axis=1) / len(truth)).mean())

    values = measured(None)
    drawn = [measured(weights) for weights in resampled(len(truth), resampling.resamples, resampling.seed)]
    samples = np.array(drawn).reshape(-1, 2).T
    names = ("NMI", "purity")
    return {
        name: Outcome(*both, len(truth)) for name, both in zip(names, zip(values, samples, strict=True), strict=True)
    }


def mutual_information(tables: npt.NDArray[Any]) -> Floats:
    """Normalised mutual information of labels and clusters, divided by the arithmetic mean of both entropies.

    Args:
        tables: ``(..., labels, clusters)``, how many documents have a label and a cluster.

    Returns:
        ``(...)``; 1 where all documents have one label and one cluster.
    """
    shares = tables / tables.sum(axis=(-2, -1), keepdims=True)
    of_labels, of_clusters = _entropy(shares.sum(axis=-1)), _entropy(shares.sum(axis=-2))
    both = _entropy(shares.reshape(*shares.shape[:-2], -1))
    total = of_labels + of_clusters
    known = np.where(total > 0, total, 1.0)
    return np.asarray(np.where(total > 0, np.clip(2 * (total - both) / known, 0, 1), 1.0))


def _entropy(shares: npt.NDArray[Any]) -> Floats:
    logarithms = np.log(np.where(shares > 0, shares, 1.0))
    return np.asarray(-(shares * logarithms).sum(axis=-1))


def neighbour_outcome(
    train: Any,
    train_labels: Sequence[str],
    test: Any,
    test_labels: Sequence[str],
    resampling: Resampling,
    neighbours: int = NEIGHBOURS,
) -> Outcome:
    """Accuracy of the most frequent label among the nearest train documents, by cosine.

    Of labels that are as frequent, that of the nearer documents is taken (the sum of their cosines).

    Args:
        train: ``(train documents, hidden)``, dense or sparse.
        train_labels: ``(train documents,)``.
        test: ``(test documents, hidden)``.
        test_labels: ``(test documents,)``.
        resampling: how test documents are resampled.
        neighbours: number of nearest documents; all of them where there are fewer.
    """
    names, truth = np.unique(np.asarray(train_labels), return_inverse=True)
    train, test = normalize(train), normalize(test)
    neighbours = min(neighbours, train.shape[0])
    right = np.empty(test.shape[0])
    step = max(1, _BLOCK // max(1, train.shape[0]))
    for start in range(0, test.shape[0], step):
        cosines = test[start : start + step] @ train.T
        cosines = cosines.toarray() if sparse.issparse(cosines) else np.asarray(cosines)
        nearest = np.argpartition(-cosines, neighbours - 1, axis=1)[:, :neighbours]
        for row, places in enumerate(nearest):
            votes = np.bincount(truth[places], minlength=len(names))
            nearness = np.bincount(truth[places], cosines[row, places], len(names))
            best = np.lexsort((nearness, votes))[-1]
            right[start + row] = names[best] == test_labels[start + row]
    return mean_outcome(right, resampling)


def pair_outcome(labels: Sequence[int], similarities: npt.ArrayLike, resampling: Resampling) -> Outcome:
    """Area under the ROC curve of similarities of pairs.

    Args:
        labels: ``(pairs,)``, 1 for pairs that belong together, else 0.
        similarities: ``(pairs,)``.
        resampling: how pairs are resampled.
    """
    truth, scores = np.asarray(labels) == 1, np.asarray(similarities, np.float64)
    _, ranks = np.unique(scores, return_inverse=True)
    samples = [
        _weighted_auc(truth, ranks, one) for one in resampled(len(truth), resampling.resamples, resampling.seed)
    ]
    return Outcome(pair_auc(list(labels), scores), np.array(samples, np.float64), len(truth))


def _weighted_auc(truth: npt.NDArray[np.bool_], ranks: Whole, weights: Whole) -> float:
    """The share of pairs of a positive and a negative that are in order, ties by half; NaN without one of them."""
    size = int(ranks.max()) + 1
    positives, negatives = (np.bincount(ranks[one], weights[one], size) for one in (truth, ~truth))
    total = positives.sum() * negatives.sum()
    below = np.cumsum(negatives) - negatives / 2
    return float((positives * below).sum() / total) if total else float("nan")


def mean_outcome(values: npt.ArrayLike, resampling: Resampling) -> Outcome:
    """The mean of a value of every document or query.

    Args:
        values: ``(documents,)``.
        resampling: how they are resampled.
    """
    found = np.asarray(values, np.float64)
    return Outcome(float(found.mean()), resampled_means(found, resampling.resamples, resampling.seed), len(found))
