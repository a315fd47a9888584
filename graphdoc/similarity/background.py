"""How alike unrelated documents are, and what is said of a score beside them."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..runtime.arrays import Floats
from .kinds import similarity_matrix

# Shares of pairs that are more alike than each of the scores kept: halved every fourth step, down to one in 2,048.
_STEPS_PER_HALF = 4
_STEPS = np.array([0, 0.0625, 0.25, 0.5, 0.75, *range(1, 45)])
# From this many documents on, their own pairs say how alike unrelated ones are.
FEWEST_DOCUMENTS = 50
# Pairs that have to lie above the last score that is kept, for it to be known well.
_LEAST_ABOVE = 10
# Pairs of like length that are kept apart at least, and into how many lengths at most.
_LEAST_ALIKE, _MOST_LENGTHS = 1_000, 8
# Passages whose pairs say how alike unrelated passages are, and the share of pairs that are less alike than that.
_MOST_PASSAGES, _USUAL = 2_000, 0.99


def unrelated_passages(documents: Sequence[npt.NDArray[Any]]) -> float:
    """The cosine that one in a hundred pairs of passages of different documents exceeds.

    Args:
        documents: ``(passages, hidden)`` each; of many passages some are looked at that stand evenly over all.

    >>> round(unrelated_passages([np.eye(2), np.eye(2)]), 2)
    1.0
    """
    passages = np.concatenate(documents)
    drawn = np.unique(np.linspace(0, len(passages) - 1, min(len(passages), _MOST_PASSAGES)).astype(np.int64))
    owners = np.repeat(np.arange(len(documents)), [len(one) for one in documents])[drawn]
    cosines = similarity_matrix(passages[drawn], passages[drawn])[owners[:, None] < owners]
    return round(float(np.quantile(cosines, _USUAL)), 6)


@dataclass(frozen=True)
class Background:
    """The scores of pairs of documents that were drawn at random, most of which have nothing to do with each other.

    Between two scores that are kept, and beyond the last, the share of pairs above a score falls exponentially, but
    never below one pair. Where lengths are known a pair is measured by pairs of like length: long texts share more.

    Args:
        documents: how many documents the pairs were made of.
        scores: ``(steps,)``, rising: the lowest score, and those that shares of 2^(-1/64), ... 2^(-1/4), 2^(-2/4), ...
            of the pairs are above; none where lengths have to be known.
        passages: the cosine that passages of unrelated documents seldom exceed (:func:`unrelated_passages`), or None.
        by_length: lengths of pairs, rising, and such scores of pairs about as long.
        genres: the backgrounds of genres that are known apart, each with its ``genre``, ``centre`` and ``closeness``.
        genre: what documents of the genre are called, such as "court cases".
        centre: ``(hidden,)``, the mean of their vectors, of unit length (see :meth:`of`).
        closeness: the cosine with the centre from which a document is of the genre.
    """

    documents: int
    scores: tuple[float, ...]
    passages: float | None = None
    by_length: tuple[tuple[float, tuple[float, ...]], ...] = ()
    genres: tuple[Background, ...] = ()
    genre: str = ""
    centre: tuple[float, ...] = ()
    closeness: float = 0.0

    @classmethod
    def from_scores(
        cls, scores: npt.ArrayLike, documents: int, passages: float | None = None, lengths: npt.ArrayLike = ()
    ) -> Self:
        """Learn from the scores of all pairs of some documents, and their lengths, ``(pairs,)`` both.

        >>> Background.from_scores(np.linspace(0, 1, 10_001), 142).share(0.99)
        0.99
        """
        values, sizes = np.asarray(scores, np.float64), np.asarray(lengths, np.float64)
        order = np.argsort(sizes)[: np.isfinite(sizes).sum()]
        parts = np.array_split(order, min(max(len(order) // _LEAST_ALIKE, 1), _MOST_LENGTHS))
        alike = [(round(float(np.median(sizes[part])), 3), _kept_scores(values[part])) for part in parts if len(order)]
        return cls(documents, _kept_scores(values), passages, tuple(alike))

    @property
    def pairs(self) -> str:
        """What people call its pairs: those of a genre, or of many, are told by length alone."""
        return "unrelated pairs" if self.scores else f"unrelated pairs of {self.genre or 'mixed texts'}"

    @property
    def subtopics(self) -> float | None:
        """The mean cosine of sentences from which two documents share a subtopic; None where it is not known.

        It is half of what passages seldom exceed: with ``mini``, most subtopics of unrelated documents lie below.
        """
        return None if self.passages is None else self.passages / 2

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` gave."""
        by_length = tuple((float(length), tuple(map(float, own))) for length, own in values.get("by_length") or ())
        genres = tuple(map(cls.from_values, values.get("genres") or ()))
        scores, centre = (tuple(map(float, values.get(name) or ())) for name in ("scores", "centre"))
        known = int(values["documents"]), scores, values.get("passages"), by_length, genres
        return cls(*known, values.get("genre", ""), centre, values.get("closeness", 0.0))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which a configuration keeps."""
        return {**vars(self), "genres": [one.to_dict() for one in self.genres]}

    def of(self, units: Floats) -> Background:
        """The background of the genre that all of some documents are of, or this one if they are of none.

        Args:
            units: ``(documents, hidden)`` (see :func:`~graphdoc.similarity.evidence.centred_units`).
        """
        beyond = [float((units @ one.centre).min()) - one.closeness for one in self.genres]
        return self.genres[int(np.argmax(beyond))] if max(beyond, default=-1) >= 0 else self

    def share(self, score: float, length: float = np.nan) -> float | None:
        """The share of unrelated pairs that are less alike than a score, 0 to 1; None where it was not measured.

        >>> Background.from_scores(np.linspace(0, 1, 10_001), 142).share(0.5)
        0.5
        """
        sizes, score = [size for size, _ in self.by_length], round(score, 6)
        if sizes and np.isfinite(length):
            place = min(max(bisect(sizes, length), 1), max(len(sizes) - 1, 1))
            near = self.by_length[place - 1 : place + 1]
            step = float(np.interp(length, [size for size, _ in near], [_step_of(score, own) for _, own in near]))
        elif self.scores:
            step = _step_of(score, self.scores)
        else:
            return None
        # Beyond the closest of the pairs that were seen, nothing is known.
        above = max(0.5 ** (step / _STEPS_PER_HALF), 2 / (self.documents * max(self.documents - 1, 1)))
        # As many digits as tell the share above from none.
        return float(f"{1 - above:.{max(3, int(2 - np.log10(max(above, 1e-9))))}f}")


def _kept_scores(scores: Floats) -> tuple[float, ...]:
    steps = _STEPS[_STEPS_PER_HALF * np.log2(max(len(scores) / _LEAST_ABOVE, 2)) >= _STEPS]
    return tuple(np.quantile(scores, 1 - 0.5 ** (steps / _STEPS_PER_HALF)).round(6).tolist())


def _step_of(score: float, scores: tuple[float, ...]) -> float:
    """How often the share of pairs above a score is halved, times the steps of a half."""
    steps = _STEPS[: len(scores)]
    # Of equal scores the first: what is as alike is not less alike.
    place = int(np.searchsorted(scores, score, side="left"))
    if place == 0:
        return 0.0
    if place < len(scores):
        low, high = scores[place - 1], scores[place]
        return float(steps[place - 1] + (steps[place] - steps[place - 1]) * (score - low) / (high - low))
    # As steep as over the last two halvings.
    back = int(np.searchsorted(steps, steps[-1] - 2 * _STEPS_PER_HALF))
    return float(steps[-1] + (score - scores[-1]) * (steps[-1] - steps[back]) / max(scores[-1] - scores[back], 1e-3))


NO_BACKGROUND = (
    "this model has no scale for unrelated documents: its scores can be compared only with each other; graphdoc fit "
    f"learns the scale from {FEWEST_DOCUMENTS} or more of your documents"
)
UNKNOWN_WORDS = (
    "the model knows few words of these documents, and has not measured how alike unrelated ones are by vectors alone"
)
# Of documents that are closer than a smaller share of unrelated pairs nothing can be said.
_LEAST_SIGN = 0.95


def percent_closer(share: float) -> str:
    """The share of unrelated pairs that are less alike, in percent as people read it.

    >>> percent_closer(0.9921), percent_closer(0.99999), percent_closer(0.314)
    ('99.2 %', '99.99 %', '31 %')
    """
    percent = 100 * share
    text = f"{percent:.0f}" if percent < 90 else f"{percent:.1f}" if percent < 99.9 else f"{min(percent, 99.99):.2f}"
    return f"{text} %"


def describe_share(share: float, pairs: str = "unrelated pairs") -> str:
    """What the share of unrelated pairs that are less alike says about two documents.

    >>> describe_share(0.9921), describe_share(0.81)
    ('closer than 99.2 % of unrelated pairs', 'no sign of a relation: 19 of 100 unrelated pairs are closer')
    """
    if share < _LEAST_SIGN:
        return f"no sign of a relation: {100 * (1 - share):.0f} of 100 {pairs} are closer"
    return f"closer than {percent_closer(share)} of {pairs}"
