from __future__ import annotations

from typing import Any

import datasets
import pytest

from graphdoc.errors import DocumentError
from graphdoc.vectors.source import DocumentSource

ROWS = [{"id": f"row {number}", "text": f"text {number}"} for number in range(5)]
TABLE = datasets.Dataset.from_list(ROWS)


def taken(documents: Any) -> list[list[Any]]:
    """What two processes that share shards of two documents read, seen from the first one."""
    source = DocumentSource(documents, None)
    source.require_some()
    return [list(source.take(2, only_ids=number % 2 == 1)) for number in range(4)]


@pytest.mark.parametrize("documents", [TABLE, TABLE.select([4, 3, 2, 1, 0]).select([4, 3, 2, 1, 0])])
def test_of_the_rows_of_others_the_ids_are_read_alone(documents: Any) -> None:
    assert taken(documents) == [ROWS[:2], [{"id": row["id"]} for row in ROWS[2:4]], ROWS[4:], []]


@pytest.mark.parametrize(
    "documents",
    [
        ROWS,
        iter(ROWS),
        TABLE.to_iterable_dataset(),
        TABLE.with_transform(lambda rows: {**rows, "text": [f"text {id[4:]}" for id in rows["id"]]}),
    ],
    ids=["list", "iterator", "stream", "transformed"],
)
def test_of_all_else_everything_is_read(documents: Any) -> None:
    assert taken(documents) == [ROWS[:2], ROWS[2:4], ROWS[4:], []]


def test_rows_without_ids_are_read_whole() -> None:
    rows = [{**row, "id": None if number == 3 else row["id"]} for number, row in enumerate(ROWS)]
    for documents in (datasets.Dataset.from_list(rows), TABLE.remove_columns("id")):
        assert [row["text"] for part in taken(documents) for row in part] == [row["text"] for row in ROWS]


def test_an_empty_table() -> None:
    with pytest.raises(DocumentError):
        DocumentSource(TABLE.select([]), None).require_some()
