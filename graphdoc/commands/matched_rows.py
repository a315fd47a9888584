"""Pairs that were matched, with the words of their whole texts beside what the model says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import SettingsError

if TYPE_CHECKING:
    from ..matching import PairMatch

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MatchedRow:
    """A pair and its score.

    Args:
        a: id of the first document.
        b: id of the second.
        match: what the model says.
        score: the score: that of the model, or with words the sum of both.
        words: TF-IDF cosine of both texts; None where words do not count.
    """

    a: str
    b: str
    match: PairMatch
    score: float
    words: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row of a table; with words also the score of the model."""
        own: dict[str, Any] = {"a": self.a, "b": self.b, "score": self.score, "probability": self.match.probability}
        return own if self.words is None else own | {"match": self.match.score, "words": self.words}


def matched_rows(ids: Iterable[tuple[str, str]], matches: Sequence[PairMatch], weight: float) -> list[MatchedRow]:
    """The rows of pairs, in their order.

    Args:
        ids: ids of both documents of every pair.
        matches: what the model says of it.
        weight: weight of words, from 0 to 1; the model has the rest.

    Raises:
        SettingsError: words are asked for, and there are no pairs to compare a pair with.
    """
    if not weight:
        return [MatchedRow(a, b, match, match.score) for (a, b), match in zip(ids, matches, strict=True)]
    if len(matches) == 1:
        raise SettingsError("--words compares a pair with others, and one alone is known; leave it out")
    if not matches:
        return []
    from ..evaluation.pair_scores import standard_scores

    words = _tfidf(matches)
    model = np.array([match.score for match in matches])
    scores = (1 - weight) * standard_scores(model) + weight * standard_scores(words)
    rows = zip(ids, matches, scores.tolist(), words.tolist(), strict=True)
    return [MatchedRow(a, b, match, score, own) for (a, b), match, score, own in rows]


def _tfidf(matches: Sequence[PairMatch]) -> Floats:
    from ..evaluation.baselines import tfidf_similarities

    texts: list[str] = []
    # By the object, since queries and documents may have the same ids.
    places: dict[int, int] = {}
    pairs = []
    for match in matches:
        pair = []
        for document in (match.a.document, match.b.document):
            if id(document) not in places:
                places[id(document)] = len(texts)
                texts.append(document.text)
            pair.append(places[id(document)])
        pairs.append(pair)
    return tfidf_similarities(texts, np.array(pairs, np.int64))
