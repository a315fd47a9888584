"""How well orders of passages explain a model: areas under curves, and what they are ahead of other orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...errors import SettingsError
from ..bootstrap import Estimate, interval, resampled_means
from .removal_curves import KINDS, Kind, areas, fractions, means_by_group

Floats = npt.NDArray[np.float64]
Watched = Literal["similarity", "probability"]

METHODS = ("contribution", "attention", "words", "random")
RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Case:
    """One document that is shortened, and what is watched meanwhile.

    Args:
        document: id of the document.
        other: id of the document that it is compared with, or the class whose probability is watched.
        passages: passages that the document has.
        value: the similarity or probability of the whole document.
    """

    document: str
    other: str
    passages: int
    value: float


@dataclass(frozen=True)
class FaithfulnessScores:
    """Deletion and insertion curves of one model.

    Curves are averaged over the cases of a document first, then over documents. Resamples are drawn by documents, with
    replacement, and are the same for all methods.

    Args:
        watched: ``similarity`` or ``probability``.
        methods: what passages are ranked by; ``random`` is the last.
        cases: what was measured.
        curves: ``(cases, methods, 2, steps + 1)``, deletion before insertion.
        left_out: what was not measured, counted by reason.
        notes: what has to be known to read the curves, such as methods that do not apply, one line each.
        resamples: number of bootstrap resamples.
        seed: draws them.
    """

    watched: Watched
    methods: tuple[str, ...]
    cases: tuple[Case, ...]
    curves: Floats = field(repr=False)
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    resamples: int = 0
    seed: int = 0

    @property
    def fractions(self) -> Floats:
        """Share of the passages that can go, or come, at every point of the curves, ``(steps + 1,)``."""
        return fractions(self.curves.shape[-1] - 1)

    @property
    def documents(self) -> tuple[str, ...]:
        """Ids of the documents that were shortened."""
        return tuple(dict.fromkeys(case.document for case in self.cases))

    @cached_property
    def by_document(self) -> Floats:
        """The curves of every document, ``(documents, methods, 2, steps + 1)``."""
        return means_by_group(self.curves, [case.document for case in self.cases])

    @cached_property
    def samples(self) -> Floats | None:
        """Mean curves of all resamples, ``(resamples, methods, 2, steps + 1)``; None where there is no spread."""
        if not self.resamples or len(self.documents) < 2:
            return None
        return resampled_means(self.by_document, self.resamples, self.seed)

    def curve(self, method: str, kind: Kind) -> Floats:
        """The mean curve, ``(steps + 1,)``."""
        return np.asarray(self.by_document.mean(axis=0)[self._place(method, kind)])

    def band(self, method: str, kind: Kind) -> list[tuple[float, float] | None]:
        """The middle 95 % of the resamples at every point of a curve; None where there are none."""
        if self.samples is None:
            return [None] * self.curves.shape[-1]
        return [interval(values) for values in self.samples[:, *self._place(method, kind)].T]

    def area(self, method: str, kind: Kind) -> Estimate:
        """The area under the mean curve, with its interval."""
        place = self._place(method, kind)
        samples = None if self.samples is None else areas(self.samples[:, *place])
        return Estimate(float(areas(self.by_document.mean(axis=0)[place])), interval(samples))

    def ahead(self, method: str, kind: Kind, of: str = RANDOM) -> Estimate:
        """By how much a method explains better than another: less area in deletion, more in insertion.

        Args:
            method: the method.
            kind: ``deletion`` or ``insertion``.
            of: the other method.
        """
        one, other = self._place(method, kind), self._place(of, kind)
        sign = -1.0 if kind == "deletion" else 1.0
        means = self.by_document.mean(axis=0)
        samples = None
        if self.samples is not None:
            samples = sign * areas(self.samples[:, *one] - self.samples[:, *other])
        return Estimate(sign * float(areas(means[one] - means[other])), interval(samples))

    def metrics(self) -> dict[str, float]:
        """What methods are ahead of random as one flat table, as trackers take it."""
        return {
            f"{method}_{kind}": self.ahead(method, kind).value
            for method in self.methods
            for kind in KINDS
            if method != RANDOM
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; of single cases the areas."""
        methods = {
            method: {
                kind: {
                    "area": self.area(method, kind).to_dict(),
                    "curve": self.curve(method, kind).tolist(),
                    "band": [ends and list(ends) for ends in self.band(method, kind)],
                    "ahead_of": {
                        other: self.ahead(method, kind, other).to_dict() for other in self.methods if other != method
                    },
                }
                for kind in KINDS
            }
            for method in self.methods
        }
        single = areas(self.curves)
        cases = [
            {
                "document": case.document,
                "class" if self.watched == "probability" else "other": case.other,
                "passages": case.passages,
                "value": case.value,
                "areas": {
                    method: dict(zip(KINDS, values.tolist(), strict=True))
                    for method, values in zip(self.methods, rows, strict=True)
                },
            }
            for case, rows in zip(self.cases, single, strict=True)
        ]
        return {
            "watched": self.watched,
            "documents": len(self.documents),
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            "fractions": self.fractions.tolist(),
            "methods": methods,
            "cases": cases,
        }

    def _place(self, method: str, kind: Kind) -> tuple[int, int]:
        if method not in self.methods or kind not in KINDS:
            raise SettingsError(
                f"there is no curve {method!r}, {kind!r}; use one of {', '.join(self.methods)}, and deletion or "
                "insertion"
            )
        return self.methods.index(method), KINDS.index(kind)
