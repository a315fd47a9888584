"""Documents ranked by words or vectors, and rankings fused to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from .lance import RankedRows
from .results import Part

Fusion = Literal["score", "reciprocal_rank", "weighted"]
Scores = dict[str, float]
"""Scores by document."""
# What the best passages of a document count, in their order; together they count 1.
PASSAGE_WEIGHTS = tuple(weight / 1.35 for weight in (1.0, 0.25, 0.1))
# Cormack, Clarke and Buettcher 2009.
RANK_CONSTANT = 60.0


@dataclass(frozen=True, slots=True)
class Ranking:
    """The documents that one search finds: scores, best first, and whether every document that matches is here.

    ``passages`` gives scores of the passages found, best first by number; none where it was found whole.
    """

    scores: Scores
    passages: Callable[[str], Mapping[int, float]] = lambda id: {}
    is_complete: bool = True

    @classmethod
    def from_rows(cls, rows: RankedRows, *whole: RankedRows) -> Ranking:
        """Rank documents by their rows, or by their three best passages, of which the others count less than the best.

        A document that has fewer counts as if its best were repeated: a short answer is no worse than a long one. What
        a longer document has beside those that were found is at most as good as the last that was found. The scores of
        ``whole`` documents are added.

        >>> rows = RankedRows(("a", "b", "b"), np.array([3.0, 2.0, 2.0]), True, (0, 0, 4), (1, 9, 9))
        >>> list(Ranking.from_rows(rows).scores)
        ['a', 'b']
        """
        is_complete = all(one.is_complete for one in (rows, *whole))
        if not rows.passage_numbers:
            return cls(summed(map(_by_id, (rows, *whole))), is_complete=is_complete)
        places = {id: place for place, id in enumerate(dict.fromkeys(rows.ids))}
        owners = np.array([places[id] for id in rows.ids], np.int64)
        # Document after document: best first, and passages of equal score in their order in the document.
        order = np.lexsort((np.asarray(rows.passage_numbers), -rows.scores, owners))
        owners, scores, found = owners[order], rows.scores[order], np.bincount(owners, minlength=len(places))
        ends, most = np.cumsum(found), len(PASSAGE_WEIGHTS)
        ranks = np.arange(len(owners)) - (ends - found)[owners]
        counts = dict(zip(rows.ids, rows.passages, strict=True))
        sizes = np.maximum(found, [counts.get(id, 0) for id in places])
        best = np.full((len(places), most), 0.0 if rows.is_complete else scores.min(initial=np.inf))
        best[owners[ranks < most], ranks[ranks < most]] = scores[ranks < most]
        best = np.where(np.arange(most) < sizes[:, None], best, best[:, :1])
        first, second, third = (weight * best[:, rank] for rank, weight in enumerate(PASSAGE_WEIGHTS))
        totals = first + second + third
        numbers = np.asarray(rows.passage_numbers)[order]

        def passages(id: str) -> Mapping[int, float]:
            place = places.get(id)
            if place is None:
                return {}
            own = slice(ends[place] - found[place], ends[place])
            return dict(zip(numbers[own].tolist(), scores[own].tolist(), strict=True))

        of_passages = dict(zip(places, totals.tolist(), strict=True))
        return cls(summed((of_passages, *map(_by_id, whole))), passages, is_complete)


def _by_id(rows: RankedRows) -> Scores:
    return dict(zip(rows.ids, rows.scores.tolist(), strict=True))


class Fused(NamedTuple):
    """A document in the fused ranking: its score, the sum of the shares of its parts, by ranking that found it."""

    id: str
    score: float
    parts: Mapping[str, Part]


def fuse(
    rankings: Mapping[str, Mapping[str, float]],
    fusion: Fusion = "score",
    weights: Mapping[str, float] | None = None,
    top_k: int | None = None,
    floors: Mapping[str, float] | None = None,
) -> list[Fused]:
    """Fuse rankings; the scores of a single one stay as they are.

    ``score``: a document adds how far its score lies above the lowest of the ranking, in standard deviations over all
    documents that any ranking found. ``reciprocal_rank``: it has ``weight / (60 + rank)`` from each ranking that found
    it. ``weighted``: scores of a ranking are brought to 0 to 1, by its lowest and its highest, and added up with the
    weights (Graph-RoBERTa, section 3.3). A ranking that did not find a document gives it 0.

    Args:
        rankings: scores by document of every ranking, larger is better.
        fusion: how they are fused.
        weights: weight of every ranking; None for the same.
        top_k: documents wanted; None for all.
        floors: by ``score``, what a document has that a ranking did not find, where that is less than the lowest.

    Returns:
        The documents, best first; those of equal score by id. The score is the sum of the shares.

    >>> best = fuse({"words": {"a": 9.0, "b": 8.0, "c": 2.0}, "vectors": {"b": 0.8, "c": 0.1}})
    >>> [document.id for document in best]
    ['b', 'a', 'c']
    """
    if len(rankings) == 1:
        shares = {name: best_first(scores) for name, scores in rankings.items()}
        totals = next(iter(shares.values()))
    else:
        shares = _shares(rankings, fusion, weights, floors or {})
        totals = summed(shares.values())
    chosen = dict(islice(totals.items(), top_k))
    parts: dict[str, dict[str, Part]] = {id: {} for id in chosen}
    for name, shared in shares.items():
        ranks = shared_places({id: rankings[name][id] for id in islice(shared, top_k if len(shares) == 1 else None)})
        for id in parts.keys() & shared.keys():
            parts[id][name] = Part(ranks[id], rankings[name][id], shared[id])
    return [Fused(id, score, parts[id]) for id, score in chosen.items()]


def fused_scores(
    rankings: Mapping[str, Mapping[str, float]], fusion: Fusion = "score", weights: Mapping[str, float] | None = None
) -> Scores:
    """Scores of two or more rankings fused as by :func:`fuse`, by document, best first.

    >>> list(fused_scores({"words": {"a": 9.0, "b": 8.0, "c": 2.0}, "vectors": {"b": 0.8, "c": 0.1}}))
    ['b', 'a', 'c']
    """
    return summed(_shares(rankings, fusion, weights, {}).values())


def lowered(found: Sequence[Fused], highest: float) -> list[Fused]:
    """Documents below a score: where the best is not, all are by as much lower, and their shares together."""
    by = max(0.0, found[0].score - highest + 1e-9) if found else 0.0
    return [
        Fused(id, score - by, {one: replace(part, share=part.share - by / len(parts)) for one, part in parts.items()})
        for id, score, parts in found
    ]


def best_first(scores: Mapping[str, float]) -> Scores:
    """The same scores, best first; those of equal score by id, so that no run depends on chance."""
    return {id: scores[id] for id in sorted(sorted(scores), key=scores.__getitem__, reverse=True)}


def shared_places(scores: Mapping[str, float]) -> dict[str, int]:
    """Places of documents from 1, of scores that are best first; equal scores share one."""
    first: dict[float, int] = {}
    return {id: first.setdefault(score, place) for place, (id, score) in enumerate(scores.items(), start=1)}


def summed(parts: Iterable[Mapping[str, float]]) -> Scores:
    """Scores added up by document, best first; what one does not have adds nothing."""
    totals: Scores = {}
    for scores in parts:
        for id, score in scores.items():
            totals[id] = totals.get(id, 0.0) + score
    return best_first(totals)


def _shares(
    rankings: Mapping[str, Mapping[str, float]],
    fusion: Fusion,
    weights: Mapping[str, float] | None,
    floors: Mapping[str, float],
) -> dict[str, Scores]:
    """What every ranking adds to the score of its documents, best first."""
    shares, count = {}, len(set().union(*rankings.values()))
    for name, ranking in rankings.items():
        weight, scores = 1.0 if weights is None else weights[name], best_first(ranking)
        values = np.array(list(scores.values()))
        if fusion == "reciprocal_rank":
            added = 1 / (RANK_CONSTANT + np.array(list(shared_places(scores).values())))
        else:
            lowest = values.min(initial=np.inf)
            if fusion == "weighted":
                above = values - lowest
                spread = above.max(initial=0.0)
            else:
                above = values - min(lowest, floors.get(name, np.inf))
                spread = np.pad(above, (0, count - len(above))).std() if count else 0.0
            # Where all are alike there is nothing to tell them by, and each was found.
            added = above / spread if spread > 0 else np.ones(len(values))
        shares[name] = dict(zip(scores, (weight * added).tolist(), strict=True))
    return shares
