"""Similarity of documents from their sentences, in two stages (SDR, section 3.3, equations 4 to 6).

All functions take unit vectors, so that a product is a cosine, and say which paragraph a sentence belongs to by the
rows at which paragraphs begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix

from ..runtime.arrays import Floats, Rows, Vectors
from ..runtime.text import require_one_of

SentenceScoring = Literal["sentences", "flat", "paragraphs", "document"]
Normalization = Literal["zscore", "none"]
Direction = Literal["source", "both"]
SENTENCE_SCORINGS: tuple[SentenceScoring, ...] = get_args(SentenceScoring)

# Sentences of candidates that are compared at once: as many as keep a block of products in the caches.
BLOCK_SENTENCES = 2_048
# Products of sentences that are held at once, 4 bytes each.
_MOST_PRODUCTS = 2**26


@dataclass(frozen=True, slots=True)
class SentenceSet:
    """The sentences of some documents, one after the other.

    Args:
        vectors: ``(sentences, width)``, of unit length; may be mapped from a file.
        paragraphs: ``(paragraphs + 1,)``, the first sentence of every paragraph, and the number of sentences.
        documents: ``(documents + 1,)``, the first paragraph of every document, and the number of paragraphs.
    """

    vectors: Vectors
    paragraphs: Rows
    documents: Rows

    def __post_init__(self) -> None:
        ends = {"paragraphs": len(self.vectors), "documents": len(self.paragraphs) - 1}
        for (name, end), places in zip(ends.items(), (self.paragraphs, self.documents), strict=True):
            if len(places) < 2 or places[0] != 0 or places[-1] != end or (np.diff(places) < 1).any():
                raise ValueError(f"{name} must rise from 0 to {end}, a row at least each, not {places.tolist()[:5]}")

    @classmethod
    def from_vectors(cls, vectors: Sequence[npt.ArrayLike], paragraphs: Sequence[npt.ArrayLike]) -> SentenceSet:
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
        return self.part(number, number + 1)

    def part(self, first: int, last: int) -> SentenceSet:
        """Some documents that follow each other: the first, and one past the last."""
        documents = self.documents[first : last + 1]
        places = self.paragraphs[documents[0] : documents[-1] + 1]
        return SentenceSet(self.vectors[places[0] : places[-1]], places - places[0], documents - documents[0])

    def compared_by(self, by: SentenceScoring) -> SentenceSet:
        """The parts that are compared in place of the sentences (see :func:`score_documents`)."""
        require_one_of("by", by, SENTENCE_SCORINGS)
        if by == "sentences":
            return self
        rows = np.arange(len(self.documents), dtype=np.int64)
        documents = self.paragraphs[self.documents]
        if by == "flat":
            return SentenceSet(self.vectors, documents, rows)
        if by == "document":
            return SentenceSet(_means(self.vectors, documents), rows, rows)
        paragraphs = np.arange(len(self.paragraphs), dtype=np.int64)
        return SentenceSet(_means(self.vectors, self.paragraphs), paragraphs, self.documents)

    def blocks(self, sentences: int) -> Iterator[tuple[int, int]]:
        """Blocks of documents up to a number of sentences, or of one that has more: first, and one past the last."""
        ends = self.paragraphs[self.documents]
        first = 0
        while first < len(self):
            last = int(np.searchsorted(ends, ends[first] + sentences, side="right")) - 1
            last = min(max(last, first + 1), len(self))
            yield first, last
            first = last


def _means(vectors: Vectors, places: Rows) -> Vectors:
    """Means of the rows between places, L2-normalized; ``(places - 1, width)``."""
    ones = np.ones(len(vectors))
    # A product with a sparse matrix takes a quarter of the time of add.reduceat.
    sums = csr_matrix((ones, np.arange(len(vectors)), places), (len(places) - 1, len(vectors))) @ np.asarray(vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths > 0, lengths, 1), np.float32)


class ParagraphScores(NamedTuple):
    """Scores of all pairs of paragraphs, ``(source paragraphs, candidate paragraphs)``.

    Args:
        forward: how well a paragraph of the source is found in one of a candidate.
        reverse: how well that one is found in the paragraph of the source; None where that was not asked for.
    """

    forward: Floats
    reverse: Floats | None


@dataclass(frozen=True, slots=True)
class ScoreMoments:
    """Mean and deviation of the scores of every paragraph of a source, by which scores become z-scores.

    Args:
        means: ``(source paragraphs,)``.
        deviations: ``(source paragraphs,)``.
        reverse: the same of scores from candidates to the source; None where these do not count.
    """

    means: Floats
    deviations: Floats
    reverse: ScoreMoments | None = None

    @classmethod
    def from_scores(cls, scores: Floats, reverse: Floats | None = None) -> ScoreMoments:
        """The mean and deviation of every row of paragraph scores ``(source paragraphs, candidate paragraphs)``."""
        return cls(scores.mean(axis=1), scores.std(axis=1), None if reverse is None else cls.from_scores(reverse))

    @classmethod
    def from_sample(
        cls,
        source: SentenceSet,
        sample: SentenceSet,
        *,
        by: SentenceScoring = "sentences",
        direction: Direction = "source",
    ) -> ScoreMoments:
        """The moments of a sample of documents, which make a score independent of what else is scored."""
        return cls.from_scores(*paragraph_scores(source.compared_by(by), sample.compared_by(by), direction=direction))

    @property
    def factors(self) -> Floats:
        """The reciprocal of every deviation; 0 for constant rows."""
        varies = self.deviations > 1e-12 * np.maximum(1.0, np.abs(self.means))
        return np.asarray(np.where(varies, 1.0 / np.where(varies, self.deviations, 1.0), 0.0))

    def normalized(self, scores: Floats) -> Floats:
        """Z-scores of every row; 0 for constant rows."""
        return np.asarray((scores - self.means[:, None]) * self.factors[:, None])

    @property
    def reversed(self) -> ScoreMoments:
        """The moments of scores from candidates to the source."""
        if self.reverse is None:
            raise ValueError("these moments were made for one direction; make them with direction='both'")
        return self.reverse


def paragraph_scores(
    source: SentenceSet, candidates: SentenceSet, *, direction: Direction = "source"
) -> ParagraphScores:
    r"""Similarity of every paragraph of a source to every paragraph of the candidates (SDR, eq. 4-5).

    .. math::
        P_{ij} = \frac{1}{i^*} \sum_{k=1}^{i^*} \max_{1 \le r \le j^*} \cos(s_i^k, c_j^r)

    With the direction ``both`` the candidates are looked for in the source too.
    """
    parts = [
        _scores(source, candidates.part(first, last), direction == "both")
        for first, last in candidates.blocks(BLOCK_SENTENCES)
    ]
    forward, reverse = zip(*parts, strict=True)
    return ParagraphScores(
        np.concatenate(forward, axis=1), np.concatenate(reverse, axis=1) if direction == "both" else None
    )


def _scores(source: SentenceSet, candidates: SentenceSet, is_symmetric: bool) -> ParagraphScores:
    vectors, size = np.asarray(candidates.vectors), len(source.vectors)
    best = np.empty((len(candidates.paragraphs) - 1, size))
    best_reverse = np.full((len(source.paragraphs) - 1, len(vectors)), -np.inf, np.float32) if is_symmetric else None
    # Two very long documents are not compared all at once.
    step = max(1, _MOST_PRODUCTS // len(vectors))
    for start in range(0, size, step):
        # Sentences of candidates above, so that what is compared lies in a row of memory: (candidate, source).
        products = vectors @ source.vectors[start : start + step].T
        best[:, start : start + step] = _segment_maxima(products, candidates.paragraphs)
        if best_reverse is not None:
            first, last = np.searchsorted(source.paragraphs, (start + 1, min(start + step, size)), side="left")
            places = np.clip(source.paragraphs[first - 1 : last + 1], start, start + step) - start
            own = best_reverse[first - 1 : last]
            np.maximum(own, _segment_maxima(products.T, places), out=own)
    forward = np.add.reduceat(best, source.paragraphs[:-1], axis=1) / np.diff(source.paragraphs)
    if best_reverse is None:
        return ParagraphScores(forward.T, None)
    sums = np.add.reduceat(best_reverse.astype(np.float64), candidates.paragraphs[:-1], axis=1)
    return ParagraphScores(forward.T, sums / np.diff(candidates.paragraphs))


def _segment_maxima(values: Vectors, places: Rows) -> Vectors:
    """The largest of every column within every segment of rows; ``(segments, columns)``."""
    lengths = torch.from_numpy(np.diff(places))
    # A third of the time of maximum.reduceat.
    return np.asarray(torch.segment_reduce(torch.from_numpy(np.ascontiguousarray(values)), "max", lengths=lengths))


def score_documents(
    source: SentenceSet,
    candidates: SentenceSet,
    *,
    by: SentenceScoring = "sentences",
    normalization: Normalization = "none",
    direction: Direction = "source",
    moments: ScoreMoments | None = None,
) -> Floats:
    r"""Similarity of a source to every candidate (SDR, eq. 6).

    .. math::
        S_c = \frac{1}{n} \sum_{i=1}^{n} \max_j \mathrm{NRM}(P_{ij})

    Args:
        source: one document.
        candidates: the documents that it is compared with.
        by: ``sentences`` for equations 4 to 6; ``flat`` for every sentence of the source with the best one of the
            candidate, whatever its paragraph (MaxSim, which ColBERT has of tokens); ``paragraphs`` for means of
            sentences in place of paragraphs; ``document`` for the mean of all sentences.
        normalization: ``zscore`` brings every row of paragraph scores to mean 0 and deviation 1 over all paragraphs of
            all candidates, as in the paper, or by given moments; ``none`` leaves cosines, as in the published code.
        direction: ``source`` looks for the source in the candidate, as the paper does; ``both`` also for the candidate
            in the source, and takes the mean. Scores of the second kind are normalized by paragraph of the source too.
        moments: what z-scores are made by; None for those of these candidates.

    Returns:
        ``(candidates,)``.

    Raises:
        SettingsError: a name is unknown.
    """
    scorer = DocumentScorer(source, by=by, normalization=normalization, direction=direction, moments=moments)
    scorer.add(candidates)
    return scorer.scores()


class DocumentScorer:
    """Scores candidates that come one set after another (see :func:`score_documents`, also for the arguments).

    Memory grows by a number for every candidate; where z-scores are made without given moments, by one for every
    source paragraph and candidate paragraph.
    """

    def __init__(
        self,
        source: SentenceSet,
        *,
        by: SentenceScoring = "sentences",
        normalization: Normalization = "none",
        direction: Direction = "source",
        moments: ScoreMoments | None = None,
    ) -> None:
        require_one_of("normalization", normalization, get_args(Normalization))
        require_one_of("direction", direction, get_args(Direction))
        self._by, self._source, self._is_symmetric = by, source.compared_by(by), direction == "both"
        self._moments = moments if normalization == "zscore" else None
        self._is_open = normalization == "zscore" and moments is None
        # Paragraph scores that wait for the moments of all, with the first paragraph of every candidate.
        self._waiting: list[tuple[ParagraphScores, Rows]] = []
        self._scores: list[Floats] = []

    def add(self, candidates: SentenceSet) -> None:
        """Score more candidates."""
        for first, last in candidates.blocks(BLOCK_SENTENCES):
            block = candidates.part(first, last).compared_by(self._by)
            scores, starts = _scores(self._source, block, self._is_symmetric), block.documents[:-1]
            if self._is_open:
                self._waiting.append((scores, starts))
            else:
                self._scores.append(_of_documents(scores, starts, self._moments))

    def scores(self) -> Floats:
        """Scores of all candidates so far, ``(candidates,)``, in their order."""
        scores = self._scores
        if self._waiting:
            forward, reverse = zip(*(one for one, _ in self._waiting), strict=True)
            moments = ScoreMoments.from_scores(
                np.concatenate(forward, axis=1), np.concatenate(reverse, axis=1) if self._is_symmetric else None
            )
            scores = [_of_documents(one, starts, moments) for one, starts in self._waiting]
        return np.concatenate(scores) if scores else np.empty(0)


def _of_documents(scores: ParagraphScores, starts: Rows, moments: ScoreMoments | None) -> Floats:
    """Scores of candidates from those of their paragraphs, which begin at ``starts``; ``(candidates,)``."""
    forward, reverse = scores
    if moments is not None:
        forward = moments.normalized(forward)
        reverse = None if reverse is None else moments.reversed.normalized(reverse)
    found = np.maximum.reduceat(forward, starts, axis=1).mean(axis=0)
    if reverse is not None:
        sums = np.add.reduceat(reverse.max(axis=0), starts)
        found = (found + sums / np.diff(np.append(starts, reverse.shape[1]))) / 2
    return np.asarray(found)
