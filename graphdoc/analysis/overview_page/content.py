"""What the page of an overview holds: packed numbers for its script, and lists that are read without one."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...runtime.text import one_line
from ..pages.page import relative_link

# Nothing on a page is longer; the files beside it have all of it.
NAME_CHARACTERS = 160
# A page of 20,000 documents shall stay below 15 MB: so much may openings, titles and ids take.
_OPENING_BYTES, _NAME_BYTES = 5_000_000, 2_500_000
# A command of such a length is nothing to copy.
_LONGEST_PLACE = 1_000
# Colours tell no more values apart, and a field that few documents have is none of the collection.
_MOST_VALUES, _LEAST_SHARE, _MOST_FIELDS = 60, 0.2, 8
LISTED_SETS, LISTED_COPIES, LISTED_REPEATS = 100, 20, 100
_PASSAGE_CHARACTERS = 240
_NONE = 65_535


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a pair beside the page.

    Args:
        a: row of the first document.
        b: row of the second.
        link: where it is, relative to the page.
    """

    a: int
    b: int
    link: str


@dataclass(frozen=True, slots=True)
class Command:
    """How the report of two documents is made.

    Args:
        places: what a command calls each document; None where it cannot name it.
        options: what follows the documents, ready for a shell.
    """

    places: Sequence[str | None]
    options: str


def page_data(overview: Mapping[str, Any], reports: Sequence[Report], command: Command | None) -> dict[str, Any]:
    """What the script needs, in about 400 bytes a document.

    Args:
        overview: the payload.
        reports: reports beside the page.
        command: how others are made.
    """
    documents = overview["documents"]
    near = [document["neighbours"] for document in documents]
    width = max(map(len, near), default=0)
    words = sorted({word for document in documents for word in document["telling_words"]})
    place = {word: number for number, word in enumerate(words)}
    return {
        "titles": _within(_NAME_BYTES, NAME_CHARACTERS, [document["title"] for document in documents]),
        "ids": _within(_NAME_BYTES, NAME_CHARACTERS, [document["id"] for document in documents]),
        "openings": _within(_OPENING_BYTES, 280, [document["opening"] for document in documents]),
        "x": _packed(_positions(documents, "x"), "<u2"),
        "y": _packed(_positions(documents, "y"), "<u2"),
        "group": _packed([(document["group"] or 0) - 1 for document in documents], "<i2"),
        "length": _packed([document["words"] for document in documents], "<u4"),
        "closeness": _packed([round(10_000 * document["closeness"]) for document in documents], "<i2"),
        "neighbours": {
            "width": width,
            "rows": _packed([one["document"] for own in near for one in own], "<u4"),
            "scores": _packed([round(10_000 * one["score"]) for own in near for one in own], "<i2"),
        },
        "words": {
            "list": words,
            "counts": _packed([len(document["telling_words"]) for document in documents], "<u2"),
            "places": _packed([place[word] for one in documents for word in one["telling_words"]], "<u4"),
        },
        "fields": _fields(documents),
        "groups": [{"name": group["name"], "words": group["words"]} for group in overview["groups"]],
        "reports": [[one.a, one.b, one.link] for one in reports if relative_link(one.link)],
        "command": None if command is None else {"places": _places(command.places), "options": command.options},
    }


def lists_of(overview: Mapping[str, Any], reports: Sequence[Report]) -> dict[str, Any]:
    """The lists that stand in the page as text: groups, closest pairs, near-duplicates, outliers and what repeats."""
    documents = overview["documents"]
    links = {(one.a, one.b): relative_link(one.link) for one in reports}
    shown = [one_line(document["title"], NAME_CHARACTERS) for document in documents]

    def named(row: int) -> dict[str, Any]:
        return {"row": row, "title": shown[row]}

    sets = overview["duplicates"]
    # A payload of before repeated passages were listed says nothing of them; None is what is not known.
    repeats = overview.get("repeats", {}) or {}
    passages = repeats.get("passages", [])
    return {
        "groups": [
            {**group, "typical": [named(row) for row in group["typical"]], "words": group["words"]}
            for group in overview["groups"]
        ],
        "in_no_group": sum(document["group"] is None for document in documents),
        "pairs": [
            {
                "a": named(pair["a"]),
                "b": named(pair["b"]),
                "score": pair["score"],
                "link": links.get((pair["a"], pair["b"])),
            }
            for pair in overview["pairs"]
        ],
        "duplicates": [
            {"size": len(rows), "shown": [named(row) for row in rows[:LISTED_COPIES]]} for rows in sets[:LISTED_SETS]
        ],
        "more_duplicates": max(0, len(sets) - LISTED_SETS),
        "in_duplicates": sum(map(len, sets)),
        "repeats": {
            "kept": 0,
            **repeats,
            "is_known": overview.get("repeats", {}) is not None,
            "count": len(passages),
            "passages": [
                {
                    **one,
                    "text": one_line(one["text"], _PASSAGE_CHARACTERS),
                    "examples": [named(row) for row in one["examples"]],
                }
                for one in passages[:LISTED_REPEATS]
            ],
        },
        "outliers": [{**named(row), "closeness": documents[row]["closeness"]} for row in overview["outliers"]],
    }


def _fields(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What documents can be coloured by besides their groups: label, date, folder, and metadata that they share."""
    names = Counter(name for document in documents for name in document["metadata"])
    own = ("label", "date", "folder")
    values = {name: [document[name] for document in documents] for name in own}
    values |= {name: [one["metadata"].get(name) for one in documents] for name in sorted(names) if name not in own}
    found: list[dict[str, Any]] = []
    for name, of_all in values.items():
        there = Counter(value for value in of_all if value)
        if not there or (name not in own and sum(there.values()) < _LEAST_SHARE * len(documents)):
            continue
        if name == "date":
            years = [round(1_000 * _year(value)) if value else 0 for value in of_all]
            found.append({"name": name, "kind": "date", "values": _packed(years, "<u4"), "shown": _dates(of_all)})
            continue
        shared = [value for value, count in there.most_common() if count > 1]
        if name not in own and not (1 < len(there) <= _MOST_VALUES and shared):
            continue
        if len(there) < 2 and name != "label":
            continue
        ranked = [value for value, _ in sorted(there.items(), key=lambda item: (-item[1], item[0]))][: _NONE - 1]
        number = {value: place for place, value in enumerate(ranked)}
        codes = [number.get(value, _NONE) if value else _NONE for value in of_all]
        shown = [one_line(value, NAME_CHARACTERS) for value in ranked]
        counts = [there[value] for value in ranked]
        found.append(
            {"name": one_line(name, 40), "kind": "names", "values": _packed(codes, "<u2")}
            | {"list": shown, "counts": counts}
        )
    return found[:_MOST_FIELDS]


def _year(date: str) -> float:
    year, month, day = (int(part) for part in (*date.split("-"), "1", "1")[:3])
    return year + (month - 1) / 12 + (day - 1) / 372


def _dates(values: Sequence[str | None]) -> list[str]:
    return [value or "" for value in values]


def _positions(documents: Sequence[Mapping[str, Any]], axis: str) -> list[int]:
    return [round((document[axis] + 1) / 2 * _NONE) for document in documents]


def _places(places: Sequence[str | None]) -> dict[str, Any]:
    """Places, of which the beginning that all share is written once."""
    usable = [place if place and len(place) <= _LONGEST_PLACE and place.isprintable() else None for place in places]
    named = [place for place in usable if place is not None]
    first, last = min(named, default=""), max(named, default="")
    length = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return {"start": first[:length], "rest": [None if place is None else place[length:] for place in usable]}


def _within(most_bytes: int, characters: int, texts: Sequence[str]) -> list[str]:
    """Texts on one line, cut so that all together take no more bytes than they may."""
    shown = [one_line(text, characters) for text in texts]
    size = sum(len(text.encode("utf-8", "replace")) for text in shown)
    if size <= most_bytes:
        return shown
    return _within(most_bytes, max(20, int(0.9 * characters * most_bytes / size)), texts) if characters > 20 else shown


def _packed(values: Sequence[int] | npt.NDArray[Any], kind: str) -> str:
    return base64.b64encode(np.array(values, kind).tobytes()).decode("ascii")
