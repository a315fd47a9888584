"""Similarity of documents from their sentences, in two stages (SDR, section 3.3, equations 4 to 6).

All functions take unit vectors, so that a product is a cosine, and say which paragraph a sentence belongs to by the
rows at which paragraphs begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from .cosine import Floats

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Normalisation = Literal["zscore", "none"]

# Sentences of candidates that are compared at once: as many as keep a block of products in the caches.
BLOCK_SENTENCES = 8_192


@dataclass(frozen=True, slots=True)
class SentenceSet:
    """The sentences of some documents, one after the other.

    Args:
        vectors: ``(sentences, width)``, of unit length; may be mapped from a file.
        paragraphs: ``(paragraphs + 1,)``, the first sentence of every paragraph, and the number of sentences.
        documents: ``(documents + 1,)``, the first paragraph of every document, and the number of paragraphs.

    Raises:
        ValueError: places do not fit together, or a paragraph or document is empty.
    """

    vectors: Vectors
    paragraphs: Rows
    documents: Rows

    def __post_init__(self) -> None:
        for name, places, end in (
            ("paragraphs", self.paragraphs, len(self.vectors)),
            ("documents", self.documents, len(self.paragraphs) - 1),
        ):
            if len(places) < 2 or places[0] != 0 or places[-1] != end or (np.diff(places) < 1).any():
                raise ValueError(f"{name} must rise from 0 to {end}, a row at least each, not {places.tolist()[:5]}")

    @classmethod
    def of(cls, vectors: Sequence[npt.ArrayLike], paragraphs: Sequence[npt.ArrayLike]) -> SentenceSet:
        """Put the sentences of documents in one row, their vectors at unit length; a vector of zeros stays so.

        Args:
            vectors: ``(sentences, width)`` of every document.
            paragraphs: ``(sentences,)`` of every document, the paragraph of every sentence, rising.
        """
        rows = np.concatenate([np.asarray(one, np.float32) for one in vectors])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        starts, documents, sentences = [], [0], 0
        for own in map(np.asarray, paragraphs):
            begins = np.flatnonzero(np.diff(own, prepend=-1))
            starts.append(begins + sentences)
            sentences += len(own)
            documents.append(documents[-1] + len(begins))
        return cls(
            (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32),
            np.append(np.concatenate(starts), sentences).astype(np.int64),
            np.array(documents, np.int64),
        )

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1

    def document(self, number: int) -> SentenceSet:
        """One document of them."""
        first, last = self.documents[number : number + 2].tolist()
        places = self.paragraphs[first : last + 1]
        return SentenceSet(self.vectors[places[0] : places[-1]], places - places[0], np.array([0, last - first]))

    def blocks(self, sentences: int) -> Iterator[tuple[int, int]]:
        """Blocks of documents of so many sentences, or of one that has more: the first, and one past the last."""
        ends = self.paragraphs[self.documents]
        first = 0
        while first < len(self):
            last = int(np.searchsorted(ends, ends[first] + sentences, side="right")) - 1
            last = min(max(last, first + 1), len(self))
            yield first, last
            first = last


@dataclass(frozen=True, slots=True)
class Background:
    """What scores of a source's paragraphs are usually like, so that they can be compared with each other.

    Args:
        means: ``(source paragraphs,)``.
        deviations: ``(source paragraphs,)``.
    """

    means: Floats
    deviations: Floats

    @classmethod
    def of(cls, scores: Floats) -> Background:
        """The mean and deviation of every row of paragraph scores ``(source paragraphs, candidate paragraphs)``."""
        return cls(scores.mean(axis=1), scores.std(axis=1))

    def normalised(self, scores: Floats) -> Floats:
        """Z-scores of rows; those of a row that is all the same are 0."""
        spread = self.deviations > 1e-12 * np.maximum(1.0, np.abs(self.means))
        scale = np.where(spread, self.deviations, 1.0)
        return np.where(spread[:, None], (scores - self.means[:, None]) / scale[:, None], 0.0)


def paragraph_scores(source: SentenceSet, candidates: SentenceSet, block: int = BLOCK_SENTENCES) -> Floats:
    r"""Similarity of every paragraph of a source to every paragraph of the candidates (SDR, eq. 4-5).

    .. math::
        P_{ij} = \frac{1}{i^*} \sum_{k=1}^{i^*} \max_{1 \le r \le j^*} \cos(s_i^k, c_j^r)

    Args:
        source: one document.
        candidates: the documents that it is compared with.
        block: sentences of candidates that are compared at once; memory grows with it, the scores do not depend on it.

    Returns:
        ``(source paragraphs, candidate paragraphs)``.
    """
    counts = np.diff(source.paragraphs).astype(np.float64)
    scores = np.empty((len(counts), len(candidates.paragraphs) - 1))
    for first, last in candidates.blocks(block):
        columns = candidates.documents[first], candidates.documents[last]
        starts = candidates.paragraphs[columns[0] : columns[1]]
        rows = slice(int(starts[0]), int(candidates.paragraphs[columns[1]]))
        # Sentences of candidates above, so that what is compared lies in a row of memory: (candidate, source).
        products = np.asarray(candidates.vectors[rows]) @ source.vectors.T
        best = np.maximum.reduceat(products, starts - starts[0], axis=0)
        sums = np.add.reduceat(best.astype(np.float64), source.paragraphs[:-1], axis=1)
        scores[:, columns[0] : columns[1]] = (sums / counts).T
    return scores


def hierarchical_scores(
    source: SentenceSet,
    candidates: SentenceSet,
    *,
    normalisation: Normalisation = "zscore",
    background: Background | None = None,
    block: int = BLOCK_SENTENCES,
) -> Floats:
    r"""Similarity of a source to every candidate (SDR, eq. 6).

    .. math::
        S_c = \frac{1}{n} \sum_{i=1}^{n} \max_j \mathrm{NRM}(P_{ij})

    Every row of paragraph scores is brought to mean 0 and deviation 1 over all paragraphs of all candidates, unless a
    background says what is usual.

    Args:
        source: one document, which is not among the candidates.
        candidates: the documents that it is compared with.
        normalisation: ``zscore``, or ``none`` as in the published code.
        background: what scores are usually like; None for those of these candidates.
        block: see :func:`paragraph_scores`.

    Returns:
        ``(candidates,)``.
    """
    scores = paragraph_scores(source, candidates, block)
    if normalisation == "zscore":
        scores = (background or Background.of(scores)).normalised(scores)
    best = np.maximum.reduceat(scores, candidates.documents[:-1], axis=1)
    return np.asarray(best.mean(axis=0))


def flat_scores(source: SentenceSet, candidates: SentenceSet, block: int = BLOCK_SENTENCES) -> Floats:
    """Similarity of a source to every candidate without paragraphs: mean over sentences of the best one there is.

    This is MaxSim of sentences, which ColBERT has of tokens.

    Args:
        source: one document.
        candidates: the documents that it is compared with.
        block: see :func:`paragraph_scores`.

    Returns:
        ``(candidates,)``.
    """
    whole = SentenceSet(source.vectors, np.array([0, len(source.vectors)]), np.array([0, 1]))
    ends = candidates.paragraphs[candidates.documents]
    undivided = SentenceSet(candidates.vectors, ends, np.arange(len(ends), dtype=np.int64))
    return np.asarray(paragraph_scores(whole, undivided, block)[0])
