"""Measures of rankings: their names, and those of ranks that no library has (SDR, section 4.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import SettingsError

DEFAULT_MEASURES = ("nDCG@10", "MAP", "MRR@10", "P@5", "recall@100", "success@1")


@dataclass(frozen=True, slots=True)
class RankedDocuments:
    """Which documents are ranked.

    Args:
        count: documents that are ranked, without the query document.
        absent: by query id how many relevant documents are not among them; a query that is missing has none.
    """

    count: int
    absent: Mapping[str, int] = field(default_factory=dict)


# Measures of ranks that no library has (SDR, section 4.2), and as its published code counts them.
RANK_MEASURES = ("MPR", "MPR-published", "MRR-published", "HR-published")
# Means over pairs of a query and a relevant document, not over queries.
OVER_PAIRS = ("MPR", "MPR-published")


def measure_ranks(
    measure: Measure, ranks: Sequence[int], relevant: int, absent: int, count: int, queries: int
) -> float:
    """A measure of :data:`OF_RANKS` of one query.

    ``MPR`` is the mean over the relevant documents of 1 - rank / candidates, where those that were not retrieved rank
    last; the formula in the paper, rank / candidates, is the complement of the numbers it prints. The published code
    counts ranks from 0. Its reciprocal rank takes 0 for 1, so that ranks 1 and 2 both count 1, and looks for the
    smallest rank from the number of queries downwards, so that no rank is taken for greater. Its hit rate counts
    relevant documents that are no candidates as not found.

    Args:
        measure: the measure.
        ranks: ranks of the relevant documents that were retrieved, rising and from 1.
        relevant: how many relevant documents there are among the candidates.
        absent: how many there are besides.
        count: number of candidates.
        queries: number of all queries.
    """
    if measure.kind in OVER_PAIRS:
        first = 0 if measure.kind == "MPR-published" else 1
        return sum(1 - (rank - 1 + first) / count for rank in ranks) / relevant
    if measure.kind == "MRR-published":
        return 1 / max(1, min([queries, *(rank - 1 for rank in ranks)]))
    return sum(rank <= (measure.cutoff or count) for rank in ranks) / (relevant + absent)


# What ir_measures calls the others, and what else users call all of them.
_OF_LIBRARY = {"nDCG": "nDCG", "MAP": "AP", "MRR": "RR", "P": "P", "recall": "R", "success": "Success", "HR": "R"}
_ALIASES = {"ap": "MAP", "rr": "MRR", "precision": "P", "r": "recall"}
_NAMES = {name.lower(): name for name in (*_OF_LIBRARY, *RANK_MEASURES)} | _ALIASES
_NEED_CUTOFF = ("P", "recall", "success", "HR", "HR-published")
_WITHOUT_CUTOFF = ("MPR", "MPR-published", "MRR-published")


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of a ranking: ``nDCG@k``, ``P@k``, ``MRR@k``, ``MAP``, ``recall@k``, ``success@k``, or one of SDR.

    A grade above 0 is relevant; documents that were not judged are not. The gain of nDCG is the grade itself (Järvelin
    and Kekäläinen 2002). ``HR@k`` is ``recall@k`` by the name that SDR gives it.

    Args:
        kind: the name without the k.
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
        written = re.fullmatch(r"([a-z-]+)(?:@([1-9][0-9]{0,8}))?", str(text).strip().lower())
        kind = _NAMES.get(written[1]) if written else None
        if written is None or kind is None:
            known = ", ".join(DEFAULT_MEASURES)
            raise SettingsError(f"the measure {text!r} is unknown; use one of {known}, with any whole number after @")
        cutoff = int(written[2]) if written[2] else None
        if kind in (_NEED_CUTOFF if cutoff is None else _WITHOUT_CUTOFF):
            raise SettingsError(f"the measure {text!r}: write {kind}{'@10' if cutoff is None else ''}")
        return cls(kind, cutoff)

    def __str__(self) -> str:
        return self.kind if self.cutoff is None else f"{self.kind}@{self.cutoff}"

    def of_library(self, library: Any) -> Any:
        """The measure of ``ir_measures``; None if it has none."""
        if self.kind in RANK_MEASURES:
            return None
        measure = getattr(library, _OF_LIBRARY[self.kind])
        return measure if self.cutoff is None else measure @ self.cutoff


def require_measures(measures: Sequence[str]) -> list[Measure]:
    """Read measures, each once, at least one."""
    parsed = list(dict.fromkeys(map(Measure.parse, measures)))
    if not parsed:
        raise SettingsError("measures is empty; name at least one")
    return parsed


def metric_name(measure: str) -> str:
    """Name of a measure among the numbers of an evaluator, such as ``ndcg_at_10``."""
    return str(Measure.parse(measure)).lower().replace("@", "_at_")
