"""Systems that rank documents side by side: means of measures, and whether they differ by more than chance."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EvaluationError, SettingsError
from ..runtime.text import require_whole
from .bootstrap import RESAMPLES as DRAWS
from .bootstrap import Estimate, Floats, interval, resampled_means
from .permutation import RESAMPLES, paired_p_value
from .rank_measures import Candidates
from .ranking import DEFAULT_MEASURES, RankingScores, score_run
from .trec import Qrels, Run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RankingTable:
    """Systems by measures, on the same queries.

    Args:
        scores: what was measured of every system.
        against: name of the system that the others are held against; None for none.
        p_values: two-sided p-values of the paired permutation test by system and measure, of all systems but
            ``against`` (see :func:`~graphdoc.evaluation.permutation.paired_p_value`).
        resamples: number of resamples of the test.
        seed: what draws them.
    """

    scores: Mapping[str, RankingScores]
    against: str | None = None
    p_values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    resamples: int = RESAMPLES
    seed: int = 0

    @classmethod
    def of(
        cls,
        runs: Mapping[str, Run],
        qrels: Qrels,
        measures: Sequence[str] = DEFAULT_MEASURES,
        *,
        against: str | None = None,
        own: Mapping[str, Collection[str]] | None = None,
        candidates: Candidates | None = None,
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> RankingTable:
        """Measure systems and test whether they differ.

        Args:
            runs: scores by query id and document id, by name of the system.
            qrels: grades by query id and document id.
            measures: measures as users write them.
            against: the system that the others are tested against.
            own: documents taken out first, by query id (see :func:`~graphdoc.evaluation.ranking.score_run`).
            candidates: what was ranked, which some measures need.
            resamples: number of resamples of the test.
            seed: draws them.

        Raises:
            EvaluationError: there is no system, no query has a positive, or a score is no finite number.
            MissingExtraError: ``ir_measures`` is not installed.
            SettingsError: a measure or ``against`` is unknown, or ``resamples`` out of range.
        """
        if not runs:
            raise EvaluationError("there is no run to measure; give at least one")
        if against is not None and against not in runs:
            raise SettingsError(f"against={against!r} is none of the systems; use one of {', '.join(runs)}")
        require_whole("resamples", resamples, may_be_none=False)
        scores: dict[str, RankingScores] = {}
        for name, run in runs.items():
            try:
                scores[name] = score_run(run, qrels, measures, own=own, candidates=candidates)
            except EvaluationError as error:
                raise EvaluationError(f"{name}: {error}") from error
        p_values: dict[str, dict[str, float]] = {}
        base = None if against is None else scores[against]
        for name, one in scores.items():
            if base is not None and name != against:
                p_values[name] = {
                    measure: paired_p_value(own_shares, base_shares, resamples=resamples, seed=seed)
                    for measure, own_shares, base_shares in zip(one.measures, one.shares.T, base.shares.T, strict=True)
                }
        return cls(scores, against, p_values, resamples, seed)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures."""
        return next(iter(self.scores.values())).measures

    @property
    def queries(self) -> tuple[str, ...]:
        """Ids of the queries."""
        return next(iter(self.scores.values())).queries

    def estimate(self, system: str, measure: str, against: str | None = None) -> Estimate:
        """A mean with its interval by the bootstrap over queries, or the difference to another system.

        Every system is drawn with the same queries, so that differences are paired.

        Args:
            system: name of the system.
            measure: one of :attr:`measures`.
            against: the system whose mean is subtracted; None for none.
        """
        column = self.measures.index(measure)
        value, samples = self.scores[system].means[measure], self._resampled[system][:, column]
        if against is not None:
            value = value - self.scores[against].means[measure]
            samples = samples - self._resampled[against][:, column]
        return Estimate(value, interval(samples))

    @cached_property
    def _resampled(self) -> dict[str, Floats]:
        """Means of resamples by system, ``(resamples, measures)``."""
        found = {}
        for name, one in self.scores.items():
            sums = resampled_means(np.concatenate([one.shares, one.weights], axis=1), DRAWS, self.seed)
            shares, weights = np.split(sums, 2, axis=1)
            found[name] = shares / weights
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row per system: ``system``, every measure, and where systems were tested ``p MEASURE`` for each.

        The p-values of the system that the others are held against are not a number.
        """
        import pandas as pd

        tested = self.measures if self.against is not None else ()
        rows = [
            [name, *one.means.values(), *(self.p_values.get(name, {}).get(measure, math.nan) for measure in tested)]
            for name, one in self.scores.items()
        ]
        return pd.DataFrame(rows, columns=["system", *self.measures, *(f"p {measure}" for measure in tested)])

    def per_query(self) -> pd.DataFrame:
        """One row per system and query: ``system``, ``query``, and a column for every measure."""
        import pandas as pd

        frames = []
        for name, one in self.scores.items():
            frame = one.to_frame()
            frame.insert(0, "system", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            "queries": len(self.queries),
            "measures": list(self.measures),
            "against": self.against,
            "test": {"name": "paired permutation", "resamples": self.resamples, "seed": self.seed}
            if self.against
            else None,
            "systems": {
                name: {
                    **one.to_dict(),
                    "intervals": {one: self.estimate(name, one).interval for one in self.measures},
                    "differences": None
                    if self.against in (None, name)
                    else {one: self.estimate(name, one, self.against).to_dict() for one in self.measures},
                    "p_values": self.p_values.get(name),
                }
                for name, one in self.scores.items()
            },
        }
