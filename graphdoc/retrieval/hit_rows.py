"""The rows of an index that hits are shown with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .fields import Column, field_columns
from .lance import LanceStore
from .rows import DOCUMENT, PASSAGE, key_of, quoted

Rows = dict[str, dict[str, Any]]


def rows_of_hits(
    store: LanceStore, ids: Sequence[str], numbers: Mapping[str, Sequence[int]]
) -> tuple[Rows, dict[tuple[str, int], dict[str, Any]]]:
    """The rows of documents by id, with ``metadata``, and those of their passages by id and number, read at once.

    Args:
        store: the index.
        ids: the documents.
        numbers: numbers of the passages that are wanted, by id.
    """
    fields = field_columns(store.schema)
    of_document = ["id", "title", "label", "content_hash", *(column.stored for column in fields.values())]
    of_passage = ["id", "number", "section", "heading", "start", "end", "text", "text_start"]
    keys = [key_of(id, "document", 0) for id in ids]
    keys += [key_of(id, "passage", number) for id, own in numbers.items() for number in own]
    columns = dict.fromkeys([*of_document, "level", *(of_passage if len(keys) > len(ids) else ())])
    rows = store.select(list(columns), f"key IN ({', '.join(map(quoted, keys))})").to_pylist()
    return (
        {row["id"]: row | {"metadata": _metadata(row, fields)} for row in rows if row["level"] == DOCUMENT},
        {
            (row["id"], row["number"]): {name: row[name] for name in of_passage}
            for row in rows
            if row["level"] == PASSAGE
        },
    )


def _metadata(row: Mapping[str, Any], fields: Mapping[str, Column]) -> dict[str, Any]:
    """Label and fields of a document, under the names that people gave."""
    values = {"label": row["label"]} | {name: row[column.stored] for name, column in fields.items()}
    return {name: value for name, value in values.items() if value is not None}
