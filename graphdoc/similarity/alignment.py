"""Where two documents are alike: pairs of their paragraphs and sentences, whose contributions add up to the score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ..runtime.arrays import Floats
from ..runtime.text import require_one_of
from .hierarchical import Direction, Normalization, ScoreMoments, SentenceScoring, SentenceSet, paragraph_scores


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
        strength: the contribution without the number of those that were looked for in its direction, by which each
            adds less in the longer document.
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
    """The score of two documents, taken apart into pairs in the order of the paragraphs that were looked for."""

    by: SentenceScoring
    pairs: tuple[ParagraphPair, ...]

    @property
    def score(self) -> float:
        """The score of the documents: the sum of all contributions."""
        return float(sum(pair.contribution for pair in self.pairs))

    def best(self, top_k: int | None = None) -> tuple[ParagraphPair, ...]:
        """The strongest pairs first; of one direction those that add most."""
        return tuple(sorted(self.pairs, key=lambda pair: (-pair.strength, pair.source, pair.candidate))[:top_k])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        pairs = [pair._asdict() | {"sentences": [one._asdict() for one in pair.sentences]} for pair in self.pairs]
        return {"by": self.by, "score": self.score, "pairs": pairs}


def align(
    source: SentenceSet,
    candidate: SentenceSet,
    *,
    by: SentenceScoring = "sentences",
    normalization: Normalization = "none",
    direction: Direction = "source",
    moments: ScoreMoments | None = None,
) -> Alignment:
    """Take the score of two documents apart (see :func:`~graphdoc.similarity.hierarchical.score_documents`).

    The mean that a z-score takes off is spread over the sentences of the paragraph.
    """
    require_one_of("normalization", normalization, get_args(Normalization))
    require_one_of("direction", direction, get_args(Direction))
    parts, other_parts = source.compared_by(by), candidate.compared_by(by)
    # The cosine of one vector each is the same in both directions, and is no two pairs.
    both = direction == "both" and not (by == "document" and normalization == "none")
    scores = paragraph_scores(parts, other_parts, direction=direction)
    if normalization == "zscore":
        moments = moments or ScoreMoments.from_scores(*scores)
        means, factors = moments.means[:, None], moments.factors[:, None]
    else:
        moments, means, factors = None, np.zeros((1, 1)), np.ones((1, 1))
    share = 0.5 if both else 1.0
    pairs = _pairs(by, (source, parts), (candidate, other_parts), scores.forward, means, factors, share)
    if both:
        assert scores.reverse is not None
        if moments is not None:
            means, factors = moments.reversed.means[:, None], moments.reversed.factors[:, None]
        # What is looked for stands in rows here too.
        turned = scores.reverse.T, means.T, factors.T
        pairs += map(_turned, _pairs(by, (candidate, other_parts), (source, parts), *turned, share))
    return Alignment(by, tuple(pairs))


def _pairs(
    by: SentenceScoring,
    looked_for: tuple[SentenceSet, SentenceSet],
    searched: tuple[SentenceSet, SentenceSet],
    scores: Floats,
    means: Floats,
    factors: Floats,
    share: float,
) -> list[ParagraphPair]:
    """Find the best paragraph of the other document for every paragraph that is looked for.

    Both documents come with their parts, which are compared in place of sentences. Scores ``(parts looked for, parts
    searched)`` are normalized by means and factors that are broadcast to them.
    """
    (document, parts), (other, other_parts) = looked_for, searched
    means, factors = np.broadcast_to(means, scores.shape), np.broadcast_to(factors, scores.shape)
    has_sentences = by in ("sentences", "flat")
    count = len(parts.vectors) if by == "flat" else len(scores)
    found = []
    for number, best in enumerate(((scores - means) * factors).argmax(axis=1).tolist()):
        rows = slice(*parts.paragraphs[number : number + 2].tolist())
        columns = slice(*other_parts.paragraphs[best : best + 2].tolist())
        cosines = np.asarray(parts.vectors[rows]) @ np.asarray(other_parts.vectors[columns]).T
        scale = factors[number, best] * (share / (len(cosines) * len(scores)))
        # Pairs of paragraphs as the documents have them, which is not always how they were compared.
        by_paragraphs: dict[tuple[int, int], list[SentencePair]] = {}
        for row, column in enumerate(cosines.argmax(axis=1).tolist(), rows.start):
            cosine = float(cosines[row - rows.start, column])
            pair = SentencePair(row, columns.start + column, cosine, float((cosine - means[number, best]) * scale))
            places = number, best
            if has_sentences:
                places = _paragraph_of(document, pair.source), _paragraph_of(other, pair.candidate)
            by_paragraphs.setdefault(places, []).append(pair)
        for places, group in sorted(by_paragraphs.items()):
            added = float(sum(pair.contribution for pair in group))
            mean = float(np.mean([pair.cosine for pair in group]))
            sentences = tuple(group) if has_sentences else ()
            found.append(ParagraphPair(*places, mean, added, added * count / share, "source", sentences))
    return found


def _paragraph_of(sentences: SentenceSet, row: int) -> int:
    return int(np.searchsorted(sentences.paragraphs, row, side="right")) - 1


def _turned(pair: ParagraphPair) -> ParagraphPair:
    sentences = tuple(one._replace(source=one.candidate, candidate=one.source) for one in pair.sentences)
    return pair._replace(source=pair.candidate, candidate=pair.source, direction="candidate", sentences=sentences)
