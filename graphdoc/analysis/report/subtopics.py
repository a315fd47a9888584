"""What the HTML report shows of subtopics: what both documents speak of, what only one, and in which sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..pages.numbers import finite

_TITLES = {"both": "In both documents", "a": "Only in A", "b": "Only in B"}


def read_subtopics(comparison: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the subtopics by who has them, and the subtopic of every sentence.

    Args:
        comparison: the payload.
        a: what the page shows of the first document.
        b: of the second.

    Returns:
        ``by``, ``groups`` (each a title and its subtopics), ``beyond`` and ``packed``, the subtopics of sentences for
        the page's script; None where there are none.
    """
    found = comparison.get("subtopics")
    if not found:
        return None
    within = bool(comparison.get("self"))
    rows = [_row(row, within) for row in found["rows"]]
    groups = [
        {"title": "Subtopics" if within else title, "holder": holder, "rows": own}
        for holder, title in _TITLES.items()
        if (own := [row for row in rows if row["holder"] == holder])
    ]
    sides = {"a": list(found["a"]), "b": list(found["a"] if within else found["b"])}
    # A sentence that the page does not show has no place to colour.
    shown = {"a": len(a["passage_of_sentence"]), "b": len(b["passage_of_sentence"])}
    return {
        "by": found["by"],
        "within": within,
        "groups": groups,
        "number": len(rows),
        "beyond": [(letter, count) for letter, count in zip("AB", found["beyond"], strict=True) if count],
        "packed": {
            **{side: clusters[: shown[side]] for side, clusters in sides.items()},
            "alone": [row["number"] for row in rows if row["holder"] != "both"] if not within else [],
        },
    }


def _row(row: Mapping[str, Any], within: bool) -> dict[str, Any]:
    words: Sequence[str] = row["words"]
    return {
        "number": int(row["number"]),
        "holder": "a" if within else row["holder"],
        "words": ", ".join(words) or "no words of its own",
        "a": len(row["a"]),
        "b": len(row["b"]),
        "share_a": finite(row["share_a"]),
        "share_b": finite(row["share_b"]),
        "similarity": None if row["similarity"] is None else finite(row["similarity"]),
    }
