"""Measures of rankings: their names, and those of ranks that no library has (SDR, section 4.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import SettingsError

DEFAULT_MEASURES = ("nDCG@10", "MAP", "MRR@10", "P@5", "recall@100", "success@1")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Which documents are ranked.

    Args:
        count: documents that are ranked, without the query document.
        absent: by query id how many relevant documents are not among them; a query that is missing has none.
    """

    count: int
    absent: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the relevant documents of one query stand.

    Args:
        ranks: ranks of those that were retrieved, rising and from 1.
        relevant: how many relevant documents there are among the candidates.
        absent: how many there are besides.
        candidates: documents that are ranked.
        queries: number of all queries.
        cutoff: the k of a measure; None where it has none.
    """

    ranks: tuple[int, ...]
    relevant: int
    absent: int
    candidates: int
    queries: int
    cutoff: int | None = None


def percentile_rank(standing: Standing, first: int = 1) -> float:
    """Mean over the relevant documents of 1 - rank / candidates; those that were not retrieved rank last.

    The formula in section 4.2 of the SDR paper, rank / candidates, is the complement of the numbers it prints. Its
    published code counts ranks from ``first`` = 0.
    """
    return sum(1 - (rank - 1 + first) / standing.candidates for rank in standing.ranks) / standing.relevant


def published_reciprocal_rank(standing: Standing) -> float:
    """1 / rank of the best one as the published code counts: from 0, with 0 set to 1, so that ranks 1 and 2 count 1.

    It looks for the smallest rank from the number of queries downwards, so that no rank is taken for greater.
    """
    best = min((rank - 1 for rank in standing.ranks), default=standing.queries)
    return 1 / max(1, min(best, standing.queries))


def published_hit_rate(standing: Standing) -> float:
    """Share of the relevant documents in the first k; those that are no candidates count as not found."""
    hits = sum(standing.cutoff is None or rank <= standing.cutoff for rank in standing.ranks)
    return hits / (standing.relevant + standing.absent)


# By the name of a measure that no library has.
OF_RANKS: dict[str, Callable[[Standing], float]] = {
    "MPR": percentile_rank,
    "MPR-published": lambda standing: percentile_rank(standing, first=0),
    "MRR-published": published_reciprocal_rank,
    "HR-published": published_hit_rate,
}
# Means over pairs of a query and a relevant document, not over queries.
OVER_PAIRS = ("MPR", "MPR-published")

# What ir_measures calls the others, and what else users call all of them.
_OF_LIBRARY = {"nDCG": "nDCG", "MAP": "AP", "MRR": "RR", "P": "P", "recall": "R", "success": "Success", "HR": "R"}
_ALIASES = {"ap": "MAP", "rr": "MRR", "precision": "P", "r": "recall"}
_NAMES = {name.lower(): name for name in (*_OF_LIBRARY, *OF_RANKS)} | _ALIASES
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
        if self.kind in OF_RANKS:
            return None
        measure = getattr(library, _OF_LIBRARY[self.kind])
        return measure if self.cutoff is None else measure @ self.cutoff


def require_measures(measures: Sequence[str]) -> list[Measure]:
    """Read measures, each once.

    Raises:
        SettingsError: one is unknown, or there is none.
    """
    parsed = list(dict.fromkeys(map(Measure.parse, measures)))
    if not parsed:
        raise SettingsError("measures is empty; name at least one")
    return parsed


def metric_name(measure: str) -> str:
    """What a measure is called among the numbers of an evaluator, such as ``ndcg_at_10``."""
    return str(Measure.parse(measure)).lower().replace("@", "_at_")
