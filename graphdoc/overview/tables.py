"""An overview as plain values for JSON and for the page, and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from ..runtime.text import require_one_of

if TYPE_CHECKING:
    from .overview import Overview

FORMAT = "graphdoc.overview/1"
_TELLING_WORDS = 16


def payload_of(overview: Overview) -> dict[str, Any]:
    """Everything as plain values; documents are named by their rows, from 0."""
    # It needs scikit-learn, which takes half a second.
    from .groups import words_of_documents

    background = overview.background
    words, telling = words_of_documents(overview.words, _TELLING_WORDS)
    group_of, closeness = overview.group_of, overview.neighbours.closeness
    documents = [
        {
            "id": digest.id,
            "title": digest.title,
            "words": digest.words,
            "label": digest.label or None,
            "date": digest.date or None,
            "folder": digest.folder or None,
            "metadata": dict(digest.values),
            "opening": digest.opening,
            "telling_words": [words[place] for place in telling[row]],
            "x": round(float(overview.points[row, 0]), 5),
            "y": round(float(overview.points[row, 1]), 5),
            "group": int(group_of[row]) + 1 or None,
            "closeness": round(float(closeness[row]), 6),
            "neighbours": [
                {"document": int(other), "score": round(float(score), 6)}
                for other, score in zip(overview.neighbours.rows[row], overview.neighbours.scores[row], strict=True)
            ],
        }
        for row, digest in enumerate(overview.documents)
    ]
    return {
        "format": FORMAT,
        "model": dict(overview.model),
        "settings": dict(overview.settings),
        "documents": documents,
        "groups": [
            {
                "number": group.number,
                "name": group.name,
                "words": list(group.words),
                "size": len(group.rows),
                "typical": list(group.typical),
            }
            for group in overview.groups
        ],
        "pairs": [
            {"a": a, "b": b, "score": round(score, 6), "share": background and background.share(score)}
            for a, b, score in overview.pairs()
        ],
        "duplicates": [rows.tolist() for rows in overview.duplicates],
        "outliers": overview.outliers(),
        "repeats": _repeats(overview) if overview.knows_repeats else None,
    }


def _repeats(overview: Overview) -> dict[str, Any]:
    row_of = {digest.id: row for row, digest in enumerate(overview.documents)}
    return {
        "documents": overview.repeats.shortened,
        "kept": overview.repeats.kept,
        "characters": overview.repeats.characters,
        "passages": [
            asdict(one) | {"examples": [row_of[id] for id in one.examples if id in row_of]}
            for one in overview.repeats.passages
        ],
    }


Table = Literal["documents", "groups", "pairs", "neighbours", "duplicates", "repeats"]
TABLES: tuple[Table, ...] = ("documents", "groups", "pairs", "neighbours", "duplicates", "repeats")


def table_of(overview: Overview, table: str) -> tuple[list[str], Iterable[Sequence[Any]]]:
    """The columns and the rows of a table.

    Raises:
        SettingsError: there is no such table.
    """
    require_one_of("table", table, TABLES)
    ids = [digest.id for digest in overview.documents]
    if table == "groups":
        header = ["group", "name", "documents", "words", "typical"]
        return header, [
            (one.number, one.name, len(one.rows), ", ".join(one.words), ", ".join(ids[row] for row in one.typical))
            for one in overview.groups
        ]
    if table == "pairs":
        background = overview.background
        return ["a", "b", "score", "share"], [
            (ids[a], ids[b], score, background and background.share(score)) for a, b, score in overview.pairs()
        ]
    if table == "neighbours":
        near = overview.neighbours
        return ["id", "rank", "neighbour", "score"], (
            (ids[row], rank, ids[int(other)], float(score))
            for row in range(len(ids))
            for rank, (other, score) in enumerate(zip(near.rows[row], near.scores[row], strict=True), start=1)
        )
    if table == "duplicates":
        return ["set", "id"], [
            (number, ids[int(row)]) for number, rows in enumerate(overview.duplicates, start=1) for row in rows
        ]
    if table == "repeats":
        return ["documents", "occurrences", "characters", "examples", "text"], [
            (one.documents, one.occurrences, one.characters, "; ".join(one.examples), one.text)
            for one in overview.repeats.passages
        ]
    return _documents(overview)


def _documents(overview: Overview) -> tuple[list[str], Iterable[Sequence[Any]]]:
    header = ["id", "title", "group", "group_name", "label", "date", "folder", "words", "x", "y"]
    header += ["closeness", "nearest", "nearest_score"]
    group_of, closeness, near = overview.group_of, overview.neighbours.closeness, overview.neighbours
    return header, [
        (
            digest.id,
            digest.title,
            int(group_of[row]) + 1 or None,
            overview.groups[group_of[row]].name if group_of[row] >= 0 else None,
            digest.label or None,
            digest.date or None,
            digest.folder or None,
            digest.words,
            float(overview.points[row, 0]),
            float(overview.points[row, 1]),
            float(closeness[row]),
            overview.documents[int(near.rows[row, 0])].id,
            float(near.scores[row, 0]),
        )
        for row, digest in enumerate(overview.documents)
    ]
