"""From passages to documents, and from several rankings of documents to one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .lance import Candidates

Fusion = Literal["reciprocal_rank", "weighted"]
# Cormack, Clarke and Buettcher 2009.
RANK_CONSTANT = 60.0
# The score of a document is the sum of those of its best passages.
BEST_PASSAGES = 3

Scores = dict[str, float]
"""Scores by document."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The documents that one search finds.

    Args:
        scores: by document, best first; those of equal score by id.
        passages: scores of the passages found by their number, best first, by document; none of a document that was
            found as a whole.
    """

    scores: Scores
    passages: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    @classmethod
    def of_passages(cls, found: Candidates) -> Ranking:
        """Rank documents by the sum of their best passages.

        >>> Ranking.of_passages(Candidates(("a", "b", "b"), (0, 0, 4), np.array([3.0, 2.0, 2.0]))).scores
        {'b': 4.0, 'a': 3.0}
        """
        passages: dict[str, dict[int, float]] = {}
        scores = found.scores.tolist()
        # Once for all documents: best first, and those of equal score in their order in the document.
        for row in np.lexsort((np.asarray(found.numbers), -found.scores)).tolist():
            passages.setdefault(found.ids[row], {})[found.numbers[row]] = scores[row]
        totals = {id: sum(list(own.values())[:BEST_PASSAGES]) for id, own in passages.items()}
        return cls(best_first(totals), passages)

    @classmethod
    def of_documents(cls, found: Candidates) -> Ranking:
        """Rank documents that were found as wholes."""
        return cls(best_first(dict(zip(found.ids, found.scores.tolist(), strict=True))))

    def plus(self, whole: Ranking) -> Ranking:
        """Add the scores of whole documents; what one of both did not find adds nothing."""
        totals = dict(self.scores)
        for id, score in whole.scores.items():
            totals[id] = totals.get(id, 0.0) + score
        return Ranking(best_first(totals), self.passages)


@dataclass(frozen=True, slots=True)
class Part:
    """What one ranking gives a document.

    Args:
        rank: its place there, from 1.
        score: its score there.
        share: what it adds to the fused score.
    """

    rank: int
    score: float
    share: float


@dataclass(frozen=True, slots=True)
class Fused:
    """A document in the fused ranking.

    Args:
        id: the document.
        score: the sum of the shares of its parts.
        parts: by ranking, of those that found it.
    """

    id: str
    score: float
    parts: Mapping[str, Part]


def fuse(
    rankings: Mapping[str, Mapping[str, float]],
    fusion: Fusion = "reciprocal_rank",
    weights: Mapping[str, float] | None = None,
    most: int | None = None,
) -> list[Fused]:
    """Fuse rankings; the scores of a single one stay as they are.

    ``reciprocal_rank``: a document has ``weight / (60 + rank)`` from each ranking that found it. ``weighted``: scores
    of a ranking are brought to 0 to 1, by its lowest and its highest, and added up with the weights (Graph-RoBERTa,
    section 3.3); a ranking that did not find a document gives it 0.

    Args:
        rankings: scores by document of every ranking, larger is better.
        fusion: how they are fused.
        weights: weight of every ranking; None for the same.
        most: documents wanted; None for all.

    Returns:
        The documents, best first; those of equal score by id. The score is the sum of the shares.

    >>> best = fuse({"words": {"a": 9.0, "b": 7.0}, "vectors": {"b": 0.8, "c": 0.1}})
    >>> [document.id for document in best]
    ['b', 'a', 'c']
    """
    if len(rankings) == 1:
        shares = {name: best_first(scores) for name, scores in rankings.items()}
    else:
        shares = _shares(rankings, fusion, weights)
    chosen = dict(list(_sums(shares).items())[:most])
    parts: dict[str, dict[str, Part]] = {id: {} for id in chosen}
    for name, own in shares.items():
        for rank, (id, share) in enumerate(own.items(), start=1):
            if id in parts:
                parts[id][name] = Part(rank, rankings[name][id], share)
    return [Fused(id, score, parts[id]) for id, score in chosen.items()]


def fused_scores(
    rankings: Mapping[str, Mapping[str, float]],
    fusion: Fusion = "reciprocal_rank",
    weights: Mapping[str, float] | None = None,
) -> Scores:
    """Scores of two or more rankings fused as by :func:`fuse`, by document, best first.

    >>> list(fused_scores({"words": {"a": 9.0, "b": 7.0}, "vectors": {"b": 0.8, "c": 0.1}}))
    ['b', 'a', 'c']
    """
    return _sums(_shares(rankings, fusion, weights))


def best_first(scores: Mapping[str, float]) -> Scores:
    """The same scores, best first; those of equal score by id, so that no run depends on chance."""
    return dict(sorted(scores.items(), key=lambda scored: (-scored[1], scored[0])))


def _shares(
    rankings: Mapping[str, Mapping[str, float]], fusion: Fusion, weights: Mapping[str, float] | None
) -> dict[str, Scores]:
    """What every ranking adds to the score of its documents, best first."""
    shares = {}
    for name, ranking in rankings.items():
        weight, scores = 1.0 if weights is None else weights[name], best_first(ranking)
        own = _SHARES[fusion](list(scores.values()))
        shares[name] = {id: weight * share for id, share in zip(scores, own, strict=True)}
    return shares


def _sums(shares: Mapping[str, Mapping[str, float]]) -> Scores:
    totals: Scores = {}
    for own in shares.values():
        for id, share in own.items():
            totals[id] = totals.get(id, 0.0) + share
    return best_first(totals)


def _reciprocal_ranks(scores: Sequence[float]) -> list[float]:
    return [1 / (RANK_CONSTANT + rank) for rank in range(1, len(scores) + 1)]


def _scaled(scores: Sequence[float]) -> list[float]:
    lowest, highest = (min(scores), max(scores)) if scores else (0.0, 0.0)
    # Where all are alike there is nothing to tell them by, and each was found.
    return [(score - lowest) / (highest - lowest) if highest > lowest else 1.0 for score in scores]


# What a ranking gives its documents, by their scores from the best on.
_SHARES: dict[Fusion, Callable[[Sequence[float]], list[float]]] = {
    "reciprocal_rank": _reciprocal_ranks,
    "weighted": _scaled,
}
FUSIONS: tuple[str, ...] = tuple(_SHARES)
