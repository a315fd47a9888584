"""Where two documents are alike: pairs of their paragraphs and sentences, whose contributions add up to the score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from ..runtime.text import require_one_of
from .hierarchical import Background, By, Direction, Normalisation, SentenceSet, form_of, paragraph_scores

Rows = npt.NDArray[np.int64]


class SentencePair(NamedTuple):
    """A sentence and the best one for it in the other document.

    Args:
        source: number of the source's sentence in its document.
        candidate: number of the candidate's.
        cosine: their similarity.
        contribution: what the pair adds to the score of the documents.
    """

    source: int
    candidate: int
    cosine: float
    contribution: float


class ParagraphPair(NamedTuple):
    """A paragraph and the best one for it in the other document.

    Args:
        source: number of the source's paragraph in its document.
        candidate: number of the candidate's.
        score: mean cosine of their pairs of sentences, or of the paragraphs where these are what was compared.
        contribution: what the pair adds to the score of the documents; the sum of those of its sentences.
        strength: the same without the number of those that were looked for in its direction, by which each adds less
            in the longer document: the score, normalised where scores are; of sentences in the whole of the other
            document (``flat``) the sum of their cosines.
        direction: whether the paragraph of the ``source`` was looked for, or that of the ``candidate``.
        sentences: the pairs of sentences, none where paragraphs or documents were compared as wholes.
    """

    source: int
    candidate: int
    score: float
    contribution: float
    strength: float
    direction: Literal["source", "candidate"]
    sentences: tuple[SentencePair, ...]


@dataclass(frozen=True)
class Alignment:
    """The score of two documents, taken apart.

    Args:
        by: how they were scored (see :func:`~graphdoc.similarity.hierarchical.score_documents`).
        pairs: in the order of the paragraphs that were looked for, first those of the source.
    """

    by: By
    pairs: tuple[ParagraphPair, ...]

    @property
    def score(self) -> float:
        """The score of the documents: the sum of all contributions."""
        return float(sum(pair.contribution for pair in self.pairs))

    def best(self, most: int | None = None) -> tuple[ParagraphPair, ...]:
        """The strongest pairs first; of one direction those that add most."""
        ranked = sorted(self.pairs, key=lambda pair: (-pair.strength, pair.source, pair.candidate))
        return tuple(ranked[:most])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        pairs = [pair._asdict() | {"sentences": [one._asdict() for one in pair.sentences]} for pair in self.pairs]
        return {"by": self.by, "score": self.score, "pairs": pairs}


def align(
    source: SentenceSet,
    candidate: SentenceSet,
    *,
    by: By = "sentences",
    normalisation: Normalisation = "none",
    direction: Direction = "source",
    background: Background | None = None,
) -> Alignment:
    """Take the score of two documents apart.

    Args:
        source: one document.
        candidate: another.
        by: see :func:`~graphdoc.similarity.hierarchical.score_documents`.
        normalisation: see there; the mean that a z-score takes off is spread over the sentences of the paragraph.
        direction: see there.
        background: what scores are usually like; None for those of this candidate alone.

    Raises:
        SettingsError: a name is unknown.
    """
    require_one_of("normalisation", normalisation, get_args(Normalisation))
    require_one_of("direction", direction, get_args(Direction))
    form = form_of(by)
    own, other = form(source), form(candidate)
    # The cosine of one vector each is the same in both directions, and is no two pairs.
    both = direction == "both" and not (by == "document" and normalisation == "none")
    scores = paragraph_scores(own, other, direction=direction)
    usual = None
    if normalisation == "zscore":
        usual = background or Background.of(*scores)
    share = 0.5 if both else 1.0
    forward = _Side(own, other, scores.forward, usual, share)
    found = list(_paragraph_pairs(by, source, candidate, forward, "source"))
    if both:
        assert scores.reverse is not None
        back = None if usual is None else usual.reverse
        if usual is not None and back is None:
            raise ValueError("the background was made for one direction; make it with direction='both'")
        reverse = _Side(other, own, scores.reverse.T, back, share, by_column=True)
        found += _paragraph_pairs(by, candidate, source, reverse, "candidate")
    return Alignment(by, tuple(found))


@dataclass(frozen=True)
class _Side:
    """One direction: what is looked for, what it is looked for in, and the scores of their paragraphs."""

    looked_for: SentenceSet
    searched: SentenceSet
    scores: npt.NDArray[np.float64]
    usual: Background | None
    share: float
    by_column: bool = False

    def pairs(self) -> Iterator[tuple[int, int, list[SentencePair]]]:
        """For every paragraph that is looked for the best one, with what its sentences add."""
        ranked, means, factors = self._normalised()
        for number, best in enumerate(ranked.argmax(axis=1).tolist()):
            rows = slice(*self.looked_for.paragraphs[number : number + 2].tolist())
            columns = slice(*self.searched.paragraphs[best : best + 2].tolist())
            cosines = np.asarray(self.looked_for.vectors[rows]) @ np.asarray(self.searched.vectors[columns]).T
            weight = self.share / (len(cosines) * len(ranked))
            at = self._place(number, best)
            yield (
                number,
                best,
                [
                    SentencePair(
                        rows.start + row,
                        columns.start + column,
                        float(cosines[row, column]),
                        float((cosines[row, column] - means[at]) * factors[at] * weight),
                    )
                    for row, column in enumerate(cosines.argmax(axis=1).tolist())
                ],
            )

    def _place(self, number: int, best: int) -> int:
        """The row of the background: that of the source's paragraph."""
        return best if self.by_column else number

    def _normalised(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        if self.usual is None:
            rows = self.scores.shape[1 if self.by_column else 0]
            return self.scores, np.zeros(rows), np.ones(rows)
        scores = self.usual.normalised(self.scores.T).T if self.by_column else self.usual.normalised(self.scores)
        return scores, self.usual.means, self.usual.factors


def _paragraph_pairs(
    by: By,
    looked_for: SentenceSet,
    searched: SentenceSet,
    side: _Side,
    direction: Literal["source", "candidate"],
) -> Iterator[ParagraphPair]:
    """Pairs of paragraphs as the documents have them, which is not always how they were compared."""
    has_sentences = side.looked_for.vectors is looked_for.vectors
    # Of paragraphs, or of all sentences as one.
    count = len(side.looked_for.vectors) if by == "flat" else len(side.looked_for.paragraphs) - 1
    for number, best, sentences in side.pairs():
        if not has_sentences:
            (whole,) = sentences
            places = (number, best) if direction == "source" else (best, number)
            strength = whole.contribution * count / side.share
            yield ParagraphPair(*places, whole.cosine, whole.contribution, strength, direction, ())
            continue
        for place, own in _by_paragraph(looked_for, searched, sentences).items():
            pairs = tuple(own if direction == "source" else (_turned(pair) for pair in own))
            added = float(sum(pair.contribution for pair in own))
            yield ParagraphPair(
                *(place if direction == "source" else place[::-1]),
                float(np.mean([pair.cosine for pair in own])),
                added,
                added * count / side.share,
                direction,
                pairs,
            )


def _by_paragraph(
    looked_for: SentenceSet, searched: SentenceSet, sentences: list[SentencePair]
) -> dict[tuple[int, int], list[SentencePair]]:
    found: dict[tuple[int, int], list[SentencePair]] = {}
    for pair in sentences:
        place = _paragraph_of(looked_for, pair.source), _paragraph_of(searched, pair.candidate)
        found.setdefault(place, []).append(pair)
    return dict(sorted(found.items()))


def _paragraph_of(sentences: SentenceSet, row: int) -> int:
    return int(np.searchsorted(sentences.paragraphs, row, side="right")) - 1


def _turned(pair: SentencePair) -> SentencePair:
    return SentencePair(pair.candidate, pair.source, pair.cosine, pair.contribution)
