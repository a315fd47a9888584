"""What the HTML report shows of an alignment: pairs of paragraphs and sentences, and what each adds to a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..pages.numbers import finite
from .content import LISTED_MATCHES, end_of_pair, share_of

# Of every pair of paragraphs. A document without headings is one paragraph with all of its sentences.
LISTED_SENTENCES = 100

_MEANINGS = {
    "sentences": "every paragraph with the best one, each of its sentences with the best one there",
    "flat": "every sentence with the best one of the other document, whatever its paragraph",
    "paragraphs": "every paragraph with the best one, as means of their sentences",
    "document": "both documents, as means of their sentences",
}


def read_alignment(comparison: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the pairs of paragraphs in both directions, those that add most first, and the scores by sentences.

    Args:
        comparison: the payload.
        a: what the page shows of the first document.
        b: of the second.

    Returns:
        ``score``, ``scores`` (name, number, what it compares), ``search`` (what the search said that led here, None
        where there was none), ``directions``, each with its listed pairs, and ``packed``, the sentence pairs of these
        for the page's script; None without sentences, and within one document, where every sentence is its own best
        one.
    """
    alignment = comparison.get("alignment")
    if alignment is None or comparison.get("self"):
        return None
    score = finite(alignment["score"])
    directions: list[dict[str, Any]] = []
    packed: list[dict[str, Any]] = []
    for direction, letters in (("source", "AB"), ("candidate", "BA")):
        pairs = [pair for pair in alignment["pairs"] if pair["direction"] == direction]
        if not pairs:
            continue
        ranked = sorted(pairs, key=lambda pair: (-pair["contribution"], pair["source"], pair["candidate"]))
        shown = []
        for pair in ranked[:LISTED_MATCHES]:
            shown.append(
                {
                    "number": len(packed),
                    "a": end_of_pair("paragraphs", pair["source"], a),
                    "b": end_of_pair("paragraphs", pair["candidate"], b),
                    "score": finite(pair["score"]),
                    "contribution": finite(pair["contribution"]),
                    "share": share_of(finite(pair["contribution"]), score),
                    "sentences": len(pair["sentences"]),
                }
            )
            packed.append(_packed(pair))
        added = sum(pair["contribution"] for pair in pairs)
        directions.append({"letters": letters, "total": len(pairs), "added": added, "listed": shown})
    scores = comparison.get("sentence_scores") or {}
    return {
        "score": score,
        "scores": [(name, finite(value), _MEANINGS.get(name, "")) for name, value in scores.items()],
        "search": _search(comparison.get("search")),
        "directions": directions,
        "packed": packed,
    }


def _search(search: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The score of the search that led to the report, and how it came about."""
    if search is None:
        return None
    both = search["direction"] == "both"
    how = "The search looked for A in B, and for B in A" if both else "The search looked for A in B"
    if search["normalisation"] == "zscore":
        how += "; scores are z-scores against those that paragraphs have with all documents"
    return {
        "by": str(search["by"]),
        "score": finite(search["score"]),
        "how": how,
        "aligned": bool(search["aligned"]),
        "left_out": int(search["left_out"]),
    }


def _packed(pair: Mapping[str, Any]) -> dict[str, Any]:
    """A pair of paragraphs as numbers; texts of sentences are in the page already."""
    sentences: Sequence[Mapping[str, Any]] = sorted(
        pair["sentences"], key=lambda one: (-one["contribution"], one["source"], one["candidate"])
    )
    return {
        "a": pair["source"],
        "b": pair["candidate"],
        "score": round(pair["score"], 4),
        "total": len(sentences),
        "sentences": [
            [one["source"], one["candidate"], round(one["cosine"], 6), round(one["contribution"], 9)]
            for one in sentences[:LISTED_SENTENCES]
        ],
    }
