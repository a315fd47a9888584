"""An overview as plain values for JSON and for the page, and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

    near, repeats = overview.neighbours, overview.repeats
    words, telling = words_of_documents(overview.words, _TELLING_WORDS)
    row_of = {digest.id: row for row, digest in enumerate(overview.documents)}
    documents = [
        {
            **record,
            "metadata": dict(digest.values),
            "opening": digest.opening,
            "telling_words": [words[place] for place in telling[row]],
            "neighbours": [
                {"document": int(other), "score": round(float(score), 6)}
                for other, score in zip(near.rows[row], near.scores[row], strict=True)
            ],
        }
        for row, (digest, record) in enumerate(zip(overview.documents, _records(overview), strict=True))
    ]
    groups = [
        {"number": group.number, "name": group.name, "words": list(group.words), "size": len(group.rows),
         "typical": list(group.typical)}
        for group in overview.groups
    ]  # fmt: skip
    passages = [
        asdict(passage) | {"examples": [row_of[id] for id in passage.examples if id in row_of]}
        for passage in repeats.passages
    ]
    left_out = {"documents": repeats.shortened, "kept": repeats.kept, "characters": repeats.characters}
    return {
        "format": FORMAT,
        "model": dict(overview.model),
        "settings": dict(overview.settings),
        "coverage": overview.coverage.to_dict(),
        "not_whole": overview.coverage.describe(),
        "documents": documents,
        "groups": groups,
        "pairs": [
            {"a": a, "b": b, "score": round(score, 6), "share": share} for a, b, score, share in _pairs(overview)
        ],
        "duplicates": [rows.tolist() for rows in overview.duplicates],
        "outliers": overview.outliers(),
        "repeats": {**left_out, "passages": passages} if overview.knows_repeats else None,
    }


def _records(overview: Overview) -> Iterator[dict[str, Any]]:
    """What the JSON and the table of documents both say of every document."""
    group_of, closeness = overview.group_of, overview.neighbours.closeness
    for row, digest in enumerate(overview.documents):
        x, y = overview.points[row]
        yield {
            "id": digest.id,
            "title": digest.title,
            "group": int(group_of[row]) + 1 or None,
            "label": digest.label or None,
            "date": digest.date or None,
            "folder": digest.folder or None,
            "words": digest.words,
            "x": round(float(x), 5),
            "y": round(float(y), 5),
            "closeness": round(float(closeness[row]), 6),
        }


def _pairs(overview: Overview) -> Iterator[tuple[int, int, float, float | None]]:
    background = overview.background
    for a, b, score in overview.pairs():
        yield a, b, score, None if background is None else background.share(score)


Table = Literal["documents", "groups", "pairs", "neighbours", "duplicates", "repeats"]
TABLES: tuple[Table, ...] = ("documents", "groups", "pairs", "neighbours", "duplicates", "repeats")


def table_of(overview: Overview, table: str) -> tuple[list[str], Iterable[Sequence[Any]]]:
    """The columns and the rows of a table.

    Raises:
        SettingsError: there is no such table.
    """
    require_one_of("table", table, TABLES)
    ids, near = [digest.id for digest in overview.documents], overview.neighbours
    if table == "groups":
        return ["group", "name", "documents", "words", "typical"], [
            (one.number, one.name, len(one.rows), ", ".join(one.words), ", ".join(ids[row] for row in one.typical))
            for one in overview.groups
        ]
    if table == "pairs":
        return ["a", "b", "score", "share"], [(ids[a], ids[b], *scores) for a, b, *scores in _pairs(overview)]
    if table == "neighbours":
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
    header = ["id", "title", "group", "group_name", "label", "date", "folder", "words", "x", "y"]
    header += ["closeness", "nearest", "nearest_score"]
    rows = []
    for row, record in enumerate(_records(overview)):
        record["group_name"] = overview.groups[record["group"] - 1].name if record["group"] else None
        record |= {"nearest": ids[int(near.rows[row, 0])], "nearest_score": float(near.scores[row, 0])}
        rows.append([record[name] for name in header])
    return header, rows
