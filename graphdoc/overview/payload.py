"""An overview as plain values, for JSON and for the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .words import words_of_documents

if TYPE_CHECKING:
    from .overview import Overview

FORMAT = "graphdoc.overview/1"
_TELLING_WORDS = 16


def payload_of(overview: Overview) -> dict[str, Any]:
    """Everything as plain values; documents are named by their rows, from 0."""
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
        "pairs": [{"a": a, "b": b, "score": round(score, 6)} for a, b, score in overview.pairs()],
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
