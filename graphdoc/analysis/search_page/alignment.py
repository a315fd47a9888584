"""What the page shows of an alignment: the best pairs of paragraphs, their texts side by side, and sentence pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..pages.numbers import decimals, finite, number, percent
from .bars import width

# Where results hold all pairs.
_SHOWN_PAIRS, _SHOWN_SENTENCES = 5, 12
_SIDES = ("source", "candidate")


def alignment_of(hit: Mapping[str, Any]) -> dict[str, Any] | None:
    """The strongest pairs of paragraphs of a score by sentences; None where the search was by something else.

    Args:
        hit: one hit of ``SearchResults.to_dict()``.
    """
    alignment = hit.get("alignment")
    if alignment is None:
        return None
    best = sorted(alignment["pairs"], key=_by_strength)[:_SHOWN_PAIRS]
    score = finite(alignment["score"])
    added = [finite(pair["contribution"]) for pair in best]
    places = decimals([*filter(None, added), *([score] if score else [])])
    largest = max(map(abs, filter(None, added)), default=0.0)
    whole = bool(alignment.get("whole", alignment.get("by") == "document"))
    total = alignment.get("total", len(alignment["pairs"]))
    return {
        "total": total,
        "score": number(score, places),
        "left": total - len(best),
        "whole": whole,
        "both": any(pair["direction"] == "candidate" for pair in best),
        "pairs": [
            {**_pair(pair, places), "width": width(part, largest), "percent": percent(_share(part, score))}
            for pair, part in zip(best, added, strict=True)
        ],
    }


def _pair(pair: Mapping[str, Any], places: int) -> dict[str, Any]:
    sentences = sorted(pair["sentences"], key=_order)[:_SHOWN_SENTENCES]
    parts = decimals([finite(one["contribution"]) or 0.0 for one in sentences])
    return {
        "source": pair["source"],
        "candidate": pair["candidate"],
        "reverse": pair["direction"] == "candidate",
        "added": number(finite(pair["contribution"]), places),
        "score": number(finite(pair["score"])),
        "sides": [
            {
                "name": side,
                "heading": str(pair.get(f"{side}_heading") or ""),
                "number": pair[side] + 1,
                "stretch": _stretch(pair.get(f"{side}_stretch"), [one[side] for one in sentences]),
            }
            for side in _SIDES
        ],
        "sentences": [
            {
                "added": number(finite(one["contribution"]), parts),
                "cosine": number(finite(one["cosine"])),
                "sides": [{"number": one[side] + 1, "text": one.get(f"{side}_text")} for side in _SIDES],
            }
            for one in sentences
        ],
        "left": pair.get("total", len(pair["sentences"])) - len(sentences),
    }


def _stretch(stretch: Sequence[Mapping[str, Any] | None] | None, paired: Sequence[int]) -> list[dict[str, Any]]:
    """The sentences of a text, each with the numbers of the listed pairs that it is in, and gaps."""
    shown: list[dict[str, Any]] = []
    for one in stretch or ():
        if one is None:
            shown.append({"gap": True})
            continue
        ranks = [rank for rank, sentence in enumerate(paired, start=1) if sentence == one["sentence"]]
        shown.append({"gap": False, "space": one["space"], "text": one["text"], "ranks": ranks})
    return shown


def _share(part: float | None, score: float | None) -> float | None:
    return part / score if part is not None and score and score > 0 else None


def _by_strength(pair: Mapping[str, Any]) -> tuple[float, int, int]:
    return -(finite(pair["strength"]) or 0.0), pair["source"], pair["candidate"]


def _order(pair: Mapping[str, Any]) -> tuple[float, int, int]:
    return -(finite(pair["contribution"]) or 0.0), pair["source"], pair["candidate"]
