"""What the page says of why a document was found: terms and passages with their parts of a score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..pages.numbers import decimals, finite, number
from .bars import width

# Parts are kept in 32 bits and less; what differs by more is not rounding.
_ROUNDING = 1e-3


def explanation_of(hit: Mapping[str, Any]) -> dict[str, Any] | None:
    """The two tables of a hit: terms with their parts of the words score, passages with theirs of the vectors score.

    Args:
        hit: one hit of ``SearchResults.to_dict()``.
    """
    explanation = hit.get("explanation")
    if explanation is None:
        return None
    return {kind: _table(explanation.get(kind) or (), hit, kind) for kind in ("words", "vectors")}


def _table(rows: Sequence[Mapping[str, Any]], hit: Mapping[str, Any], kind: str) -> dict[str, Any]:
    parts = [finite(row.get("part")) for row in rows]
    known = [part for part in parts if part is not None]
    largest = max(map(abs, known), default=0.0)
    places = decimals(known)
    total = math.fsum(known)
    score = finite((hit["parts"].get(kind) or {}).get("score"))
    agree = score is None or math.isclose(total, score, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return {
        "rows": [
            {**row, "part": number(part, places), "width": width(part, largest), "against": (part or 0) < 0}
            for row, part in zip(rows, parts, strict=True)
        ],
        "total": number(total, places),
        "score": None if agree else number(score, places),
    }
