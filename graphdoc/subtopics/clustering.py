"""Subtopics: sentences of both documents of a pair in clusters, by spectral clustering of their similarities."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]

# Added to all similarities, so that no sentence stands alone.
CONNECTION = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Subtopics:
    """The subtopics of a pair of documents, or of one document.

    Args:
        clusters: ``(sentences,)``, the subtopic of every sentence, those of the first document before those of the
            second; subtopics are numbered by their first sentence.
        first: how many of them are of the first document.
    """

    clusters: npt.NDArray[np.int32]
    first: int

    @classmethod
    def of(cls, labels: npt.ArrayLike, first: int) -> Subtopics:
        """Subtopics of any labels of sentences."""
        _, starts, numbers = np.unique(np.asarray(labels), return_index=True, return_inverse=True)
        ranks = np.empty(len(starts), np.int32)
        ranks[np.argsort(starts, kind="stable")] = np.arange(len(starts), dtype=np.int32)
        return cls(ranks[numbers], first)

    @property
    def number(self) -> int:
        """How many there are."""
        return int(self.clusters.max(initial=-1)) + 1

    @property
    def sides(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The subtopic of every sentence of the first document, and of the second."""
        return self.clusters[: self.first], self.clusters[self.first :]

    @property
    def counts(self) -> Rows:
        """Sentences of the first and of the second document in every subtopic, ``(2, subtopics)``."""
        counts = [np.bincount(side, minlength=self.number) for side in self.sides]
        return np.stack(counts).astype(np.int64)

    def turned(self) -> Subtopics:
        """The same subtopics of the pair in the other order."""
        first, second = self.sides
        return Subtopics.of(np.concatenate([second, first]), len(second))


def number_of_subtopics(sentences: int, cluster_size: int) -> int:
    """How many subtopics some sentences make: sentences by size, at least 2, and no more than there are sentences.

    Args:
        sentences: number of sentences.
        cluster_size: sentences that a subtopic has, about.

    >>> number_of_subtopics(80, 6), number_of_subtopics(7, 6), number_of_subtopics(1, 6)
    (13, 2, 1)
    """
    return min(max(round(sentences / cluster_size), 2), sentences)


def find_subtopics(similarity: npt.ArrayLike, first: int, *, cluster_size: int = 6, seed: int = 0) -> Subtopics:
    """Find the subtopics of a pair of documents by spectral clustering (SST, eq. 2).

    The number of subtopics follows from the number of sentences. Where no sentence is like any other, nothing can be
    told apart, and all are one subtopic. Of two sentences in all, as of a document of one sentence and itself, those
    that are alike at all are one subtopic.

    Args:
        similarity: ``(sentences, sentences)``, symmetric and not negative, those of the first document first.
        first: how many are of the first document.
        cluster_size: sentences of a subtopic, about.
        seed: seed of the vector that the solver begins with.

    Returns:
        The subtopics.

    >>> similarity = np.kron(np.eye(2), np.ones((6, 6)))
    >>> find_subtopics(similarity, first=6, cluster_size=6).clusters.tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """
    from sklearn.cluster import SpectralClustering

    weights = np.array(similarity, np.float64)
    sentences = len(weights)
    number = number_of_subtopics(sentences, cluster_size)
    np.fill_diagonal(weights, 0.0)
    # Two subtopics at least would leave two documents of one sentence nothing in common, even where they are copies.
    is_one = sentences == 2 <= cluster_size and bool(weights.any())
    if number == sentences and not is_one:
        return Subtopics.of(np.arange(sentences), first)
    if is_one or number < 2 or not weights.any():
        return Subtopics.of(np.zeros(sentences, np.int64), first)
    weights += CONNECTION
    np.fill_diagonal(weights, 0.0)
    model = SpectralClustering(number, affinity="precomputed", assign_labels="cluster_qr", random_state=seed)
    with warnings.catch_warnings():
        # Of eigenvectors that are not quite exact, whose clusters are as good.
        warnings.simplefilter("ignore")
        labels = model.fit_predict(weights)
    return Subtopics.of(labels, first)
