"""How well documents are ranked: nDCG, precision, reciprocal and percentile rank, recall and more."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import EvaluationError, MissingExtraError, SettingsError
from ..runtime.text import described
from .rank_measures import OF_RANKS, OVER_PAIRS, Candidates, Standing
from .trec import Qrels, Run, leave_out, ranked

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]

DEFAULT_MEASURES = ("nDCG@10", "MAP", "MRR@10", "P@5", "recall@100", "success@1")

# What users write, in lower case; what it is called here; what ir_measures calls it, or None where it lacks it.
_NAMES: dict[str, tuple[str, str | None]] = {
    "ndcg": ("nDCG", "nDCG"),
    "map": ("MAP", "AP"),
    "ap": ("MAP", "AP"),
    "mrr": ("MRR", "RR"),
    "rr": ("MRR", "RR"),
    "p": ("P", "P"),
    "precision": ("P", "P"),
    "r": ("recall", "R"),
    "recall": ("recall", "R"),
    "success": ("success", "Success"),
    "hr": ("HR", "R"),
    **{name.lower(): (name, None) for name in OF_RANKS},
}
_NEED_CUTOFF = ("P", "recall", "success", "HR", "HR-published")
_WITHOUT_CUTOFF = ("MPR", "MPR-published", "MRR-published")
_WRITTEN = re.compile(r"([a-z]+(?:-published)?)(?:@([1-9][0-9]{0,8}))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of a ranking.

    - ``nDCG@k``: gain of the first k documents, each grade divided by log2(1 + rank), as a share of the best that is
      possible (Järvelin and Kekäläinen 2002).
    - ``P@k``: share of the first k that is relevant, of k even where fewer were found.
    - ``MRR@k``: 1 / rank of the first relevant document, 0 if it is not among the first k.
    - ``MAP``: mean over all relevant documents of the precision at their ranks, 0 for those not found.
    - ``recall@k``: share of the relevant documents that is among the first k.
    - ``success@k``: 1 if a relevant document is among the first k.
    - ``MPR``: 1 - rank / number of ranked documents, mean over all relevant documents of all queries; ``HR@k``: what
      is called ``recall@k`` too (both as in SDR, section 4.2).
    - ``MPR-published``, ``MRR-published``, ``HR-published@k``: as SDR's published code counts (see
      :mod:`graphdoc.evaluation.rank_measures`).

    A grade above 0 is relevant; documents that were not judged are not.

    Args:
        kind: one of the names above, without the k.
        cutoff: the k; None for the whole ranking.
    """

    kind: str
    cutoff: int | None = None

    @classmethod
    def parse(cls, text: str) -> Measure:
        """Read a measure as users write it, in small or capital letters.

        Raises:
            SettingsError: it is unknown, or lacks its cutoff.

        >>> [str(Measure.parse(text)) for text in ("ndcg@10", "ap", "RR@10", "precision@5")]
        ['nDCG@10', 'MAP', 'MRR@10', 'P@5']
        """
        found = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        names = _NAMES.get(found[1].lower()) if found else None
        if found is None or names is None:
            given = repr(text) if isinstance(text, str) else described(text)
            raise SettingsError(
                f"the measure {given} is unknown; use one of {', '.join(DEFAULT_MEASURES)}, with any whole number "
                "from 1 behind @"
            )
        cutoff = int(found[2]) if found[2] else None
        if cutoff is None and names[0] in _NEED_CUTOFF:
            raise SettingsError(f"the measure {text!r} does not say for how many documents; write {names[0]}@10")
        if cutoff is not None and names[0] in _WITHOUT_CUTOFF:
            raise SettingsError(f"the measure {text!r} takes whole rankings; write {names[0]}")
        return cls(names[0], cutoff)

    def __str__(self) -> str:
        return self.kind if self.cutoff is None else f"{self.kind}@{self.cutoff}"

    def of_library(self, library: Any) -> Any:
        """The measure of ``ir_measures``; None if it has none."""
        name = next(theirs for ours, theirs in _NAMES.values() if ours == self.kind)
        if name is None:
            return None
        measure = getattr(library, name)
        return measure if self.cutoff is None else measure @ self.cutoff


@dataclass(frozen=True)
class RankingScores:
    """How well the rankings of one system answer queries.

    Args:
        measures: names of the measures.
        queries: ids of the queries, those with a positive.
        values: ``(queries, measures)``.
        missing: ids of queries that the run lacks or found nothing for; all their values are 0.
        without_positive: ids of judged queries that were left out because no document has a grade above 0.
        relevant: number of relevant documents of every query, ``(queries,)``; None counts all queries alike.
    """

    measures: tuple[str, ...]
    queries: tuple[str, ...]
    values: Floats
    missing: tuple[str, ...] = ()
    without_positive: tuple[str, ...] = ()
    relevant: tuple[int, ...] | None = None

    def of(self, measure: str) -> Floats:
        """Values of every query, ``(queries,)``.

        Args:
            measure: a measure as users write it.

        Raises:
            SettingsError: it was not measured.
        """
        name = str(Measure.parse(measure))
        if name not in self.measures:
            raise SettingsError(f"{name} was not measured, only {', '.join(self.measures)}; name it in measures")
        return self.values[:, self.measures.index(name)]

    @property
    def weights(self) -> Floats:
        """How much each query counts in the mean of each measure, ``(queries, measures)``, 1 on average.

        Of a mean over pairs of a query and a relevant document, a query counts as often as it has such documents.
        """
        weights = np.ones_like(self.values)
        if self.relevant is not None:
            pairs = np.array(self.relevant) / np.mean(self.relevant)
            for column, name in enumerate(self.measures):
                if name in OVER_PAIRS:
                    weights[:, column] = pairs
        return weights

    @property
    def shares(self) -> Floats:
        """What each query adds to the sums that are divided by the number of queries, ``(queries, measures)``."""
        return self.values * self.weights

    @property
    def means(self) -> dict[str, float]:
        """Means over queries, or over pairs of a query and a relevant document, by measure."""
        return dict(zip(self.measures, self.shares.mean(axis=0).tolist(), strict=True))

    def metrics(self) -> dict[str, float]:
        """What was measured as one flat table, as trackers take it."""
        return {name.lower().replace("@", "_at_"): value for name, value in self.means.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row per query: ``query``, and a column for every measure."""
        import pandas as pd

        frame = pd.DataFrame(self.values, columns=list(self.measures))
        frame.insert(0, "query", list(self.queries))
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            "queries": len(self.queries),
            "missing_queries": list(self.missing),
            "queries_without_positive": list(self.without_positive),
            "means": self.means,
            "per_query": dict(
                zip(
                    self.queries,
                    (dict(zip(self.measures, row, strict=True)) for row in self.values.tolist()),
                    strict=True,
                )
            ),
        }


def score_run(
    run: Run,
    qrels: Qrels,
    measures: Sequence[str] = DEFAULT_MEASURES,
    *,
    own: Mapping[str, Collection[str]] | None = None,
    candidates: Candidates | None = None,
) -> RankingScores:
    """Measure rankings, by ``ir_measures`` where it has the measure.

    Documents of the same score are taken in the order of their ids, so that the result does not depend on the order in
    which they are given. A query that the run lacks counts 0. A query without a positive is left out of the means and
    counted. Queries of the run that nobody judged are passed over.

    Args:
        run: scores by query id and document id.
        qrels: grades by query id and document id.
        measures: measures as users write them, such as ``ndcg@10``, ``map``, ``p@5``, ``mrr@10``, ``recall@100`` and
            ``success@1``.
        own: ids of documents by query id that are taken out of rankings and judgements first (see
            :func:`~graphdoc.evaluation.trec.own_documents`).
        candidates: what was ranked, which some measures need.

    Raises:
        EvaluationError: no query has a positive, or a score is no finite number.
        MissingExtraError: ``ir_measures`` is not installed.
        SettingsError: a measure is unknown or needs ``candidates``, or there is none.

    >>> scores = score_run({"q1": {"tide": 0.5, "wave": 0.4, "gate": 0.1}}, {"q1": {"wave": 1}}, ["mrr@10", "p@5"])
    >>> scores.means
    {'MRR@10': 0.5, 'P@5': 0.2}
    """
    wanted = require_measures(measures)
    for measure in wanted:
        if candidates is None and measure.kind in OF_RANKS:
            raise SettingsError(
                f"the measure {measure} depends on how many documents are ranked; give candidates, or leave it out"
            )
    library = _library()
    if own is not None:
        run, qrels = leave_out(run, own), leave_out(qrels, own)
    judged = {query: grades for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
    if not judged:
        raise EvaluationError(
            f"0 of {len(qrels):,} judged queries have a positive, a document with a grade above 0; give judgements "
            "of the queries"
        )
    # The libraries beneath hold scores in single precision and break ties in ways of their own: give them ranks.
    orders = {query: _ranked(query, run[query]) for query in judged if run.get(query)}
    ranks = {query: {id: float(len(order) - rank) for rank, id in enumerate(order)} for query, order in orders.items()}
    # They know no grades below 0, which mean no more than 0 here.
    gains = {query: {id: max(0, int(grade)) for id, grade in grades.items()} for query, grades in judged.items()}
    rows = {query: row for row, query in enumerate(judged)}
    columns: dict[Any, list[int]] = {}
    for column, measure in enumerate(wanted):
        if (theirs := measure.of_library(library)) is not None:
            columns.setdefault(theirs, []).append(column)
    values = np.zeros((len(rows), len(wanted)))
    for found in library.iter_calc(list(columns), gains, ranks) if columns else ():
        values[rows[found.query_id], columns[found.measure]] = found.value
    if candidates is not None:
        for column, measure in enumerate(wanted):
            if measure.kind in OF_RANKS:
                for query, row in rows.items():
                    standing = _standing(query, measure, judged, orders.get(query, []), candidates)
                    values[row, column] = OF_RANKS[measure.kind](standing)
    return RankingScores(
        measures=tuple(map(str, wanted)),
        queries=tuple(judged),
        values=values,
        missing=tuple(query for query in judged if query not in orders),
        without_positive=tuple(query for query in qrels if query not in judged),
        relevant=tuple(sum(grade > 0 for grade in grades.values()) for grades in judged.values()),
    )


def _standing(query: str, measure: Measure, judged: Qrels, order: Sequence[str], candidates: Candidates) -> Standing:
    positives = {id for id, grade in judged[query].items() if grade > 0}
    ranks = tuple(rank for rank, id in enumerate(order, start=1) if id in positives)
    absent = candidates.absent.get(query, 0)
    return Standing(ranks, len(positives), absent, candidates.count, len(judged), measure.cutoff)


def require_measures(measures: Sequence[str]) -> list[Measure]:
    """Read measures, each once.

    Raises:
        SettingsError: one is unknown, or there is none.
    """
    if isinstance(measures, str):
        raise SettingsError(f"measures={measures!r} is one string; give a list of measures, such as [{measures!r}]")
    found = list(dict.fromkeys(map(Measure.parse, measures)))
    if not found:
        raise SettingsError(f"measures is empty; name at least one, such as {DEFAULT_MEASURES[0]}")
    return found


def _library() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtraError("ir_measures", "retrieval", "measure rankings") from error
    return ir_measures


def _ranked(query: str, scores: Mapping[str, float]) -> list[str]:
    try:
        return ranked(scores)
    except EvaluationError as error:
        raise EvaluationError(f"query {query!r}: {error}") from error
