"""The rows of an index that hits are shown with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .fields import plain_value
from .lance import LanceStore
from .record import leaves_out_repeats
from .rows import DOCUMENT, PASSAGE, key_of, metadata_columns, quoted

Rows = dict[str, dict[str, Any]]


def rows_of_hits(
    store: LanceStore, ids: Sequence[str], numbers: Mapping[str, Sequence[int]]
) -> tuple[Rows, dict[tuple[str, int], dict[str, Any]]]:
    """The rows of documents by id, and those of their passages by id and number, read at once.

    Args:
        store: the index.
        ids: the documents.
        numbers: numbers of the passages that are wanted, by id.
    """
    of_document = [
        "id",
        "title",
        "label",
        "content_hash",
        *metadata_columns(store.schema, repeats=leaves_out_repeats(store.record)),
    ]
    of_passage = ["id", "number", "section", "heading", "start", "end", "text", "text_start"]
    keys = [key_of(id, "document", 0) for id in ids]
    keys += [key_of(id, "passage", number) for id, own in numbers.items() for number in own]
    columns = dict.fromkeys([*of_document, "level", *(of_passage if len(keys) > len(ids) else ())])
    rows = store.select(list(columns), f"key IN ({', '.join(map(quoted, keys))})").to_pylist()
    return (
        {row["id"]: {name: row[name] for name in of_document} for row in rows if row["level"] == DOCUMENT},
        {
            (row["id"], row["number"]): {name: row[name] for name in of_passage}
            for row in rows
            if row["level"] == PASSAGE
        },
    )


def metadata_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a hit shows of the row of its document beside id and title."""
    return {
        name: plain_value(value)
        for name, value in row.items()
        if name not in ("id", "title", "content_hash") and value is not None
    }
