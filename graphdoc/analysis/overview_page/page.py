"""The page of an overview: one file with the map, groups, pairs, a table and a search, that loads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import OutputError
from ...runtime.text import one_line
from ...similarity.background import percent_closer
from ..pages.page import packed, relative_link, render

FORMAT = "graphdoc.overview/1"

# Nothing on a page is longer; the files next to it have all of it.
NAME_CHARACTERS, _OPENING_CHARACTERS, _PASSAGE_CHARACTERS = 160, 280, 240
# A page of 20,000 documents shall stay below 15 MB: at most these bytes of openings, and of titles and ids.
_OPENING_BYTES, _NAME_BYTES = 5_000_000, 2_500_000
# More values cannot be told apart by colour.
_MOST_VALUES = 60
# A field that few documents have does not describe the collection.
_LEAST_SHARE = 0.2
_MOST_FIELDS = 8
LISTED_SETS, LISTED_COPIES, LISTED_REPEATS = 100, 20, 100
_NONE = 65_535

_FOLDER = Path(__file__).parent
_SCRIPTS = ("state.js", "map.js", "panels.js", "main.js")


def render_overview(
    overview: Mapping[str, Any], *, name: str = "", links: Mapping[tuple[int, int], str] | None = None
) -> str:
    """Return the page of an overview, which loads nothing and needs no network."""
    if overview.get("format") != FORMAT:
        raise OutputError(f"an overview of format {overview.get('format')!r} cannot be shown; give one of {FORMAT!r}")
    values = {
        "name": name or "Overview",
        "documents": len(overview["documents"]),
        "model": overview["model"] or {},
        "settings": overview["settings"],
        "not_whole": overview.get("not_whole"),
        **lists_of(overview, links or {}),
    }
    return render(
        _FOLDER / "overview.html",
        values,
        styles=[_FOLDER / "overview.css"],
        scripts=[_FOLDER / script for script in _SCRIPTS],
        data=page_data(overview, links or {}),
    )


def page_data(overview: Mapping[str, Any], links: Mapping[tuple[int, int], str]) -> dict[str, Any]:
    """Data for the script of the page, about 400 bytes a document."""
    documents = overview["documents"]
    near = [other for document in documents for other in document["neighbours"]]
    words = sorted({word for document in documents for word in document["keywords"]})
    place = {word: number for number, word in enumerate(words)}

    def column(name: str) -> list[Any]:
        return [document[name] for document in documents]

    def ten_thousandths(values: Sequence[float]) -> str:
        return packed([round(10_000 * value) for value in values], "<i2")

    return {
        "titles": _within(_NAME_BYTES, NAME_CHARACTERS, column("title")),
        "ids": _within(_NAME_BYTES, NAME_CHARACTERS, column("id")),
        "openings": _within(_OPENING_BYTES, _OPENING_CHARACTERS, column("opening")),
        **{axis: packed([round((value + 1) / 2 * _NONE) for value in column(axis)], "<u2") for axis in ("x", "y")},
        "group": packed([(group or 0) - 1 for group in column("group")], "<i2"),
        "length": packed(column("words"), "<u4"),
        "closeness": ten_thousandths(column("closeness")),
        "neighbours": {
            "width": max(map(len, column("neighbours")), default=0),
            "rows": packed([other["document"] for other in near], "<u4"),
            "scores": ten_thousandths([other["score"] for other in near]),
        },
        "words": {
            "list": words,
            "counts": packed([len(telling) for telling in column("keywords")], "<u2"),
            "places": packed([place[word] for telling in column("keywords") for word in telling], "<u4"),
        },
        "fields": _fields(documents),
        "groups": [{"name": group["name"], "words": group["words"]} for group in overview["groups"]],
        "reports": [[*pair, link] for pair, link in links.items() if relative_link(link)],
    }


def lists_of(overview: Mapping[str, Any], links: Mapping[tuple[int, int], str]) -> dict[str, Any]:
    """The lists that stand in the page as text: groups, closest pairs, near-duplicates, outliers and what repeats."""
    documents, sets, repeats = overview["documents"], overview["duplicates"], overview["repeats"]
    titles = [one_line(document["title"], NAME_CHARACTERS) for document in documents]

    def named(rows: Sequence[int]) -> list[dict[str, Any]]:
        return [{"row": row, "title": titles[row], "closeness": documents[row]["closeness"]} for row in rows]

    pairs = []
    for pair in overview["pairs"]:
        a, b = named([pair["a"], pair["b"]])
        closer = None if pair["share"] is None else percent_closer(pair["share"])
        link = relative_link(links.get((pair["a"], pair["b"])))
        pairs.append({"a": a, "b": b, "score": pair["score"], "closer": closer, "link": link})
    groups = [{**group, "typical": named(group["typical"])} for group in overview["groups"]]
    period = _add_bars(groups, documents)
    return {
        "groups": groups,
        "period": period,
        "in_no_group": sum(document["group"] is None for document in documents),
        "pairs": pairs,
        "duplicates": [{"size": len(rows), "shown": named(rows[:LISTED_COPIES])} for rows in sets[:LISTED_SETS]],
        "more_duplicates": max(0, len(sets) - LISTED_SETS),
        "in_duplicates": sum(map(len, sets)),
        "outliers": named(overview["outliers"]),
        # None where it is not known what was left out.
        "repeats": repeats
        and {
            **repeats,
            "count": len(repeats["passages"]),
            "passages": [
                {**part, "text": one_line(part["text"], _PASSAGE_CHARACTERS), "examples": named(part["examples"])}
                for part in repeats["passages"][:LISTED_REPEATS]
            ],
        },
    }


def _fields(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Fields to colour documents by, besides their groups: label, date, folder, and metadata that they share."""
    usual = ("label", "date", "folder")
    names = {name for document in documents for name in document["metadata"]}
    values = {name: [document[name] for document in documents] for name in usual}
    own = sorted(names.difference(usual))
    values |= {name: [document["metadata"].get(name) for document in documents] for name in own}
    fields: list[dict[str, Any]] = []
    for name, of_all in values.items():
        counts = Counter(filter(None, of_all))
        if name == "date" and counts:
            years = [round(1_000 * _year(value)) if value else 0 for value in of_all]
            shown = [value or "" for value in of_all]
            fields.append({"name": name, "kind": "date", "values": packed(years, "<u4"), "shown": shown})
            continue
        is_shared = counts.total() >= _LEAST_SHARE * len(documents) and len(counts) <= _MOST_VALUES
        is_told_apart = len(counts) > 1 and (name in usual or (is_shared and max(counts.values()) > 1))
        if of_all == values["date"] or not (is_told_apart or (name == "label" and counts)):
            continue
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: _NONE - 1]
        number = {value: place for place, (value, _) in enumerate(ranked)}
        codes = packed([number.get(value, _NONE) for value in of_all], "<u2")
        shown, sizes = [one_line(value, NAME_CHARACTERS) for value, _ in ranked], [count for _, count in ranked]
        fields.append({"name": one_line(name, 40), "kind": "names", "values": codes, "list": shown, "counts": sizes})
    return fields[:_MOST_FIELDS]


def _add_bars(groups: Sequence[dict[str, Any]], documents: Sequence[Mapping[str, Any]]) -> str:
    """Give every group its documents over time as bars, a path in a square of 100; the period, empty without one."""
    dates = sorted(document["date"] for document in documents if document["date"])
    low, high = (_month(dates[at]) for at in (0, -1)) if dates else (0, 0)
    if low == high or len(dates) < _LEAST_SHARE * len(documents):
        return ""
    # Months, quarters, or so many whole years that there are 36 bars at most.
    step = next((step for step in (1, 3) if high - low < 35 * step), 12 * (1 + (high - low) // 432))
    width = 100 / (high // step - low // step + 1)
    for group in groups:
        own = [one["date"] for one in documents if one["group"] == group["number"] and one["date"]]
        bars = Counter(_month(date) // step - low // step for date in own)
        tall = 100 / max(bars.values(), default=1)
        path = [f"M{width * at:.1f} 100v-{tall * count:.0f}h{0.8 * width:.1f}V100" for at, count in bars.items()]
        group["over_time"] = "".join(path)
    return f"{dates[0]} to {dates[-1]}"


def _month(date: str) -> int:
    return int(12 * _year(date) + 1e-6)


def _year(date: str) -> float:
    year, month, day = (int(part) for part in (*date.split("-"), "1", "1")[:3])
    return year + (month - 1) / 12 + (day - 1) / 372


def _within(most_bytes: int, characters: int, texts: Sequence[str]) -> list[str]:
    """Texts on one line, cut so that all together take no more bytes than they may."""
    shown = [one_line(text, characters) for text in texts]
    size = sum(len(text.encode("utf-8", "replace")) for text in shown)
    if size <= most_bytes or characters <= 20:
        return shown
    return _within(most_bytes, max(20, int(0.9 * characters * most_bytes / size)), texts)
