"""What a similarity has to say: the score of two documents as a sum over pairs of their passages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ..registry import SIMILARITIES, load
from .cosine import Floats, similarity_matrix, similarity_scale
from .encoded_document import EncodedDocument


class Similarity(ABC):
    r"""How two documents are compared: a file in this folder and a line in :mod:`graphdoc.registry`.

    .. math:: S(a, b) = \sum_{ij} w_{ij} \, p_i \cdot q_j

    where p and q are what the similarity takes of the passages of the documents, and w weights of pairs.

    Attributes:
        meaning: what the score is, in a sentence.
        vectors: how two vectors alone are compared, ``cosine`` or ``dot``: sections, passages, sentences, queries, and
            documents where an index holds one vector of each.
        reads_passages: whether the score is one of passages, and not of document vectors.
    """

    meaning: ClassVar[str]
    vectors: ClassVar[str]
    reads_passages: ClassVar[bool] = False

    @abstractmethod
    def parts(self, document: EncodedDocument) -> Floats:
        """What is compared of every passage, ``(passages, hidden)``."""

    @abstractmethod
    def weights(self, a: Floats, b: Floats) -> Floats:
        """The weight of every pair, ``(passages of a, passages of b)``, of what :meth:`parts` gives of both."""

    @abstractmethod
    def lexical_shares(self, document: EncodedDocument) -> Any:
        """Shares of terms in the lexical part of what :meth:`parts` gives, sparse ``(passages, terms)``."""

    @abstractmethod
    def scores(self, a: Sequence[EncodedDocument], b: Sequence[EncodedDocument]) -> Floats:
        """Scores of all pairs of documents, ``(documents of a, documents of b)``."""

    @abstractmethod
    def of_changed(self, vectors: Floats, passages: Sequence[Floats], other: EncodedDocument) -> Floats:
        """Scores of a document that is changed again and again with another that is not, ``(times,)``.

        Args:
            vectors: ``(times, hidden)``, its vector every time.
            passages: ``(passages, node size)``, its passages every time.
            other: the other document.
        """

    def contributions(self, a: EncodedDocument, b: EncodedDocument) -> Floats:
        """What every pair of passages adds to the score, ``(passages of a, passages of b)``."""
        left, right = self.parts(a), self.parts(b)
        return self.weights(left, right) * (left @ right.T)


class VectorSimilarity(Similarity):
    """Compares document vectors, which are sums of one term per passage."""

    def parts(self, document: EncodedDocument) -> Floats:
        """The terms of the passages."""
        return document.terms.astype(np.float64)

    def weights(self, a: Floats, b: Floats) -> Floats:
        """The same weight for all pairs: what a dot product is divided by."""
        scale = similarity_scale(a.sum(axis=0, keepdims=True), b.sum(axis=0, keepdims=True), self.vectors)
        return np.full((len(a), len(b)), 1 / scale[0, 0])

    def lexical_shares(self, document: EncodedDocument) -> Any:
        """Those in the passages' terms."""
        assert document.lexical is not None
        return document.lexical.of_document

    def scores(self, a: Sequence[EncodedDocument], b: Sequence[EncodedDocument]) -> Floats:
        """Similarities of document vectors."""
        left, right = (np.stack([one.vector for one in some]) for some in (a, b))
        return similarity_matrix(left, right, self.vectors)

    def of_changed(self, vectors: Floats, passages: Sequence[Floats], other: EncodedDocument) -> Floats:
        """Similarities of document vectors."""
        return similarity_matrix(vectors, other.vector[None], self.vectors)[:, 0]


class Cosine(VectorSimilarity):
    """The cosine of document vectors."""

    vectors: ClassVar[str] = "cosine"
    meaning: ClassVar[str] = (
        "Cosine of the two document vectors: 1 is the same direction, 0 no relation, −1 the opposite. It is no "
        "percentage and cannot be compared across models."
    )


class Dot(VectorSimilarity):
    """The dot product of document vectors."""

    vectors: ClassVar[str] = "dot"
    meaning: ClassVar[str] = (
        "Dot product of the two document vectors: it has no fixed scale and cannot be compared across models."
    )


@cache
def similarity_of(name: str) -> Similarity:
    """The similarity of a name."""
    found: Similarity = load(SIMILARITIES[name])()
    return found
