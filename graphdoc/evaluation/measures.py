"""Measures of rankings: their names, and those of ranks that no library has (SDR, section 4.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

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


class Ranks(NamedTuple):
    """Ranks of the relevant documents of one query that were retrieved, rising and from 1.

    ``relevant`` documents are among the ``candidates``, and ``absent`` others are not; there are ``queries`` in all.
    """

    ranks: Sequence[int]
    relevant: int
    absent: int
    candidates: int
    queries: int


def _mean_percentile_rank(found: Ranks, cutoff: int | None, first: int = 1) -> float:
    """The mean of 1 - rank / candidates, where documents that were not retrieved rank last.

    The formula in the paper, rank / candidates, is the complement of the numbers it prints.
    """
    return sum(1 - (rank - 1 + first) / found.candidates for rank in found.ranks) / found.relevant


def _published_reciprocal_rank(found: Ranks, cutoff: int | None) -> float:
    """Ranks count from 0, of which 0 is taken for 1, and none is greater than the number of queries."""
    return 1 / max(1, min([found.queries, *(rank - 1 for rank in found.ranks)]))


def _published_hit_rate(found: Ranks, cutoff: int | None) -> float:
    """Relevant documents that are no candidates count as not found."""
    return sum(rank <= (cutoff or found.candidates) for rank in found.ranks) / (found.relevant + found.absent)


@dataclass(frozen=True, slots=True)
class MeasureKind:
    """A measure with any cutoff.

    Args:
        computed: its name in ``ir_measures``, or a function of ranks and the cutoff.
        cutoff: whether a cutoff is needed, as in ``P@5``, possible or refused.
        over_pairs: whether it is a mean over pairs of a query and a relevant document, not over queries.
        aliases: other names, in small letters.
    """

    computed: str | Callable[[Ranks, int | None], float]
    cutoff: Literal["needed", "possible", "refused"] = "possible"
    over_pairs: bool = False
    aliases: tuple[str, ...] = ()


MEASURES = {
    "nDCG": MeasureKind("nDCG"),
    "MAP": MeasureKind("AP", aliases=("ap",)),
    "MRR": MeasureKind("RR", aliases=("rr",)),
    "P": MeasureKind("P", "needed", aliases=("precision",)),
    "recall": MeasureKind("R", "needed", aliases=("r",)),
    "success": MeasureKind("Success", "needed"),
    # Recall by the name that SDR gives it, and measures of ranks that no library has (SDR, section 4.2).
    "HR": MeasureKind("R", "needed"),
    "MPR": MeasureKind(_mean_percentile_rank, "refused", over_pairs=True),
    # As its published code counts them, which begins ranks at 0.
    "MPR-published": MeasureKind(partial(_mean_percentile_rank, first=0), "refused", over_pairs=True),
    "MRR-published": MeasureKind(_published_reciprocal_rank, "refused"),
    "HR-published": MeasureKind(_published_hit_rate, "needed"),
}
RANK_MEASURES = tuple(name for name, kind in MEASURES.items() if callable(kind.computed))
_NAMES = {alias: name for name, kind in MEASURES.items() for alias in (name.lower(), *kind.aliases)}


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
        written = re.fullmatch(r"([a-z][a-z0-9-]*)(?:@([1-9][0-9]{0,8}))?", str(text).strip().lower())
        kind = _NAMES.get(written[1]) if written else None
        if written is None or kind is None:
            known = ", ".join(DEFAULT_MEASURES)
            raise SettingsError(f"the measure {text!r} is unknown; use one of {known}, with any whole number after @")
        cutoff = int(written[2]) if written[2] else None
        if MEASURES[kind].cutoff == ("needed" if cutoff is None else "refused"):
            raise SettingsError(f"the measure {text!r}: write {kind}{'@10' if cutoff is None else ''}")
        return cls(kind, cutoff)

    def __str__(self) -> str:
        return self.kind if self.cutoff is None else f"{self.kind}@{self.cutoff}"

    def of_library(self, library: Any) -> Any:
        """The measure of ``ir_measures``."""
        measure = getattr(library, str(MEASURES[self.kind].computed))
        return measure if self.cutoff is None else measure @ self.cutoff

    def of_ranks(self, found: Ranks) -> float:
        """The measure of one query, of those of :data:`RANK_MEASURES`."""
        computed = MEASURES[self.kind].computed
        assert not isinstance(computed, str)
        return computed(found, self.cutoff)


def require_measures(measures: Sequence[str]) -> list[Measure]:
    """Read measures, each once, at least one."""
    parsed = list(dict.fromkeys(map(Measure.parse, measures)))
    if not parsed:
        raise SettingsError("measures is empty; name at least one")
    return parsed


def metric_name(measure: str) -> str:
    """Name of a measure among the numbers of an evaluator, such as ``ndcg_at_10``."""
    return str(Measure.parse(measure)).lower().replace("@", "_at_")
