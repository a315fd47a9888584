"""An overview as plain values for JSON and for the page, and as a table of its documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .overview import Overview

FORMAT = "graphdoc.overview/1"
_KEYWORDS = 16

COLUMNS = (
    *("id", "title", "group", "group_name", "label", "date", "folder", "words", "x", "y"),
    *("closeness", "nearest", "nearest_score"),
)


def payload_of(overview: Overview) -> dict[str, Any]:
    """Everything as plain values; documents are named by their rows, from 0."""
    # It needs scikit-learn, which takes half a second.
    from .groups import words_of_documents

    near, repeats, background = overview.neighbours, overview.repeats, overview.background
    group_of, closeness, points = overview.group_of, near.closeness, overview.points
    words, keywords = words_of_documents(overview.words, _KEYWORDS)
    row_of = {digest.id: row for row, digest in enumerate(overview.documents)}
    documents = [
        {
            "id": digest.id,
            "title": digest.title,
            "group": int(group_of[row]) + 1 or None,
            "label": digest.label or None,
            "date": digest.date or None,
            "folder": digest.folder or None,
            "words": digest.words,
            "x": round(float(points[row, 0]), 5),
            "y": round(float(points[row, 1]), 5),
            "closeness": round(float(closeness[row]), 6),
            "metadata": dict(digest.values),
            "opening": digest.opening,
            "keywords": [words[place] for place in keywords[row]],
            "neighbours": [
                {"document": int(other), "score": round(float(score), 6)}
                for other, score in zip(near.rows[row], near.scores[row], strict=True)
            ],
        }
        for row, digest in enumerate(overview.documents)
    ]
    groups = [
        {"number": group.number, "name": group.name, "words": list(group.words), "size": len(group.rows),
         "typical": list(group.typical)}
        for group in overview.groups
    ]  # fmt: skip
    pairs = [
        {"a": a, "b": b, "score": round(score, 6), "share": None if background is None else background.share(score)}
        for a, b, score in overview.pairs()
    ]
    passages = [
        asdict(passage) | {"examples": [row_of[id] for id in passage.examples if id in row_of]}
        for passage in repeats.passages
    ]
    left_out = {"documents": repeats.shortened, "kept": repeats.mostly_repeated, "characters": repeats.characters}
    return {
        "format": FORMAT,
        "model": dict(overview.model),
        "settings": dict(overview.settings),
        "coverage": overview.coverage.to_dict(),
        "not_whole": overview.coverage.describe(),
        "documents": documents,
        "groups": groups,
        "pairs": pairs,
        "duplicates": [rows.tolist() for rows in overview.duplicates],
        "outliers": overview.outliers(),
        "repeats": {**left_out, "passages": passages} if overview.knows_repeats else None,
    }


def rows_of(payload: Mapping[str, Any]) -> list[list[Any]]:
    """A row for every document of an overview as plain values, with the columns :data:`COLUMNS`."""
    documents = payload["documents"]
    names = {group["number"]: group["name"] for group in payload["groups"]}
    rows = []
    for document in documents:
        nearest = document["neighbours"][0]
        others = {"nearest": documents[nearest["document"]]["id"], "nearest_score": nearest["score"]}
        others["group_name"] = names.get(document["group"])
        rows.append([(document | others)[name] for name in COLUMNS])
    return rows
