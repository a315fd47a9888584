"""Similarity of vectors, and the kinds of similarity of two documents: cosine, dot product and MaxSim."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import normalize

from ..modeling.lexical import MEAN_ROW, LexicalShares, row_lengths
from ..registry import SIMILARITIES, VectorSimilarity, load
from ..runtime.arrays import Floats

if TYPE_CHECKING:
    from .encoded_document import EncodedDocument

# As many passages as a search uses. A search weighs them (graphdoc.retrieval.fusion); here they count equally.
BEST_PASSAGES = 3


def similarity_matrix(a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "cosine") -> Floats:
    """Compare every row of one matrix with every row of another, in double precision.

    Args:
        a: ``(rows of a, hidden)``.
        b: ``(rows of b, hidden)``.
        kind: ``cosine`` or ``dot``.

    Returns:
        ``(rows of a, rows of b)``; the cosine with a row of zeros is 0.

    >>> similarity_matrix([[1, 0], [0, 0]], [[3, 4], [2, 0]])
    array([[0.6, 1. ],
           [0. , 0. ]])
    """
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    products: Floats = left @ right.T
    if kind == "dot":
        return products
    scale = np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1))
    return np.clip(products / np.where(scale > 0, scale, 1.0), -1.0, 1.0)


def similarity_of_tensors(a: Tensor, b: Tensor, kind: str = "cosine") -> Tensor:
    """Compare every row of one tensor with every row of another, where they are (see :func:`similarity_matrix`)."""
    left, right = a.float(), b.to(a.device).float()
    products = left @ right.T
    if kind == "dot":
        return products
    scale = torch.outer(left.norm(dim=1), right.norm(dim=1))
    return (products / torch.where(scale > 0, scale, 1.0)).clamp(-1.0, 1.0)


def row_similarities(a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "cosine") -> Floats:
    """Compare the same rows of two matrices ``(rows, hidden)`` (see :func:`similarity_matrix`)."""
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    scale = np.ones(1) if kind == "dot" else np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    similarities: Floats = (left * right).sum(axis=1) / np.where(scale > 0, scale, 1.0)
    return similarities


def best_passages(similarity: Tensor, passage_counts: Tensor, best: int = BEST_PASSAGES) -> Tensor:
    """Mean of the similarities of the best passages of every document; those that it lacks count as 0.

    Args:
        similarity: ``(queries, passages)``, document after document.
        passage_counts: ``(documents,)``.
        best: passages that count.

    Returns:
        ``(queries, documents)``.

    >>> best_passages(torch.tensor([[1.0, 5.0, 3.0, 2.0, 9.0]]), torch.tensor([4, 1]), best=2)
    tensor([[4.0000, 4.5000]])
    """
    most = int(passage_counts.max())
    places = torch.arange(most, device=similarity.device)
    is_there = places < passage_counts.unsqueeze(1)
    starts = passage_counts.cumsum(0) - passage_counts
    columns = torch.where(is_there, starts.unsqueeze(1) + places, 0)
    # (queries, documents, most passages)
    found = similarity[:, columns].masked_fill(~is_there, -torch.inf).topk(min(best, most), dim=2).values
    return found.masked_fill(found == -torch.inf, 0).sum(dim=2) / best


class DocumentFeatures(NamedTuple):
    """The parts of a document to score: vector ``(hidden,)``, passages ``(passages, node size)``, counts of terms."""

    vector: Floats
    passages: Floats
    term_totals: Mapping[str, float] = MappingProxyType({})


class WordPart(NamedTuple):
    """A word of both documents, as the first writes it, and what it adds to their score."""

    word: str
    contribution: float


class Similarity(ABC):
    r"""How two documents are compared; a subclass needs a line in :mod:`graphdoc.registry`.

    .. math:: S(a, b) = \sum_{ij} w_{ij} \, p_i \cdot q_j

    where p and q are what the similarity takes of the passages of the documents, and w weights of pairs.

    Attributes:
        meaning: what the score is, in a sentence.
        vector_similarity: how two vectors alone are compared: sections, passages, sentences, queries, and documents
            where an index holds one vector of each.
        reads_passages: whether the score is one of passages, and not of document vectors.
        reads_reference: whether documents are measured by a reference, without which it is another similarity.
    """

    meaning: ClassVar[str]
    vector_similarity: ClassVar[VectorSimilarity]
    reads_passages: ClassVar[bool] = False
    reads_reference: ClassVar[bool] = False

    @abstractmethod
    def compared_vectors(self, document: EncodedDocument) -> Floats:
        """The compared vector of every passage, ``(passages, hidden)``."""

    @abstractmethod
    def weights(self, a: Floats, b: Floats) -> Floats:
        """The weight of every pair of compared vectors, ``(passages of a, passages of b)``."""

    @abstractmethod
    def lexical_shares(self, document: EncodedDocument) -> Any:
        """Shares of terms in the lexical part of what :meth:`compared_vectors` gives, sparse ``(passages, terms)``."""

    @abstractmethod
    def scores(
        self, a: Sequence[EncodedDocument | DocumentFeatures], b: Sequence[EncodedDocument | DocumentFeatures]
    ) -> Floats:
        """Scores of all pairs of documents, ``(documents of a, documents of b)``."""

    def with_reference(self, reference: Any) -> Similarity:
        """This similarity with a reference; kinds that need none return themselves."""
        return self

    def lengths(self, documents: Sequence[EncodedDocument]) -> Floats:
        """Lengths of documents by which scores of unrelated pairs differ, ``(documents,)``; nan where not by length."""
        return np.full(len(documents), np.nan)

    def contributions(self, a: EncodedDocument, b: EncodedDocument) -> Floats:
        """Contribution of every pair of passages to the score, ``(passages of a, passages of b)``."""
        left, right = self.compared_vectors(a), self.compared_vectors(b)
        return self.weights(left, right) * (left @ right.T)

    def score_parts(self, a: EncodedDocument, b: EncodedDocument) -> dict[str, float] | None:
        """What the score is made of, by name, and the ``sum`` that contributions add up to; None for one thing."""
        return None

    def shared_words(self, a: EncodedDocument, b: EncodedDocument) -> tuple[list[WordPart], float] | None:
        """The words that both have, by what they add to the score, most first, and what all others add.

        None where the model has no lexical part.
        """
        if a.lexical is None or b.lexical is None:
            return None
        left, right = self.compared_vectors(a), self.compared_vectors(b)
        parts = left[:, -a.lexical.size :], right[:, -b.lexical.size :]
        shares = self.lexical_shares(a), self.lexical_shares(b)
        return _lexical_words(a.lexical, b.lexical, shares, self.weights(left, right), parts)


def _lexical_words(
    a: LexicalShares, b: LexicalShares, shares: tuple[Any, Any], weights: Floats, parts: tuple[Floats, Floats]
) -> tuple[list[WordPart], float]:
    r"""The words that two documents share, by what they add to the score, and what all other words add.

    Lexical vectors mix words, so that a word of one document meets all words of the other. With weights w of pairs of
    passages, shares x and y of a term's vector v in these and lexical vectors :math:`\ell` of passages, a term adds

    .. math:: \frac 1 2 \sum_{ij} w_{ij} (x_{it} \, v_t \cdot \ell^b_j + y_{jt} \, v_t \cdot \ell^a_i),

    which over all terms of either document adds up to the lexical part of the score. ``shares`` are sparse,
    ``(passages, terms)``, and ``parts`` the lexical vectors, ``(passages, size)``, of either, as compared.
    """
    halves = [
        np.asarray(0.5 * ((share.T @ met) * document.table).sum(axis=1), np.float64)
        for document, share, met in ((a, shares[0], weights @ parts[1]), (b, shares[1], weights.T @ parts[0]))
    ]
    common, first, second = np.intersect1d(a.rows, b.rows, assume_unique=True, return_indices=True)
    first, second = first[common != MEAN_ROW], second[common != MEAN_ROW]
    both = halves[0][first] + halves[1][second]
    order = np.lexsort((a.rows[first], -both))
    words = [WordPart(a.words[first[place]], float(both[place])) for place in order.tolist()]
    return words, float(halves[0].sum() + halves[1].sum() - both.sum())


class Cosine(Similarity):
    """The cosine of document vectors, which are sums of one term per passage."""

    vector_similarity: ClassVar[VectorSimilarity] = "cosine"
    meaning: ClassVar[str] = (
        "Cosine of the two document vectors: 1 is the same direction, 0 no relation, −1 the opposite. It is no "
        "percentage and cannot be compared across models."
    )

    def compared_vectors(self, document: EncodedDocument) -> Floats:
        """The terms of the passages."""
        return document.passage_attributions.astype(np.float64)

    def weights(self, a: Floats, b: Floats) -> Floats:
        """The same weight for all pairs: what a dot product is divided by."""
        scale = float(np.linalg.norm(a.sum(axis=0)) * np.linalg.norm(b.sum(axis=0))) or 1.0
        return np.full((len(a), len(b)), 1 / scale)

    def lexical_shares(self, document: EncodedDocument) -> Any:
        """The lexical shares of the passages' terms in the document vector."""
        assert document.lexical is not None
        return document.lexical.of_document

    def scores(
        self, a: Sequence[EncodedDocument | DocumentFeatures], b: Sequence[EncodedDocument | DocumentFeatures]
    ) -> Floats:
        """Similarities of document vectors."""
        left, right = (np.stack([one.vector for one in some]) for some in (a, b))
        return similarity_matrix(left, right, self.vector_similarity)


class Dot(Cosine):
    """The dot product of document vectors."""

    vector_similarity: ClassVar[VectorSimilarity] = "dot"
    meaning: ClassVar[str] = (
        "Dot product of the two document vectors: it has no fixed scale and cannot be compared across models."
    )

    def weights(self, a: Floats, b: Floats) -> Floats:
        """1 for all pairs."""
        return np.ones((len(a), len(b)))


@cache
def similarity_of(name: str) -> Similarity:
    """The similarity of a name."""
    similarity: Similarity = load(SIMILARITIES[name])()
    return similarity


# Passages of candidates that are compared at once: as many as keep a block of products in the caches.
BLOCK_PASSAGES = 4_096


def maxsim(a: Tensor, a_counts: Tensor, b: Tensor, b_counts: Tensor, *, block: int | None = BLOCK_PASSAGES) -> Tensor:
    r"""Compare documents by their passages: for every passage its best partner, means over both sides, averaged.

    .. math::
        S(a, b) = \frac{1}{2 n} \sum_{i=1}^n \max_j \cos(a_i, b_j) + \frac{1}{2 m} \sum_{j=1}^m \max_i \cos(a_i, b_j)

    That is MaxSim of ColBERT (Khattab and Zaharia 2020), of passages and in both directions.

    Args:
        a: ``(passages of a, hidden)``, document after document; products of doubles are in double precision.
        a_counts: ``(documents of a,)``, passages of every document, at least one.
        b: ``(passages of b, hidden)``, with the same width, on any device.
        b_counts: ``(documents of b,)``.
        block: passages of b that are compared at once, whole documents; None for all, which a gradient needs.

    Returns:
        ``(documents of a, documents of b)``, where ``a`` is.
    """
    dtype = torch.float64 if a.dtype == torch.float64 else torch.float32
    left, a_counts = normalize(a.to(dtype), dim=-1), a_counts.to(a.device)
    ends = np.append(0, b_counts.cpu().cumsum(0).numpy())
    full: Any = [] if block is None else np.flatnonzero(np.diff(ends[1:] // block, prepend=0)) + 1
    scores = [left.new_zeros(len(a_counts), 0)]
    for first, last in pairwise(sorted({0, *map(int, full), len(b_counts)})):
        right = normalize(b[ends[first] : ends[last]].to(a.device, dtype), dim=-1)
        scores.append(_scores(left, a_counts, right, b_counts[first:last].to(a.device)))
    return torch.cat(scores, dim=1)


def maxsim_of_pairs(passages: Sequence[npt.NDArray[Any]], pairs: npt.NDArray[np.int64]) -> Floats:
    """Compare pairs ``(pairs, 2)`` of documents by their passages (see :func:`maxsim`), in double precision."""
    return np.array([_maxsim_of([passages[first]], [passages[second]])[0, 0] for first, second in pairs.tolist()])


def maxsim_weights(cosines: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Weight of the cosine of every pair of passages in :func:`maxsim`, ``(passages of a, passages of b)`` both.

    That is half of one over the passages of either document for every passage and its best partner, else 0.
    """
    found, (a, b) = np.zeros_like(cosines), cosines.shape
    found[np.arange(a), cosines.argmax(axis=1)] += 0.5 / a
    found[cosines.argmax(axis=0), np.arange(b)] += 0.5 / b
    return found


class MaxSim(Similarity):
    """Compares passages, each with its best partner."""

    vector_similarity: ClassVar[VectorSimilarity] = "cosine"
    reads_passages: ClassVar[bool] = True
    meaning: ClassVar[str] = (
        "Mean cosine of every passage with the passage of the other document that is most like it, over both "
        "documents: 1 where each has its like, 0 no relation. It cannot be compared across models."
    )

    def compared_vectors(self, document: EncodedDocument) -> Floats:
        """The passages, L2-normalized."""
        return np.asarray(document.passages, np.float64) / row_lengths(document.passages)[:, None]

    def weights(self, a: Floats, b: Floats) -> Floats:
        """The weights of :func:`maxsim_weights`."""
        return maxsim_weights(a @ b.T)

    def lexical_shares(self, document: EncodedDocument) -> Any:
        """The lexical shares of the passages, divided by the lengths of their vectors."""
        assert document.lexical is not None
        return (sparse.diags(1 / row_lengths(document.passages)) @ document.lexical.of_passages).tocsr()

    def scores(
        self, a: Sequence[EncodedDocument | DocumentFeatures], b: Sequence[EncodedDocument | DocumentFeatures]
    ) -> Floats:
        """MaxSim of all pairs of documents."""
        return _maxsim_of([one.passages for one in a], [one.passages for one in b])


def _maxsim_of(a: Sequence[npt.NDArray[Any]], b: Sequence[npt.NDArray[Any]]) -> Floats:
    sides = (packed([torch.from_numpy(np.asarray(one, np.float64)) for one in some]) for some in (a, b))
    return np.asarray(maxsim(*next(sides), *next(sides)).numpy())


def packed(documents: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Passages of documents one after the other, and how many each has."""
    return torch.cat(list(documents)), torch.tensor([len(one) for one in documents])


def _scores(a: Tensor, a_counts: Tensor, b: Tensor, b_counts: Tensor) -> Tensor:
    """Scores of all pairs, ``(documents of a, documents of b)``; passages are of unit length."""
    # Passages of b above, so that those of one document lie one after the other in memory.
    products = b @ a.T
    forward = torch.segment_reduce(_largest(products, b_counts).T.contiguous(), "mean", lengths=a_counts, axis=0)
    own = products.amax(dim=1, keepdim=True).T if len(a_counts) == 1 else _largest(products.T.contiguous(), a_counts)
    return (forward + torch.segment_reduce(own.T.contiguous(), "mean", lengths=b_counts, axis=0).T) / 2


def _largest(products: Tensor, counts: Tensor) -> Tensor:
    """The largest row of every document in every column, ``(documents, columns)``."""
    first = int(counts[0])
    if bool((counts == first).all()):
        return products.view(len(counts), first, -1).amax(dim=1)
    return torch.segment_reduce(products, "max", lengths=counts, axis=0)
