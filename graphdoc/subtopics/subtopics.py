"""Subtopics: sentences of both documents of a pair in clusters, by spectral clustering of their similarities."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from ..errors import DocumentError
from ..graphs.batch import GraphBatch
from ..graphs.kinds import JoinedGraphs
from ..runtime.arrays import Floats, Vectors
from ..segmentation.terms import SentenceTerms, TermMaker
from ..settings.document import ClusteringSettings

# Added to all similarities, so that no sentence stands alone.
CONNECTION = 1e-4
# Sentences of a pair, at most: their similarities fill 800 MB, and clustering takes a quarter of an hour.
MOST_SENTENCES = 10_000


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
    def from_labels(cls, labels: npt.ArrayLike, first: int) -> Subtopics:
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

    def parted(self, similarity: Floats, least: float) -> Subtopics:
        """The same, but each whose sentences of both documents are not alike becomes one of either.

        Args:
            similarity: ``(sentences, sentences)``.
            least: mean similarity of its sentences of the one document with those of the other.
        """
        labels, is_second = self.clusters.copy(), np.arange(len(self.clusters)) >= self.first
        for number in range(self.number):
            own = self.clusters == number
            block = similarity[np.ix_(own & ~is_second, own & is_second)]
            if block.size and block.mean() < least:
                labels[own & is_second] += self.number
        return Subtopics.from_labels(labels, self.first)

    def turned(self) -> Subtopics:
        """The same subtopics of the pair in the other order."""
        first, second = self.sides
        return Subtopics.from_labels(np.concatenate([second, first]), len(second))


def number_of_subtopics(sentences: int, cluster_size: int) -> int:
    """How many subtopics some sentences make: sentences by size, at least 2, and no more than there are sentences.

    >>> number_of_subtopics(80, 6), number_of_subtopics(7, 6), number_of_subtopics(1, 6)
    (13, 2, 1)
    """
    return min(max(round(sentences / cluster_size), 2), sentences)


def find_subtopics(similarity: npt.ArrayLike, first: int, *, cluster_size: int = 6, seed: int = 0) -> Subtopics:
    """Find the subtopics of a pair of documents by spectral clustering (SST, eq. 2).

    The number of subtopics follows from the number of sentences. Where no sentence is like any other, all are one
    subtopic; of two sentences in all, those that are alike at all are one.

    Args:
        similarity: ``(sentences, sentences)``, symmetric and not negative, those of the first document first.
        first: how many are of the first document.
        cluster_size: sentences of a subtopic, about.
        seed: seed of the vector that the solver begins with.

    >>> similarity = np.kron(np.eye(2), np.ones((6, 6)))
    >>> find_subtopics(similarity, first=6, cluster_size=6).clusters.tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """
    from sklearn.cluster import SpectralClustering

    weights = np.array(similarity, np.float64)
    sentences = len(weights)
    number = number_of_subtopics(sentences, cluster_size)
    np.fill_diagonal(weights, 0.0)
    if sentences == 2 <= cluster_size and weights.any():
        # Two subtopics would leave two documents of one sentence nothing in common, even where they are copies.
        number = 1
    if number == sentences:
        return Subtopics.from_labels(np.arange(sentences), first)
    if number < 2 or not weights.any():
        return Subtopics.from_labels(np.zeros(sentences, np.int64), first)
    weights += CONNECTION
    np.fill_diagonal(weights, 0.0)
    model = SpectralClustering(number, affinity="precomputed", assign_labels="cluster_qr", random_state=seed)
    with warnings.catch_warnings():
        # Of eigenvectors that are not quite exact, whose clusters are as good.
        warnings.simplefilter("ignore")
        labels = model.fit_predict(weights)
    return Subtopics.from_labels(labels, first)


def word_similarity(sentences: Sequence[SentenceTerms]) -> Floats:
    r"""Similarity by common words, as TextRank takes it (SST, eq. 1), ``(sentences, sentences)`` with a diagonal of 0.

    .. math::
        A_{ij} = \frac{|\{w \mid w \in s_i, w \in s_j\}|}{\log |s_i| + \log |s_j|}

    Words in common are distinct stems without stop words, lengths are all words. Where the logarithms add up to 0,
    between sentences of one word, the similarity is 0.
    """
    column_of: dict[str, int] = {}
    columns = [column_of.setdefault(term, len(column_of)) for one in sentences for term in one.terms]
    ends = np.cumsum([0, *(len(one.terms) for one in sentences)])
    occurs = csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(sentences), max(len(column_of), 1)))
    common = (occurs @ occurs.T).toarray()
    logarithms = np.log(np.maximum([one.words for one in sentences], 1))
    lengths = logarithms[:, None] + logarithms[None, :]
    similarity: Floats = np.divide(common, lengths, out=np.zeros_like(common), where=lengths > 0)
    np.fill_diagonal(similarity, 0.0)
    return similarity


def vector_similarity(vectors: npt.ArrayLike, neighbours: int | None = 10) -> Floats:
    """Similarity by vectors: cosines, those below 0 cut off, and of every sentence only its nearest kept.

    A pair is kept if either is among the nearest of the other, so that the matrix is symmetric. Source: SST, equation
    3, with the sparsification of appendix B.1.

    Args:
        vectors: ``(sentences, width)``.
        neighbours: sentences that a sentence keeps; None for all.

    Returns:
        ``(sentences, sentences)``, 0 for a sentence and itself.
    """
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: npt.NDArray[Any] = rows / np.where(lengths > 0, lengths, 1)
    similarity = np.maximum(unit @ unit.T, 0.0)
    np.fill_diagonal(similarity, 0.0)
    if neighbours is not None and neighbours < len(similarity) - 1:
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :neighbours]
        kept = np.zeros_like(similarity, bool)
        np.put_along_axis(kept, order, True, axis=1)
        similarity = np.where(kept | kept.T, similarity, 0.0)
    return np.asarray((similarity + similarity.T) / 2)


class SubtopicFinder(ABC):
    """Finds the subtopics of pairs; what it needs of a document is made once.

    Attributes:
        reads_vectors: whether it needs vectors of the sentences in addition to their texts.
        reads_model: whether it needs a model that has learned to find subtopics.
    """

    reads_vectors: ClassVar[bool] = False
    reads_model: ClassVar[bool] = False

    @property
    def identity(self) -> str:
        """Identity of everything besides texts and settings that affects subtopics, such as a hash of weights."""
        return ""

    @classmethod
    @abstractmethod
    def make(cls, language: str, model: str | Path | None = None) -> Self:
        """A finder for a language, a two-letter code, with the name or folder of a model where :attr:`reads_model`."""

    @abstractmethod
    def features(self, texts: Sequence[str], vectors: npt.NDArray[np.floating[Any]] | None = None) -> Any:
        """Features of sentences, with their vectors ``(sentences, width)`` where :attr:`reads_vectors`."""

    @abstractmethod
    def similarity(self, first: Any, second: Any) -> Floats:
        """Similarity of the sentences of two documents by their features, ``(sentences, sentences)``, diagonal 0."""

    def find(self, first: Any, second: Any, *, cluster_size: int = 6, seed: int = 0) -> Subtopics:
        """Find the subtopics of a pair by the features of both documents (see :func:`find_subtopics`).

        Raises:
            DocumentError: there are too many sentences.
        """
        if (sentences := len(first) + len(second)) > MOST_SENTENCES:
            raise DocumentError(
                f"{sentences:,} sentences of a pair are more than {MOST_SENTENCES:,}, among which subtopics can be "
                "found; take the first ones of each document with receptive_field (--receptive-field)"
            )
        return find_subtopics(self.similarity(first, second), len(first), cluster_size=cluster_size, seed=seed)


class WordSubtopics(SubtopicFinder):
    """Sentences are alike by the words they share (SST, eq. 1)."""

    def __init__(self, language: str) -> None:
        self._terms = TermMaker(language)

    @classmethod
    def make(cls, language: str, model: str | Path | None = None) -> Self:
        """A finder for documents in a language."""
        return cls(language)

    def features(self, texts: Sequence[str], vectors: npt.NDArray[np.floating[Any]] | None = None) -> Any:
        """Terms of every sentence."""
        return [self._terms.terms(text) for text in texts]

    def similarity(self, first: Any, second: Any) -> Floats:
        """Common words over lengths."""
        return word_similarity([*first, *second])


class VectorSubtopics(SubtopicFinder):
    """Sentences are alike by the cosines of their vectors (SST, eq. 3), without training."""

    reads_vectors = True

    @classmethod
    def make(cls, language: str, model: str | Path | None = None) -> Self:
        """A finder; the language does not matter."""
        return cls()

    def features(self, texts: Sequence[str], vectors: npt.NDArray[np.floating[Any]] | None = None) -> Any:
        """The vectors."""
        if vectors is None:
            raise ValueError("subtopics by vectors need vectors of the sentences")
        return np.asarray(vectors, np.float32)

    def similarity(self, first: Any, second: Any) -> Floats:
        """Cosines of the nearest."""
        return vector_similarity(np.concatenate([first, second]))


def pair_graphs(pairs: Sequence[tuple[Vectors, Vectors]], neighbours: int | None) -> GraphBatch:
    """Put pairs into one batch, each as one graph whose edges join similar sentences (SST, eq. 3).

    Args:
        pairs: vectors of the sentences of both documents of every pair, ``(sentences, encoder hidden)`` each.
        neighbours: similar sentences that a sentence keeps; None for all.

    Returns:
        The batch; the "sections" of a pair are its documents, 0 for the first and 1 for the second.
    """
    vectors = [np.concatenate(pair) for pair in pairs]
    sections = [np.repeat(np.arange(2, dtype=np.int64), [len(first), len(second)]) for first, second in pairs]
    graphs = JoinedGraphs.from_similarities(sections, [vector_similarity(one, neighbours) for one in vectors])
    return GraphBatch.from_graphs(graphs, passage_vectors=vectors)


def columns_of(sentences: int, settings: ClusteringSettings, cluster_size: int | None = None) -> int:
    """How many subtopics a pair of some sentences can have, no more than a model has columns."""
    return min(number_of_subtopics(sentences, cluster_size or settings.cluster_size), settings.columns)
