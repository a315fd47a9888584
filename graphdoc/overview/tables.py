"""An overview as plain values for JSON and for the page, and as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from ..runtime.text import require_one_of

if TYPE_CHECKING:
    from .overview import Overview

FORMAT = "graphdoc.overview/1"
_TELLING_WORDS = 16

Table = Literal["documents", "groups", "pairs", "neighbours", "duplicates", "repeats"]
TABLES: tuple[Table, ...] = ("documents", "groups", "pairs", "neighbours", "duplicates", "repeats")
_OF_DOCUMENTS = ["id", "title", "group", "group_name", "label", "date", "folder", "words", "x", "y", "closeness"]


def payload_of(overview: Overview) -> dict[str, Any]:
    """Everything as plain values; documents are named by their rows, from 0."""
    # It needs scikit-learn, which takes half a second.
    from .groups import words_of_documents

    near, repeats, background = overview.neighbours, overview.repeats, overview.background
    group_of, closeness, points = overview.group_of, near.closeness, overview.points
    words, telling = words_of_documents(overview.words, _TELLING_WORDS)
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
            "telling_words": [words[place] for place in telling[row]],
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
    left_out = {"documents": repeats.shortened, "kept": repeats.kept, "characters": repeats.characters}
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


def table_of(payload: Mapping[str, Any], table: str) -> tuple[list[str], Sequence[Sequence[Any]]]:
    """The columns and the rows of a table of an overview as plain values, which name documents by their ids."""
    require_one_of("table", table, TABLES)
    documents, groups = payload["documents"], payload["groups"]
    ids = [document["id"] for document in documents]
    if table == "groups":
        return ["group", "name", "documents", "words", "typical"], [
            (
                one["number"],
                one["name"],
                one["size"],
                ", ".join(one["words"]),
                ", ".join(map(ids.__getitem__, one["typical"])),
            )
            for one in groups
        ]
    if table == "pairs":
        rows = [(ids[pair["a"]], ids[pair["b"]], pair["score"], pair["share"]) for pair in payload["pairs"]]
        return ["a", "b", "score", "share"], rows
    if table == "neighbours":
        return ["id", "rank", "neighbour", "score"], [
            (document["id"], rank, ids[other["document"]], other["score"])
            for document in documents
            for rank, other in enumerate(document["neighbours"], start=1)
        ]
    if table == "duplicates":
        numbered = enumerate(payload["duplicates"], start=1)
        return ["set", "id"], [(number, ids[row]) for number, rows in numbered for row in rows]
    if table == "repeats":
        return ["documents", "occurrences", "characters", "examples", "text"], [
            (
                one["documents"],
                one["occurrences"],
                one["characters"],
                "; ".join(map(ids.__getitem__, one["examples"])),
                one["text"],
            )
            for one in (payload["repeats"] or {"passages": ()})["passages"]
        ]
    names = {group["number"]: group["name"] for group in groups}
    return [*_OF_DOCUMENTS, "nearest", "nearest_score"], [
        (
            *(names.get(document["group"]) if name == "group_name" else document[name] for name in _OF_DOCUMENTS),
            ids[document["neighbours"][0]["document"]],
            document["neighbours"][0]["score"],
        )
        for document in documents
    ]
