"""The ways to find the subtopics of a pair: by words, by vectors, or as a model has learned to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..errors import DocumentError
from .clustering import Subtopics, find_subtopics
from .similarities import Floats, vector_similarity, word_similarity
from .terms import TermMaker

# Sentences of a pair, at most: their similarities fill 800 MB, and clustering takes more than cubic time, a quarter of
# an hour for so many.
MOST_SENTENCES = 10_000


class SubtopicFinder(ABC):
    """Finds the subtopics of pairs; what it needs of a document is made once.

    Attributes:
        reads_vectors: whether it needs vectors of the sentences, beside their texts.
        reads_model: whether it needs a model that has learned to find subtopics.
    """

    reads_vectors: ClassVar[bool] = False
    reads_model: ClassVar[bool] = False

    @property
    def identity(self) -> str:
        """What subtopics depend on beside texts and settings, such as a hash of weights."""
        return ""

    @classmethod
    @abstractmethod
    def make(cls, language: str, model: str | Path | None = None) -> Self:
        """A finder.

        Args:
            language: language of the documents, a two-letter code.
            model: name or folder of a model; given where :attr:`reads_model`.
        """

    @abstractmethod
    def features(self, texts: Sequence[str], vectors: npt.NDArray[np.floating[Any]] | None = None) -> Any:
        """What is needed of the sentences of a document.

        Args:
            texts: the sentences.
            vectors: ``(sentences, width)``, their vectors; needed where :attr:`reads_vectors`.
        """

    @abstractmethod
    def similarity(self, first: Any, second: Any) -> Floats:
        """Similarity of all sentences of both documents, ``(sentences, sentences)``, with a diagonal of 0.

        Args:
            first: features of one document.
            second: features of the other.
        """

    def find(self, first: Any, second: Any, *, cluster_size: int = 6, seed: int = 0) -> Subtopics:
        """Find the subtopics of a pair.

        Args:
            first: features of one document.
            second: features of the other.
            cluster_size: sentences of a subtopic, about.
            seed: see :func:`~graphdoc.subtopics.clustering.find_subtopics`.

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
        return self._terms.all_terms(texts)

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
