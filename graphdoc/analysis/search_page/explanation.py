"""What the page says of why a document was found: terms and passages with their parts of a score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..pages.numbers import decimals, finite, number
from .bars import width

# Parts are kept in 32 bits and less; what differs by more is not rounding.
_ROUNDING = 1e-3
# A long document has any number of paragraphs; terms and passages are few.
LISTED_ROWS = 100


def explanation_of(hit: Mapping[str, Any]) -> dict[str, Any] | None:
    """The tables of a hit: what terms, passages and pairs of paragraphs add to the scores by these.

    Args:
        hit: one hit of ``SearchResults.to_dict()``.
    """
    explanation = hit.get("explanation")
    if explanation is None:
        return None
    by = (hit.get("alignment") or {}).get("by", "sentences")
    kinds = {"words": "words", "vectors": "vectors", "sentences": by}
    return {name: _table(explanation.get(name) or (), hit, kind) for name, kind in kinds.items()}


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
            for row, part in list(zip(rows, parts, strict=True))[:LISTED_ROWS]
        ],
        "left": max(0, len(rows) - LISTED_ROWS),
        "total": number(total, places),
        "score": None if agree else number(score, places),
    }
