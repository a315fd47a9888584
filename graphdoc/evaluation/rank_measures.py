"""Measures of where the documents that are relevant to a document stand in a ranking (SDR, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Candidates:
    """What rankings are made of.

    Args:
        count: documents that are ranked, without the one that is asked with.
        absent: by query id how many relevant documents are not among them; a query that is missing has none.
    """

    count: int
    absent: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the relevant documents of one query stand.

    Args:
        ranks: ranks of those that were found, rising and from 1.
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


def percentile_rank(standing: Standing) -> float:
    """Mean over the relevant documents of 1 - rank / candidates; those that were not found stand last.

    The formula in section 4.2 of the SDR paper, rank / candidates, is the complement of the numbers it prints.
    """
    return sum(1 - rank / standing.candidates for rank in standing.ranks) / standing.relevant


def published_percentile_rank(standing: Standing) -> float:
    """The same with ranks from 0, as the published code counts."""
    return sum(1 - (rank - 1) / standing.candidates for rank in standing.ranks) / standing.relevant


def published_reciprocal_rank(standing: Standing) -> float:
    """1 / rank of the best one as the published code counts: from 0, with 0 set to 1, so that ranks 1 and 2 count 1.

    It looks for the smallest rank from the number of queries downwards, so that no rank is taken for greater.
    """
    best = min((rank - 1 for rank in standing.ranks), default=standing.queries)
    return 1 / max(1, min(best, standing.queries))


def published_hit_rate(standing: Standing) -> float:
    """Share of the relevant documents in the first k; those that are no candidates count as not found."""
    found = sum(standing.cutoff is None or rank <= standing.cutoff for rank in standing.ranks)
    return found / (standing.relevant + standing.absent)


# By the name of a measure that no library has.
OF_RANKS: dict[str, Callable[[Standing], float]] = {
    "MPR": percentile_rank,
    "MPR-published": published_percentile_rank,
    "MRR-published": published_reciprocal_rank,
    "HR-published": published_hit_rate,
}
# Means over pairs of a query and a relevant document, not over queries.
OVER_PAIRS = ("MPR", "MPR-published")
