"""Predictions as tables and files: JSON Lines, CSV or Parquet, written as they come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..errors import OutputError
from ..runtime.files import write_atomically, write_rows
from .records import Prediction, columns_of, flat

SUFFIXES = (".jsonl", ".csv", ".parquet")
_ROWS_OF_A_GROUP = 1024


def write_predictions(
    path: str | Path,
    predictions: Iterable[Prediction],
    classes: Sequence[str],
    *,
    multi_label: bool = False,
    passages: int | None = 3,
) -> int:
    """Write predictions one after the other, in constant memory; the file appears when it is whole.

    JSON Lines have the rows of :meth:`~graphdoc.prediction.Prediction.to_dict`. CSV and Parquet have a column
    ``p(NAME)`` for every class, and ``words`` where the head reads words and predictions are explained; lists, which
    CSV cannot hold, are JSON there.

    Args:
        path: the file; its suffix, one of ``.jsonl``, ``.csv`` and ``.parquet``, says which kind.
        predictions: the predictions.
        classes: names of the classes.
        multi_label: whether a document can have any number of them.
        passages: most passages that are listed for a class of a document; None for all.

    Returns:
        The number of documents.

    Raises:
        OutputError: the file cannot be written, or its suffix is unknown.

    >>> import tempfile
    >>> from graphdoc import DocumentEncoder
    >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
    >>> _ = encoder.model.add_head(["cooking", "sea"])
    >>> path = Path(tempfile.mkdtemp()) / "classes.csv"
    >>> write_predictions(path, encoder.predict(["Rice is steamed."]), ["cooking", "sea"])
    1
    """
    write = {".jsonl": _write_jsonl, ".csv": _write_csv, ".parquet": _write_parquet}[known_suffix(path)]
    written = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal written
        for prediction in predictions:
            yield prediction.to_dict(passages)
            written += 1

    write_atomically(path, lambda temporary: write(temporary, rows(), classes, multi_label))
    return written


def known_suffix(path: str | Path) -> str:
    """The suffix of a file for predictions.

    Raises:
        OutputError: it is unknown.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise OutputError(f"{path} has no suffix of a table; use one of {', '.join(SUFFIXES)}")
    return suffix


def _write_jsonl(path: Path, rows: Iterator[dict[str, Any]], classes: Sequence[str], multi_label: bool) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def _write_csv(path: Path, rows: Iterator[dict[str, Any]], classes: Sequence[str], multi_label: bool) -> None:
    columns, rows = _columns(rows, classes, multi_label)
    cells = ([_cell(values[name]) for name in columns] for values in map(flat, rows))
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, columns, cells)


def _columns(
    rows: Iterator[dict[str, Any]], classes: Sequence[str], multi_label: bool
) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """The columns of a table, by its first row, and all of its rows."""
    first = list(islice(rows, 1))
    lists = ["passages", *(name for name in ("words",) if any(name in row for row in first))]
    return [*columns_of(classes, multi_label), *lists], chain(first, rows)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _write_parquet(path: Path, rows: Iterator[dict[str, Any]], classes: Sequence[str], multi_label: bool) -> None:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

    passage = pa.struct(
        [
            *(("label", pa.string()), ("contribution", pa.float32()), ("passage", pa.int32())),
            *(("section", pa.int32()), ("heading", pa.string())),
            *(("start", pa.int64()), ("end", pa.int64()), ("text", pa.string())),
        ]
    )
    word = pa.struct([("label", pa.string()), ("word", pa.string()), ("contribution", pa.float32())])
    kinds = {
        "id": pa.string(),
        "title": pa.string(),
        "label": pa.string(),
        "labels": pa.list_(pa.string()),
        "passages": pa.list_(passage),
        "words": pa.list_(word),
    }
    columns, rows = _columns(rows, classes, multi_label)
    schema = pa.schema([(name, kinds.get(name, pa.float32())) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        for first in rows:
            group = [first, *islice(rows, _ROWS_OF_A_GROUP - 1)]
            writer.write_table(pa.Table.from_pylist([flat(row) for row in group], schema))
