"""What the results page shows: the query, how it was searched, and the hits with their parts and passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from ...runtime.text import counted
from ...similarity.hierarchical import By
from ..pages.numbers import decimals, finite, number, percent
from .alignment import alignment_of
from .bars import width
from .explanation import explanation_of
from .links import relative_link
from .marks import marked_text

_BY_SENTENCES = get_args(By)
# A query may be a whole document, and metadata may hold its abstract: what is longer is a click away.
HEADLINE_CHARACTERS = 280
TAG_CHARACTERS = 100

_BY = {"hybrid": "words and vectors"}
_FUSIONS = {"reciprocal_rank": "reciprocal rank", "weighted": "a weighted sum"}


def query_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """The query as a headline, with what is too long for one."""
    query = results["query"]
    text, document = str(query.get("text") or ""), query.get("document")
    of_document = document is not None or bool(query.get("title"))
    headline = str(query.get("title") or document) if of_document else text.strip()
    short = _shortened(headline, HEADLINE_CHARACTERS)
    return {
        "of_document": of_document,
        "document": None if document is None else str(document),
        "headline": short,
        "id": None if document is None or str(document) == headline else str(document),
        "text": text if text.strip() and (of_document or short != headline) else "",
    }


def search_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """How the query was searched: one sentence's words, and a list of names and values."""
    index = results.get("index") or {}
    model = index.get("model") or {}
    by, fusion, where = results.get("by"), results.get("fusion"), results.get("where")
    settings = {
        "ranked by": _BY.get(str(by), by),
        "fused by": _FUSIONS.get(str(fusion), fusion),
        "filter": where,
        "most hits": results.get("k"),
        "index": index.get("place"),
        "documents": _count(index.get("documents")),
        "passages": _count(index.get("passages")),
        **{f"model’s {str(name).replace('_', ' ')}": value for name, value in model.items()},
    }
    return {
        "by": settings["ranked by"],
        "fusion": settings["fused by"],
        "where": where,
        "documents": index.get("documents"),
        "passages": index.get("passages"),
        "model": model.get("name"),
        "settings": [(name, _plain(value)) for name, value in settings.items() if value is not None],
    }


def form_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """What can be asked next: ways for a text, and for a document also by its sentences where the index keeps them."""
    by, ways = results.get("by"), ["hybrid", "words", "vectors"]
    by_sentences = list(_BY_SENTENCES) if (results.get("index") or {}).get("sentences") else []
    like = by if by in _BY_SENTENCES else by_sentences[0] if by_sentences else "hybrid"
    return {"by": by, "where": results.get("where"), "ways": ways, "by_sentences": by_sentences, "like": like}


def kinds_of(results: Mapping[str, Any]) -> tuple[str, ...]:
    """The rankings that can give a score its parts: by sentences the words only where they count."""
    by = results.get("by")
    if by not in _BY_SENTENCES:
        return ("words", "vectors")
    return ("words", str(by)) if results.get("fusion") is not None else (str(by),)


def hits_of(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The hits, with bars as wide as their parts are against the best score of all."""
    hits = results["hits"]
    kinds = kinds_of(results)
    shares = [share for hit in hits for share in _shares(hit, kinds).values() if share is not None]
    places = decimals([*filter(None, (finite(hit["score"]) for hit in hits)), *shares])
    longest = max((sum(max(0.0, share or 0.0) for share in _shares(hit, kinds).values()) for hit in hits), default=0.0)
    passages = [passage for hit in hits for passage in hit["passages"]]
    scales = {kind: _scale(passage.get(kind) for passage in passages) for kind in kinds}
    fused = results.get("fusion") is not None
    return [
        {
            "rank": hit["rank"],
            "id": str(hit["id"]),
            "title": str(hit.get("title") or hit["id"]),
            "link": relative_link(hit.get("comparison")),
            "score": number(finite(hit["score"]), places),
            "bars": _bars(_shares(hit, kinds), longest),
            "parts": [_part(hit, kind, places, fused) for kind in kinds if fused or kind in hit["parts"]],
            "tags": _tags(hit.get("metadata") or {}),
            "passages": [_passage(passage, scales) for passage in hit["passages"]],
            "alignment": alignment_of(hit),
            "why": explanation_of(hit),
        }
        for hit in hits
    ]


def _shares(hit: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, float | None]:
    return {kind: finite(hit["parts"][kind].get("share")) for kind in kinds if hit["parts"].get(kind)}


def _bars(shares: Mapping[str, float | None], longest: float) -> list[dict[str, Any]]:
    """The parts of a score, one after the other."""
    bars, place = [], 0.0
    for kind, share in shares.items():
        size = width(max(0.0, share or 0.0), longest)
        bars.append({"kind": kind, "x": round(place, 2), "width": size})
        place += size
    return bars


def _part(hit: Mapping[str, Any], kind: str, places: int, fused: bool) -> dict[str, Any]:
    part = hit["parts"].get(kind)
    if part is None:
        return {"kind": kind, "found": False}
    share, score = finite(part.get("share")), finite(hit["score"])
    of_score = share / score if share is not None and score else None
    value = finite(part.get("score"))
    return {
        "kind": kind,
        "found": True,
        "rank": part.get("rank"),
        "score": number(value, decimals([value] if value else [])),
        "share": number(share, places) if fused else None,
        "percent": percent(of_score) if fused else "",
    }


def _scale(values: Iterable[Any]) -> tuple[float, int]:
    """The largest of the scores of passages, and how many decimals they are written with."""
    known = [value for value in map(finite, values) if value is not None]
    return max(known, default=0.0), decimals(known)


def _passage(passage: Mapping[str, Any], scales: Mapping[str, tuple[float, int]]) -> dict[str, Any]:
    text = marked_text(passage["text"], passage.get("matches") or ())
    characters = len(passage["text"])
    place = [f"passage {passage['number'] + 1:,}"] if passage.get("number") is not None else []
    if passage.get("section") is not None:
        place.append(f"section {passage['section'] + 1:,}")
    if passage.get("start") is not None and passage.get("end") is not None:
        place.append(f"characters {passage['start']:,}–{passage['end']:,}")
    bars = []
    for kind, (largest, places) in scales.items():
        if passage.get(kind) is not None:
            value = finite(passage[kind])
            bars.append(
                {"kind": kind, "score": number(value, places), "width": width(max(0.0, value or 0.0), largest)}
            )
    return {
        "heading": str(passage.get("heading") or ""),
        "place": place,
        "text": text,
        "length": counted(characters, "character") if text.before or text.after else "",
        "bars": bars,
    }


def _tags(metadata: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Names and values of the metadata, each with the whole value where it is shortened."""
    tags = []
    for name, value in metadata.items():
        if value is not None:
            text = _plain(value)
            short = _shortened(text, TAG_CHARACTERS)
            tags.append((str(name), short, "" if short == text else text))
    return tags


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_plain(one)}" for name, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ", ".join(map(_plain, value))
    return str(value)


def _count(value: Any) -> str | None:
    return None if value is None else f"{value:,}"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rstrip() + " …"
