"""What the results page shows: the query, how it was searched, and the hits with their parts and passages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from ...runtime.text import counted, one_line
from ...similarity.hierarchical import By
from ..pages.page import decimals, finite, number, percent, relative_link, width

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


Range = tuple[int, int]

# A passage that is a little longer is shown whole: a button for one more line is in the way.
SHOWN_CHARACTERS = 480
_NEARLY = 160
_BEFORE = 80
_WORD = 24


@dataclass(frozen=True)
class MarkedText:
    """A text in three stretches, each a list of (text, whether it is marked)."""

    before: list[tuple[str, bool]]
    shown: list[tuple[str, bool]]
    after: list[tuple[str, bool]]


def marked_text(text: str, ranges: Iterable[Sequence[int]], most: int = SHOWN_CHARACTERS) -> MarkedText:
    """Cut a text at its marked ranges, around the stretch that holds most of the matching words.

    Args:
        text: a passage.
        ranges: first character of every match and the one after its last; what lies outside of the text is ignored.
        most: about how many characters are shown first.

    >>> marked_text("a tidal barrage", [(2, 7)]).shown
    [('a ', False), ('tidal', True), (' barrage', False)]
    """
    found = _in_order(ranges, len(text))
    start, end = _stretch(text, found, most)
    return MarkedText(*(list(_pieces(text, found, *span)) for span in ((0, start), (start, end), (end, len(text)))))


def excerpt(text: str, ranges: Iterable[Sequence[int]], most: int) -> str:
    """The stretch of a text that holds most of the matching words, on one line, with dots where the text goes on.

    Args:
        text: a passage.
        ranges: as for :func:`marked_text`.
        most: about how many characters it has.

    >>> excerpt("The sea is held back by a barrage, which is a dam with gates.", [(26, 33), (46, 49)], 30)
    '… back by a barrage, which is a dam with …'
    """
    most = max(1, most)
    found = _in_order(ranges, len(text))
    # In scripts without spaces, whose letters are wide, the way back to a word's beginning would fill the line.
    start, end = _stretch(text, found, most, before=most // 5, nearly=0, word=min(_WORD, most // 5))
    if start and sum(last <= most for _, last in found) == sum(
        first >= start and last <= end for first, last in found
    ):
        # The beginning has as many of them.
        start, end = 0, _stretch(text, (), most, before=0, nearly=0)[1]
    dots = ("… " if start else "", " …" if end < len(text) else "")
    return one_line(f"{dots[0]}{text[start:end].strip()}{dots[1]}")


def _in_order(ranges: Iterable[Sequence[int]], characters: int) -> list[Range]:
    """Ranges inside of a text, from first to last, those that overlap as one."""
    merged: list[Range] = []
    for start, end in sorted((max(0, start), min(characters, end)) for start, end in ranges):
        if start >= end:
            continue
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _pieces(text: str, ranges: Sequence[Range], first: int, last: int) -> Iterator[tuple[str, bool]]:
    place = first
    for start, end in ranges:
        start, end = max(start, first), min(end, last)
        if start >= end:
            continue
        if start > place:
            yield text[place:start], False
        yield text[start:end], True
        place = end
    if place < last:
        yield text[place:last], False


def _stretch(
    text: str, ranges: Sequence[Range], most: int, *, before: int = _BEFORE, nearly: int = _NEARLY, word: int = _WORD
) -> Range:
    """The stretch with most different matching words, of those the one with most matches, the first of equals."""
    if len(text) <= most + nearly:
        return 0, len(text)
    room = most - before
    words = [text[start:end].casefold() for start, end in ranges]
    inside: Counter[str] = Counter()
    best, chosen, last = (0, 0), 0, 0
    for first, (start, _) in enumerate(ranges):
        while last < len(ranges) and ranges[last][1] <= start + room:
            inside[words[last]] += 1
            last += 1
        value = (len(inside), last - first)
        if value > best:
            best, chosen = value, start
        inside[words[first]] -= 1
        if inside[words[first]] <= 0:
            del inside[words[first]]
        last = max(last, first + 1)
    start = min(max(0, chosen - before), len(text) - most)
    end = start + most
    for _ in range(word):
        start -= start > 0 and not text[start - 1].isspace()
        end += end < len(text) and not text[end].isspace()
    return start, end


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
                "stretch": _numbered_stretch(pair.get(f"{side}_stretch"), [one[side] for one in sentences]),
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


def _numbered_stretch(
    stretch: Sequence[Mapping[str, Any] | None] | None, paired: Sequence[int]
) -> list[dict[str, Any]]:
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
