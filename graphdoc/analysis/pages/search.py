"""The results page of a search: one HTML file with the query, the hits, and why they are hits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from ...similarity.hierarchical import By
from .marks import marked_text
from .page import decimals, finite, number, percent, relative_link, render, width

_FOLDER = Path(__file__).parent
_BY_SENTENCES = get_args(By)
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
        form: whether it can ask again, which needs a server: ``q`` or ``document``, ``by`` and ``where`` go to where
            it came from.
    """
    kinds = _kinds(results)
    values = {
        "results": results,
        "query": _query(results["query"]),
        "by": _NAMES.get(results["by"], results["by"]),
        "fusion": _NAMES.get(results["fusion"], results["fusion"]),
        "settings": _settings(results),
        "kinds": kinds,
        "hits": _hits(results, kinds),
        "form": _form(results) if form else None,
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


def _settings(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the query was searched, as names and values."""
    index = results["index"]
    settings = {
        "ranked by": _NAMES.get(results["by"], results["by"]),
        "fused by": _NAMES.get(results["fusion"], results["fusion"]),
        "filter": results["where"],
        "most hits": results["k"],
        "index": index.get("place"),
        **{name: f"{index[name]:,}" for name in ("documents", "passages") if name in index},
        **{f"model’s {name.replace('_', ' ')}": value for name, value in index["model"].items()},
    }
    return [(name, _plain(value)) for name, value in settings.items() if value is not None]


def _form(results: Mapping[str, Any]) -> dict[str, Any]:
    """What can be asked next: ways for a text, and for a document also by its sentences where the index keeps them."""
    by, by_sentences = results["by"], list(_BY_SENTENCES) if results["index"].get("sentences") else []
    like = by if by in _BY_SENTENCES else by_sentences[0] if by_sentences else "hybrid"
    return {"ways": ["hybrid", "words", "vectors"], "by_sentences": by_sentences, "like": like}


def _kinds(results: Mapping[str, Any]) -> tuple[str, ...]:
    """The rankings that can give a score its parts: by sentences the words only where they count."""
    if results["by"] not in _BY_SENTENCES:
        return ("words", "vectors")
    return (results["by"],) if results["fusion"] is None else ("words", results["by"])


def _hits(results: Mapping[str, Any], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """The hits, with bars as wide as their parts are against the best score of all."""
    hits, fused = results["hits"], results["fusion"] is not None
    shares = [
        {kind: finite(hit["parts"][kind]["share"]) or 0.0 for kind in kinds if kind in hit["parts"]} for hit in hits
    ]
    places = decimals([*(hit["score"] for hit in hits), *(share for of_hit in shares for share in of_hit.values())])
    longest = max((sum(max(0.0, share) for share in of_hit.values()) for of_hit in shares), default=0.0)
    scales = {}
    for kind in kinds:
        scores = [finite(passage.get(kind)) for hit in hits for passage in hit["passages"]]
        scales[kind] = (max((score for score in scores if score is not None), default=0.0), decimals(scores))
    return [
        {
            **hit,
            "title": hit["title"] or hit["id"],
            "link": relative_link(hit["comparison"]),
            "score": number(hit["score"], places),
            "bars": _bars(of_hit, longest),
            "parts": [_part(hit, kind, places, fused) for kind in kinds if fused or kind in hit["parts"]],
            "tags": _tags(hit["metadata"]),
            "passages": [_passage(passage, scales) for passage in hit["passages"]],
            "alignment": hit["alignment"] and _alignment(hit["alignment"]),
            "why": hit["explanation"] and _explanation(hit),
        }
        for hit, of_hit in zip(hits, shares, strict=True)
    ]


def _bars(shares: Mapping[str, float], longest: float) -> list[dict[str, Any]]:
    """The parts of a score, one after the other."""
    bars, place = [], 0.0
    for kind, share in shares.items():
        size = width(max(0.0, share), longest)
        bars.append({"kind": kind, "x": round(place, 2), "width": size})
        place += size
    return bars


def _part(hit: Mapping[str, Any], kind: str, places: int, fused: bool) -> dict[str, Any]:
    part = hit["parts"].get(kind)
    if part is None:
        return {"kind": kind, "found": False}
    return {
        "kind": kind,
        "found": True,
        "rank": part["rank"],
        "score": number(part["score"], decimals([part["score"]])),
        "share": number(part["share"], places) if fused else None,
        "percent": percent(_share(part["share"], hit["score"])) if fused else "",
    }


def _passage(passage: Mapping[str, Any], scales: Mapping[str, tuple[float, int]]) -> dict[str, Any]:
    bars = [
        {
            "kind": kind,
            "score": number(passage[kind], places),
            "width": width(max(0.0, finite(passage[kind]) or 0.0), largest),
        }
        for kind, (largest, places) in scales.items()
        if passage.get(kind) is not None
    ]
    text = passage["text"]
    return {**passage, "text": marked_text(text, passage["matches"]), "characters": len(text), "bars": bars}


def _tags(metadata: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Names and values of the metadata, each with the whole value where it is shortened."""
    tags = []
    for name, value in metadata.items():
        if value is not None:
            text = _plain(value)
            short = _shortened(text, TAG_CHARACTERS)
            tags.append((name, short, "" if short == text else text))
    return tags


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_plain(part)}" for name, part in value.items())
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else str(value)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rstrip() + " …"


def _alignment(alignment: Mapping[str, Any]) -> dict[str, Any]:
    """The strongest pairs of paragraphs of a score by sentences."""
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


def _explanation(hit: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a hit: what terms and passages add to the scores by these."""
    return {name: _table(rows, hit["parts"].get(name)) for name, rows in hit["explanation"].items()}


def _table(rows: Sequence[Mapping[str, Any]], ranking: Mapping[str, Any] | None) -> dict[str, Any]:
    parts = [finite(row["part"]) for row in rows]
    known = [part for part in parts if part is not None]
    places, largest, total = decimals(known), max(map(abs, known), default=0.0), math.fsum(known)
    score = finite(ranking["score"]) if ranking else None
    agree = score is None or math.isclose(total, score, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return {
        "rows": [
            {**row, "part": number(part, places), "width": width(part, largest), "against": (part or 0) < 0}
            for row, part in zip(rows[:LISTED_ROWS], parts, strict=False)
        ],
        "left": max(0, len(rows) - LISTED_ROWS),
        "total": number(total, places),
        "score": None if agree else number(score, places),
    }
