"""The results page of a search: one HTML file with the query, the hits, and why they are hits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from ...runtime.text import unwrapped
from ...similarity.hierarchical import SENTENCE_SCORINGS
from .marks import marked_text
from .page import decimals, finite, number, percent, relative_link, render, width

_FOLDER = Path(__file__).parent
_NAMES = {
    **{"hybrid": "words and vectors", "score": "scores in standard deviations", "weighted": "a weighted sum"},
    "reciprocal_rank": "reciprocal rank",
}
# A query may be a whole document, and metadata may hold its abstract: what is longer is a click away.
HEADLINE_CHARACTERS, TAG_CHARACTERS = 280, 100
# Parts are kept in 32 bits and less; what differs by more is not rounding.
_ROUNDING = 1e-3
# A long document has any number of paragraphs; terms and passages are few.
LISTED_ROWS = 100


def search_page(results: Mapping[str, Any], *, form: bool = False) -> str:
    """Return the results of a search as one HTML page that loads nothing and can be read without scripts.

    Args:
        results: what ``SearchResults.to_dict(excerpt=True)`` gives, ``explain=True`` for tables of what adds to the
            scores; of ``comparison`` only relative links become links.
        form: whether it can ask again, which needs a server: ``q`` or ``document``, ``by`` and ``where`` go back.
    """
    by, fusion, index = results["by"], results["fusion"], results["index"]
    # By sentences, words are a separate ranking only where they count.
    kinds: tuple[str, ...] = ("words", "vectors")
    if by in SENTENCE_SCORINGS:
        kinds = (by,) if fusion is None else ("words", by)
    by_sentences = list(SENTENCE_SCORINGS) if index.get("sentences") else []
    like = by if by in SENTENCE_SCORINGS else by_sentences[0] if by_sentences else "hybrid"
    ways = {"ways": ["hybrid", "words", "vectors"], "by_sentences": by_sentences, "like": like}
    settings = {
        "ranked by": _NAMES.get(by, by),
        "fused by": _NAMES.get(fusion, fusion),
        "filter": results["where"],
        "most hits": results["top_k"],
        "index": index.get("path"),
        **{name: f"{index[name]:,}" for name in ("documents", "passages") if name in index},
        **{f"model’s {name.replace('_', ' ')}": value for name, value in index["model"].items()},
    }
    values = {
        "results": results,
        "query": _query(results["query"]),
        "by": settings["ranked by"],
        "fusion": settings["fused by"],
        "settings": [(name, _plain(value)) for name, value in settings.items() if value is not None],
        "kinds": kinds,
        "hits": _hits(results["hits"], kinds, is_fused=fusion is not None),
        "form": ways if form else None,
    }
    return render(
        _FOLDER / "search.html", values, styles=[_FOLDER / "page.css"], scripts=[_FOLDER / "search.js"], form=form
    )


def _query(query: Mapping[str, Any]) -> dict[str, Any]:
    """The query as a headline, with what is too long for one."""
    text, document = query["text"], query["document"]
    of_document = document is not None or bool(query["title"])
    headline = query["title"] or document if of_document else text.strip()
    short = _shortened(headline, HEADLINE_CHARACTERS)
    return {
        "of_document": of_document,
        "document": document,
        "headline": short,
        "id": None if document == headline else document,
        "text": text if text.strip() and (of_document or short != headline) else "",
    }


def _hits(hits: Sequence[Mapping[str, Any]], kinds: Sequence[str], *, is_fused: bool) -> list[dict[str, Any]]:
    """The hits, with bars as wide as their parts are against the best score of all."""
    shares = [{kind: _size(hit["parts"][kind]["share"]) for kind in kinds if kind in hit["parts"]} for hit in hits]
    parts = [hit["parts"][kind]["share"] for hit in hits for kind in kinds if kind in hit["parts"]]
    places = decimals([*(hit["score"] for hit in hits), *parts])
    longest = max((sum(of_hit.values()) for of_hit in shares), default=0.0)
    scales = {}
    for kind in kinds:
        scores = [finite(passage.get(kind)) for hit in hits for passage in hit["passages"]]
        scales[kind] = (max((score for score in scores if score is not None), default=0.0), decimals(scores))
    return [
        {
            **hit,
            "title": hit["title"] or hit["id"],
            "link": relative_link(hit.get("comparison")),
            "score": number(hit["score"], places),
            "bars": _bars(of_hit, longest),
            "parts": [_part(hit, kind, places, is_fused) for kind in kinds if is_fused or kind in hit["parts"]],
            "tags": [_tag(name, value) for name, value in hit["metadata"].items() if value is not None],
            "passages": [_passage(passage, scales) for passage in hit["passages"]],
            "alignment": hit["alignment"] and _alignment(hit["alignment"]),
            "why": (why := hit["explanation"])
            and {kind: _table(why.get(kind, ()), hit["parts"].get(kind)) for kind in ("words", "vectors")},
        }
        for hit, of_hit in zip(hits, shares, strict=True)
    ]


def _size(value: Any) -> float:
    return max(0.0, finite(value) or 0.0)


def _bars(shares: Mapping[str, float], longest: float) -> list[dict[str, Any]]:
    sizes = [width(share, longest) for share in shares.values()]
    ends = accumulate(sizes, initial=0.0)
    return [{"kind": kind, "x": round(x, 2), "width": size} for kind, x, size in zip(shares, ends, sizes, strict=False)]


def _part(hit: Mapping[str, Any], kind: str, places: int, is_fused: bool) -> dict[str, Any]:
    part = hit["parts"].get(kind)
    if part is None:
        return {"kind": kind, "found": False}
    return {
        "kind": kind,
        "found": True,
        "rank": part["rank"],
        "score": number(part["score"], decimals([part["score"]])),
        "share": number(part["share"], places) if is_fused else None,
        "percent": percent(_share(part["share"], hit["score"])) if is_fused else "",
    }


def _passage(passage: Mapping[str, Any], scales: Mapping[str, tuple[float, int]]) -> dict[str, Any]:
    bars = [
        {"kind": kind, "score": number(passage[kind], places), "width": width(_size(passage[kind]), largest)}
        for kind, (largest, places) in scales.items()
        if passage.get(kind) is not None
    ]
    text = unwrapped(passage["text"])
    return {**passage, "text": marked_text(text, passage["matches"]), "characters": len(text), "bars": bars}


def _tag(name: str, value: Any) -> tuple[str, str, str]:
    """Name and value of metadata, with the whole value where it is shortened."""
    text = _plain(value)
    short = _shortened(text, TAG_CHARACTERS)
    return name, short, "" if short == text else text


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        # A hash says nothing to whoever reads.
        return ", ".join(f"{name}: {_plain(part)}" for name, part in value.items() if name != "vocabulary")
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else str(value)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rstrip() + " …"


def _alignment(alignment: Mapping[str, Any]) -> dict[str, Any]:
    pairs, score = alignment["pairs"], alignment["score"]
    added = [finite(pair["contribution"]) for pair in pairs]
    places = decimals([*added, score])
    largest = max((abs(part) for part in added if part), default=0.0)
    return {
        **alignment,
        "score": number(score, places),
        "both": any(pair["direction"] == "candidate" for pair in pairs),
        "pairs": [
            {
                **pair,
                "added": number(part, places),
                "width": width(part, largest),
                "percent": percent(_share(part, score)),
                "places": decimals(sentences["contribution"] for sentences in pair["sentences"]),
                "sides": [_side(pair, side) for side in ("source", "candidate")],
            }
            for pair, part in zip(pairs, added, strict=True)
        ],
    }


def _side(pair: Mapping[str, Any], side: str) -> dict[str, Any]:
    """A paragraph, each of its sentences with the numbers of the listed pairs that it is in; None for a gap."""
    paired = [sentences[side] for sentences in pair["sentences"]]
    return {
        "name": side,
        "number": pair[side] + 1,
        "heading": pair[f"{side}_heading"],
        "stretch": [
            part and {**part, "ranks": [rank for rank, row in enumerate(paired, start=1) if row == part["sentence"]]}
            for part in pair[f"{side}_stretch"] or ()
        ],
    }


def _share(part: Any, score: Any) -> float | None:
    part, score = finite(part), finite(score)
    return part / score if part is not None and score and score > 0 else None


def _table(rows: Sequence[Mapping[str, Any]], ranking: Mapping[str, Any] | None) -> dict[str, Any]:
    parts = [finite(row["contribution"]) for row in rows]
    known = [part for part in parts if part is not None]
    places, largest, total = decimals(known), max(map(abs, known), default=0.0), math.fsum(known)
    score = finite(ranking["score"]) if ranking else None
    agree = score is None or math.isclose(total, score, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return {
        "rows": [
            {**row, "contribution": number(part, places), "width": width(part, largest), "against": (part or 0) < 0}
            for row, part in zip(rows[:LISTED_ROWS], parts, strict=False)
        ],
        "left": max(0, len(rows) - LISTED_ROWS),
        "total": number(total, places),
        "score": None if agree else number(score, places),
    }
