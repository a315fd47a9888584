"""From passages to documents, and from several rankings of documents to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..errors import SettingsError
from ..runtime.text import described
from .lance import Candidates

Fusion = Literal["reciprocal_rank", "weighted"]
FUSIONS: tuple[str, ...] = get_args(Fusion)
# Cormack, Clarke and Buettcher 2009.
RANK_CONSTANT = 60.0
# The score of a document is the sum of those of its best passages.
BEST_PASSAGES = 3

Scores = dict[str, float]
"""Scores by document."""


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document with its score in one ranking, and the passages that the score is the sum of.

    Args:
        id: the document.
        score: larger is better.
        passages: number and score of the passages found, best first; empty where only the whole document was.
    """

    id: str
    score: float
    passages: tuple[tuple[int, float], ...] = ()


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
    """A document in the joined ranking.

    Args:
        id: the document.
        score: the sum of the shares of its parts.
        parts: by ranking, of those that found it.
    """

    id: str
    score: float
    parts: Mapping[str, Part]


def group_passages(found: Candidates, best: int = BEST_PASSAGES) -> list[RankedDocument]:
    """Rank documents by the sum of their best passages.

    Args:
        found: passages, in any order.
        best: passages that count.

    Returns:
        The documents, best first; those of equal score by id.

    >>> found = Candidates(("a", "b", "b"), (0, 0, 4), np.array([3.0, 2.0, 2.0]))
    >>> [(document.id, document.score) for document in group_passages(found)]
    [('b', 4.0), ('a', 3.0)]
    """
    passages: dict[str, list[tuple[int, float]]] = {}
    scores = found.scores.tolist()
    # Once for all documents: best first, and those of equal score in their order in the document.
    for row in np.lexsort((np.asarray(found.numbers), -found.scores)).tolist():
        passages.setdefault(found.ids[row], []).append((found.numbers[row], scores[row]))
    return _best_first(
        [RankedDocument(id, sum([score for _, score in own[:best]]), tuple(own)) for id, own in passages.items()]
    )


def whole_documents(found: Candidates) -> list[RankedDocument]:
    """The documents of a search that ranks them as wholes, best first; those of equal score by id."""
    return _best_first([RankedDocument(*pair) for pair in zip(found.ids, found.scores.tolist(), strict=True)])


def with_whole(passages: list[RankedDocument], whole: list[RankedDocument]) -> list[RankedDocument]:
    """Add the score of a whole document to that of its best passages; what one of both did not find adds nothing.

    >>> with_whole([RankedDocument("a", 3.0, ((0, 3.0),))], [RankedDocument("b", 4.0), RankedDocument("a", 2.0)])
    [RankedDocument(id='a', score=5.0, passages=((0, 3.0),)), RankedDocument(id='b', score=4.0, passages=())]
    """
    scores = scores_of(passages)
    for document in whole:
        scores[document.id] = scores.get(document.id, 0.0) + document.score
    of_passages = {document.id: document.passages for document in passages}
    return _best_first([RankedDocument(id, score, of_passages.get(id, ())) for id, score in scores.items()])


def scores_of(documents: Sequence[RankedDocument]) -> Scores:
    """Scores by document."""
    return {document.id: document.score for document in documents}


def _best_first(documents: list[RankedDocument]) -> list[RankedDocument]:
    # Those of equal score by id, so that no run depends on chance.
    return sorted(documents, key=lambda document: (-document.score, document.id))


def fuse(
    rankings: Mapping[str, Mapping[str, float]],
    fusion: Fusion = "reciprocal_rank",
    weights: Mapping[str, float] | None = None,
    most: int | None = None,
) -> list[Fused]:
    """Join rankings; the scores of a single one stay as they are.

    ``reciprocal_rank``: a document has ``weight / (60 + rank)`` from each ranking that found it. ``weighted``: scores
    of a ranking are brought to 0 to 1, by its lowest and its highest, and added up with the weights (Graph-RoBERTa,
    section 3.3); a ranking that did not find a document gives it 0.

    Args:
        rankings: scores by document of every ranking, larger is better.
        fusion: how they are joined.
        weights: weight of every ranking; None for the same.
        most: documents wanted; None for all.

    Returns:
        The documents, best first; those of equal score by id. The score is the sum of the shares.

    Raises:
        SettingsError: the fusion is unknown, or a weight is negative or missing.

    >>> best = fuse({"words": {"a": 9.0, "b": 7.0}, "vectors": {"b": 0.8, "c": 0.1}})
    >>> [document.id for document in best]
    ['b', 'a', 'c']
    """
    if len(rankings) == 1:
        shares = {name: {id: scores[id] for id in _in_order(scores)} for name, scores in rankings.items()}
    else:
        shares = _shares(rankings, fusion, weights)
    ranks = {name: {id: rank for rank, id in enumerate(own, start=1)} for name, own in shares.items()}
    return [
        Fused(
            id,
            score,
            {name: Part(ranks[name][id], rankings[name][id], own[id]) for name, own in shares.items() if id in own},
        )
        for id, score in _summed(shares, most)
    ]


def fused_scores(
    rankings: Mapping[str, Mapping[str, float]],
    fusion: Fusion = "reciprocal_rank",
    weights: Mapping[str, float] | None = None,
) -> Scores:
    """Scores of two or more rankings joined as by :func:`fuse`, by document, best first.

    >>> list(fused_scores({"words": {"a": 9.0, "b": 7.0}, "vectors": {"b": 0.8, "c": 0.1}}))
    ['b', 'a', 'c']
    """
    return dict(_summed(_shares(rankings, fusion, weights)))


def _shares(
    rankings: Mapping[str, Mapping[str, float]], fusion: Fusion, weights: Mapping[str, float] | None
) -> dict[str, Scores]:
    """What every ranking adds to the score of its documents, best first."""
    if fusion not in FUSIONS:
        raise SettingsError(f"fusion is {described(fusion)}; choose one of {', '.join(FUSIONS)}")
    shares = _reciprocal_ranks if fusion == "reciprocal_rank" else _scaled
    found = {}
    for name, scores in rankings.items():
        weight, order = _weight(name, weights), _in_order(scores)
        own = shares([scores[id] for id in order])
        found[name] = {id: weight * share for id, share in zip(order, own, strict=True)}
    return found


def _summed(shares: Mapping[str, Mapping[str, float]], most: int | None = None) -> list[tuple[str, float]]:
    totals: Scores = {}
    for own in shares.values():
        for id, share in own.items():
            totals[id] = totals.get(id, 0.0) + share
    return [(id, totals[id]) for id in _in_order(totals)[:most]]


def _in_order(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda id: (-scores[id], id))


def _weight(name: str, weights: Mapping[str, float] | None) -> float:
    if weights is None:
        return 1.0
    value = weights.get(name)
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise SettingsError(f"the weight of {name} is {described(value)}; give a number of 0 or more")
    return float(value)


def _reciprocal_ranks(scores: Sequence[float]) -> list[float]:
    return [1 / (RANK_CONSTANT + rank) for rank in range(1, len(scores) + 1)]


def _scaled(scores: Sequence[float]) -> list[float]:
    lowest, highest = (min(scores), max(scores)) if scores else (0.0, 0.0)
    # Where all are alike there is nothing to tell them by, and each was found.
    return [(score - lowest) / (highest - lowest) if highest > lowest else 1.0 for score in scores]
