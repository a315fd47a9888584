"""Similarity of documents from their sentences, in two stages (SDR, section 3.3, equations 4 to 6).

All functions take unit vectors, so that a product is a cosine, and say which paragraph a sentence belongs to by the
rows at which paragraphs begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from ..runtime.text import require_one_of
from .kinds import Floats

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


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
        return self.part(number, number + 1)

    def part(self, first: int, last: int) -> SentenceSet:
        """Some documents that follow each other: the first, and one past the last."""
        documents = self.documents[first : last + 1]
        places = self.paragraphs[documents[0] : documents[-1] + 1]
        return SentenceSet(self.vectors[places[0] : places[-1]], places - places[0], documents - documents[0])

    def paragraph_means(self) -> SentenceSet:
        """Paragraphs in place of sentences: the mean of a paragraph's sentences at unit length."""
        rows = np.arange(len(self.paragraphs), dtype=np.int64)
        return SentenceSet(_means(self.vectors, self.paragraphs), rows, self.documents)

    def document_means(self) -> SentenceSet:
        """Documents in place of sentences: the mean of a document's sentences at unit length."""
        rows = np.arange(len(self.documents), dtype=np.int64)
        return SentenceSet(_means(self.vectors, self.paragraphs[self.documents]), rows, rows)

    def undivided(self) -> SentenceSet:
        """The same sentences, each document in one paragraph."""
        rows = np.arange(len(self.documents), dtype=np.int64)
        return SentenceSet(self.vectors, self.paragraphs[self.documents], rows)

    def blocks(self, sentences: int) -> Iterator[tuple[int, int]]:
        """Blocks of documents of so many sentences, or of one that has more: the first, and one past the last."""
        ends = self.paragraphs[self.documents]
        first = 0
        while first < len(self):
            last = int(np.searchsorted(ends, ends[first] + sentences, side="right")) - 1
            last = min(max(last, first + 1), len(self))
            yield first, last
            first = last


def _means(vectors: Vectors, places: Rows) -> Vectors:
    """Means of the rows between places, at unit length; ``(places - 1, width)``."""
    ones = np.ones(len(vectors))
    # A product with a sparse matrix takes a quarter of the time of add.reduceat.
    sums = csr_matrix((ones, np.arange(len(vectors)), places), (len(places) - 1, len(vectors))) @ np.asarray(vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths > 0, lengths, 1), np.float32)


By = Literal["sentences", "flat", "paragraphs", "document"]
Normalisation = Literal["zscore", "none"]
Direction = Literal["source", "both"]

# Sentences of candidates that are compared at once: as many as keep a block of products in the caches.
BLOCK_SENTENCES = 2_048
# Products of sentences that are held at once, 4 bytes each.
_MOST_PRODUCTS = 2**26
# Segments from which on the largest of each is found together.
_FEW_SEGMENTS = 8
# What is compared in place of the sentences of a document, by how it is scored.
FORMS: dict[By, Callable[[SentenceSet], SentenceSet]] = {
    "sentences": lambda sentences: sentences,
    "flat": SentenceSet.undivided,
    "paragraphs": SentenceSet.paragraph_means,
    "document": SentenceSet.document_means,
}


def form_of(by: By) -> Callable[[SentenceSet], SentenceSet]:
    """What is compared in place of the sentences of a document.

    Raises:
        SettingsError: the name is unknown.
    """
    require_one_of("by", by, get_args(By))
    return FORMS[by]


class ParagraphScores(NamedTuple):
    """Scores of all pairs of paragraphs, ``(source paragraphs, candidate paragraphs)``.

    Args:
        forward: how well a paragraph of the source is found in one of a candidate.
        reverse: how well that one is found in the paragraph of the source; None where that was not asked for.
    """

    forward: Floats
    reverse: Floats | None


@dataclass(frozen=True, slots=True)
class Background:
    """What scores of a source's paragraphs are usually like, so that they can be compared with each other.

    Args:
        means: ``(source paragraphs,)``.
        deviations: ``(source paragraphs,)``.
        reverse: the same of scores from candidates to the source; None where these do not count.
    """

    means: Floats
    deviations: Floats
    reverse: Background | None = None

    @classmethod
    def of(cls, scores: Floats, reverse: Floats | None = None) -> Background:
        """The mean and deviation of every row of paragraph scores ``(source paragraphs, candidate paragraphs)``.

        Args:
            scores: from the source to candidates.
            reverse: from candidates to the source.
        """
        return cls(scores.mean(axis=1), scores.std(axis=1), None if reverse is None else cls.of(reverse))

    @classmethod
    def of_sample(
        cls,
        source: SentenceSet,
        sample: SentenceSet,
        *,
        by: By = "sentences",
        direction: Direction = "source",
    ) -> Background:
        """What scores are like in a sample of documents; with it a score does not depend on what else is scored.

        Args:
            source: one document.
            sample: drawn documents, without the source.
            by: see :func:`score_documents`.
            direction: see :func:`score_documents`.
        """
        form = form_of(by)
        return cls.of(*paragraph_scores(form(source), form(sample), direction=direction))

    @property
    def factors(self) -> Floats:
        """What differences from the mean are multiplied by; 0 for rows that are all the same."""
        varies = self.deviations > 1e-12 * np.maximum(1.0, np.abs(self.means))
        return np.asarray(np.where(varies, 1.0 / np.where(varies, self.deviations, 1.0), 0.0))

    def normalised(self, scores: Floats) -> Floats:
        """Z-scores of rows; those of a row that is all the same are 0."""
        return np.asarray((scores - self.means[:, None]) * self.factors[:, None])


def paragraph_scores(
    source: SentenceSet, candidates: SentenceSet, *, direction: Direction = "source"
) -> ParagraphScores:
    r"""Similarity of every paragraph of a source to every paragraph of the candidates (SDR, eq. 4-5).

    .. math::
        P_{ij} = \frac{1}{i^*} \sum_{k=1}^{i^*} \max_{1 \le r \le j^*} \cos(s_i^k, c_j^r)

    Args:
        source: one document.
        candidates: the documents that it is compared with.
        direction: whether only the source is looked for in the candidates, or the candidates in the source too.
    """
    both = direction == "both"
    size = len(source.paragraphs) - 1, len(candidates.paragraphs) - 1
    found = ParagraphScores(np.empty(size), np.empty(size) if both else None)
    for first, last in candidates.blocks(BLOCK_SENTENCES):
        columns = slice(candidates.documents[first], candidates.documents[last])
        part = _scores(source, candidates.part(first, last), both)
        found.forward[:, columns] = part.forward
        if found.reverse is not None:
            found.reverse[:, columns] = part.reverse
    return found


def _scores(source: SentenceSet, candidates: SentenceSet, both: bool) -> ParagraphScores:
    """Scores of all pairs of paragraphs, compared at once."""
    vectors, size = np.asarray(candidates.vectors), len(source.vectors)
    best = np.empty((len(candidates.paragraphs) - 1, size))
    best_reverse = np.full((len(source.paragraphs) - 1, len(vectors)), -np.inf, np.float32) if both else None
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
    """The largest of every column within every segment of rows; ``(segments, columns)``.

    Row by row of all segments together, which takes a quarter of the time of ``maximum.reduceat``; the few that are
    much longer than the others segment by segment.
    """
    lengths = np.diff(places)
    order = np.argsort(-lengths, kind="stable")
    starts, falling = places[:-1][order], -lengths[order]
    best = values[starts]
    row, count = 1, int(np.searchsorted(falling, -1))
    while count >= _FEW_SEGMENTS:
        np.maximum(best[:count], values[starts[:count] + row], out=best[:count])
        row += 1
        count = int(np.searchsorted(falling, -row))
    for number in range(count):
        rest = slice(starts[number] + row, starts[number] - falling[number])
        np.maximum(best[number], values[rest].max(axis=0), out=best[number])
    found = np.empty_like(best)
    found[order] = best
    return found


def score_documents(
    source: SentenceSet,
    candidates: SentenceSet,
    *,
    by: By = "sentences",
    normalisation: Normalisation = "none",
    direction: Direction = "source",
    background: Background | None = None,
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
        normalisation: ``zscore`` brings every row of paragraph scores to mean 0 and deviation 1 over all paragraphs of
            all candidates, as in the paper, or as a background says; ``none`` leaves cosines, as in the published
            code.
        direction: ``source`` looks for the source in the candidate, as the paper does; ``both`` also for the candidate
            in the source, and takes the mean. Scores of the second kind are normalised by paragraph of the source too.
        background: what scores are usually like; None for those of these candidates.

    Returns:
        ``(candidates,)``.

    Raises:
        SettingsError: a name is unknown.
    """
    scorer = DocumentScorer(source, by=by, normalisation=normalisation, direction=direction, background=background)
    scorer.add(candidates)
    return scorer.scores()


class DocumentScorer:
    """Scores candidates that come one set after another (see :func:`score_documents`).

    Memory grows by a number for every source paragraph and candidate, whatever the candidates' length; where both
    directions are normalised without a background, by one for every source paragraph and candidate paragraph.

    Args:
        source: one document.
        by, normalisation, direction, background: see :func:`score_documents`.

    Raises:
        SettingsError: a name is unknown.
    """

    def __init__(
        self,
        source: SentenceSet,
        *,
        by: By = "sentences",
        normalisation: Normalisation = "none",
        direction: Direction = "source",
        background: Background | None = None,
    ) -> None:
        require_one_of("normalisation", normalisation, get_args(Normalisation))
        require_one_of("direction", direction, get_args(Direction))
        self._form = form_of(by)
        self._source = self._form(source)
        self._both = direction == "both"
        self._background = background
        self._is_normalised = normalisation == "zscore"
        self._is_open = self._is_normalised and background is None
        self._best: list[Floats] = []
        self._usual = _Totals(len(self._source.paragraphs) - 1)
        self._reverse: list[tuple[Floats, Rows]] = []
        self._reverse_means: list[Floats] = []

    def add(self, candidates: SentenceSet) -> None:
        """Score more candidates."""
        for first, last in candidates.blocks(BLOCK_SENTENCES):
            some = self._form(candidates.part(first, last))
            part, starts = _scores(self._source, some, self._both), some.documents[:-1]
            if self._is_open:
                self._usual.add(part.forward)
            # The best one of a row is the same before and after it is normalised.
            self._best.append(np.maximum.reduceat(part.forward, starts, axis=1))
            if part.reverse is not None:
                if self._is_open:
                    self._reverse.append((part.reverse, starts))
                else:
                    self._reverse_means.append(_reverse_scores(self._reversed(part.reverse), starts))

    def scores(self) -> Floats:
        """Scores of all candidates so far, ``(candidates,)``, in their order."""
        if not self._best:
            return np.empty(0)
        best = np.concatenate(self._best, axis=1)
        if self._is_normalised:
            best = (self._background or self._usual.background()).normalised(best)
        forward = np.asarray(best.mean(axis=0))
        if not self._both:
            return forward
        found = self._reverse_means
        if self._is_open:
            usual = _Totals(len(best))
            for part, _ in self._reverse:
                usual.add(part)
            background = usual.background()
            found = [_reverse_scores(background.normalised(part), starts) for part, starts in self._reverse]
        return np.asarray((forward + np.concatenate(found)) / 2)

    def _reversed(self, scores: Floats) -> Floats:
        if not self._is_normalised:
            return scores
        assert self._background is not None
        if self._background.reverse is None:
            raise ValueError("the background was made for one direction; make it with direction='both'")
        return self._background.reverse.normalised(scores)


def _reverse_scores(scores: Floats, starts: Rows) -> Floats:
    """Mean over the paragraphs of every candidate of the best paragraph of the source."""
    sums = np.add.reduceat(scores.max(axis=0), starts)
    return np.asarray(sums / np.diff(np.append(starts, scores.shape[1])))


@dataclass(slots=True)
class _Totals:
    """Mean and deviation of rows that come in blocks (Chan, Golub and LeVeque 1979)."""

    rows: int
    count: int = 0
    means: Floats = field(init=False)
    squares: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.means, self.squares = np.zeros(self.rows), np.zeros(self.rows)

    def add(self, scores: Floats) -> None:
        more = scores.shape[1]
        means = scores.mean(axis=1)
        apart = means - self.means
        total = self.count + more
        self.squares += ((scores - means[:, None]) ** 2).sum(axis=1) + apart**2 * (self.count * more / total)
        self.means += apart * (more / total)
        self.count = total

    def background(self) -> Background:
        return Background(self.means, np.sqrt(self.squares / self.count))
