"""How alike unrelated documents are: what a score is compared with, so that a person can read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

# Shares of pairs that are more alike than each of the scores kept: halved every fourth step, down to one in 2,048.
_STEPS_PER_HALF = 4
_STEPS = np.array([0, 0.0625, 0.25, 0.5, 0.75, *range(1, 45)])
# From so many documents on their own pairs say how alike unrelated ones are.
FEWEST_DOCUMENTS = 50
# Pairs that have to lie above the last score that is kept, for it to be known well.
_LEAST_ABOVE = 10


@dataclass(frozen=True)
class Background:
    """The scores of pairs of documents that were drawn at random, most of which have nothing to do with each other.

    Between two scores that are kept, and beyond the last, the share of pairs above a score falls exponentially, but
    never below one pair.

    Args:
        documents: how many documents the pairs were made of.
        scores: ``(steps,)``, rising: the lowest score, and those that shares of 2^(-1/64), ... 2^(-1/4), 2^(-2/4), ...
            of the pairs are above.
    """

    documents: int
    scores: tuple[float, ...]

    @classmethod
    def of(cls, scores: npt.NDArray[np.floating[Any]], documents: int) -> Self:
        """Learn from the scores of all pairs of some documents.

        Args:
            scores: ``(pairs,)``.
            documents: how many documents.

        >>> Background.of(np.linspace(0, 1, 10_001), 142).share(0.99)
        0.99
        """
        steps = _STEPS[_STEPS_PER_HALF * np.log2(max(len(scores) / _LEAST_ABOVE, 2)) >= _STEPS]
        values = np.quantile(np.asarray(scores, np.float64), 1 - 0.5 ** (steps / _STEPS_PER_HALF))
        return cls(documents, tuple(round(float(value), 6) for value in values))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` gave."""
        return cls(int(values["documents"]), tuple(map(float, values["scores"])))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which a configuration keeps."""
        return {"documents": self.documents, "scores": list(self.scores)}

    def share(self, score: float) -> float:
        """The share of unrelated pairs that are less alike than a score, 0 to 1.

        >>> Background.of(np.linspace(0, 1, 10_001), 142).share(0.5)
        0.5
        """
        steps, score = _STEPS[: len(self.scores)], round(score, 6)
        # Of equal scores the first: what is as alike is not less alike.
        place = int(np.searchsorted(self.scores, score, side="left"))
        if place == 0:
            return 0.0
        if place < len(self.scores):
            low, high = self.scores[place - 1], self.scores[place]
            step = steps[place - 1] + (steps[place] - steps[place - 1]) * (score - low) / (high - low)
        else:
            # As steep as over the last two halvings.
            before = int(np.searchsorted(steps, steps[-1] - 2 * _STEPS_PER_HALF))
            width = self.scores[-1] - self.scores[before]
            step = steps[-1] + (score - self.scores[-1]) * (steps[-1] - steps[before]) / max(width, 1e-3)
        # Beyond the closest of the pairs that were seen, nothing is known.
        above = max(0.5 ** (step / _STEPS_PER_HALF), 2 / (self.documents * max(self.documents - 1, 1)))
        # As many digits as tell the share above from none.
        return float(f"{1 - above:.{max(3, int(2 - np.log10(max(above, 1e-9))))}f}")
