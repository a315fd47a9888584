"""From passages to documents: the score of a document is the sum of those of its best passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .lance import Candidates

BEST_PASSAGES = 3

Scores = dict[str, float]
"""Scores by document."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A document with its score in one ranking, and the passages that the score is the sum of.

    Args:
        id: the document.
        score: larger is better.
        passages: number and score of the passages found, best first; empty where only the whole document was.
    """

    id: str
    score: float
    passages: tuple[tuple[int, float], ...] = ()


def group_passages(found: Candidates, best: int = BEST_PASSAGES) -> list[Scored]:
    """Rank documents by the sum of their best passages.

    Args:
        found: passages, in any order.
        best: passages that count.

    Returns:
        The documents, best first; those of equal score by id.

    >>> import numpy as np
    >>> found = Candidates(("a", "b", "b"), (0, 0, 4), np.array([3.0, 2.0, 2.0]))
    >>> [(one.id, one.score) for one in group_passages(found)]
    [('b', 4.0), ('a', 3.0)]
    """
    passages: dict[str, list[tuple[int, float]]] = {}
    scores = found.scores.tolist()
    # Once for all documents: best first, and those of equal score in their order in the document.
    for row in np.lexsort((np.asarray(found.numbers), -found.scores)).tolist():
        passages.setdefault(found.ids[row], []).append((found.numbers[row], scores[row]))
    return in_order([Scored(id, sum([score for _, score in own[:best]]), tuple(own)) for id, own in passages.items()])


def whole_documents(found: Candidates) -> list[Scored]:
    """The documents of a search that ranks them as wholes, best first; those of equal score by id."""
    return in_order([Scored(id, score) for id, score in zip(found.ids, found.scores.tolist(), strict=True)])


def with_whole(passages: list[Scored], whole: list[Scored]) -> list[Scored]:
    """Add the score of a whole document to that of its best passages; what one of both did not find adds nothing.

    >>> with_whole([Scored("a", 3.0, ((0, 3.0),))], [Scored("b", 4.0), Scored("a", 2.0)])
    [Scored(id='a', score=5.0, passages=((0, 3.0),)), Scored(id='b', score=4.0, passages=())]
    """
    scores = as_run(passages)
    for one in whole:
        scores[one.id] = scores.get(one.id, 0.0) + one.score
    found = {one.id: one.passages for one in passages}
    return in_order([Scored(id, score, found.get(id, ())) for id, score in scores.items()])


def in_order(documents: list[Scored]) -> list[Scored]:
    """Documents best first; those of equal score by id, so that no run depends on chance."""
    return sorted(documents, key=lambda one: (-one.score, one.id))


def as_run(documents: list[Scored]) -> Scores:
    """Scores by document."""
    return {one.id: one.score for one in documents}
