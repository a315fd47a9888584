"""Rows of an index as points of Qdrant, and back."""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.compute  # type: ignore[import-untyped, unused-ignore]

from .qdrant_points import Point
from .rows import DOCUMENT, PASSAGE
from .terms import terms_of

# Vectors that are searched for, with the level of their rows, and columns of text with those that hold their terms.
LEVELS = {"passage_vector": PASSAGE, "document_vector": DOCUMENT}
TERMS = {"text": "_text_terms", "document_text": "_document_terms"}
# Of every row: the change that brought it, and the one that took it away.
BORN, DIED, NEVER = "_born", "_died", 2**53
# A server takes 32 MiB in a request, and letters need a third more than bytes.
_REQUEST_BYTES = 8 * 2**20
# What JSON has no value for, or the library no filter: it takes true and false for numbers.
_KEPT_AS: dict[type, Callable[[Any], Any]] = {bool: int, bytes: lambda value: base64.b64encode(value).decode()}


def row_of(point: Point, schema: Any) -> dict[str, Any]:
    """A row by column.

    Args:
        point: the point.
        schema: the columns that are wanted.
    """
    row: dict[str, Any] = {}
    for field in schema:
        value = point.vectors.get(field.name) if field.name in LEVELS else point.payload.get(field.name)
        if value is not None and pa.types.is_fixed_size_list(field.type):
            kind = np.float16 if pa.types.is_float16(field.type.value_type) else np.float32
            value = np.frombuffer(base64.b64decode(value), kind) if isinstance(value, str) else np.array(value, kind)
        if isinstance(value, str) and pa.types.is_large_binary(field.type):
            value = base64.b64decode(value)
        row[field.name] = bool(value) if value is not None and pa.types.is_boolean(field.type) else value
    return row


def points_of(rows: Any, schema: Any, change: int, tokenize: Callable[[str], list[str]]) -> list[Point]:
    """The points of some rows.

    Args:
        rows: the rows (an Arrow table).
        schema: all columns of the index.
        change: number of the change that brings them.
        tokenize: makes terms of texts.
    """
    arrays = {one.name: _matrix(rows[one.name]) for one in schema if pa.types.is_fixed_size_list(one.type)}
    others = rows.select([name for name in rows.column_names if name not in arrays]).to_pylist()
    terms = {name: iter(terms_of([row[name] for row in others if row[name] is not None], tokenize)) for name in TERMS}
    points = []
    for place, row in enumerate(others):
        payload = {
            name: _KEPT_AS.get(type(value), _as_it_is)(value) for name, value in row.items() if _can_be_kept(value)
        }
        payload |= {TERMS[name]: " ".join(next(own)) for name, own in terms.items() if row[name] is not None}
        vectors = {}
        for name, numbers in arrays.items():
            own = numbers.get(place)
            if own is not None and name in LEVELS:
                vectors[name] = own.tolist()
            elif own is not None:
                payload[name] = base64.b64encode(own.tobytes()).decode()
        payload |= {BORN: change, DIED: NEVER}
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"{change}\x1f{row['key']}")
        points.append(Point(str(name), payload, vectors))
    return points


def requests_of(rows: Any, most: int) -> Iterator[Any]:
    """Rows of one request after the other: so many at most, and few where documents have very many sentences.

    Args:
        rows: the rows (an Arrow table).
        most: rows of a request.
    """
    sizes = np.zeros(len(rows), np.int64)
    for one in rows.schema:
        if pa.types.is_large_binary(one.type):
            sizes += np.array(pa.compute.binary_length(rows[one.name]).fill_null(0))
    start = 0
    while start < len(rows):
        within = int((np.cumsum(sizes[start : start + most]) <= _REQUEST_BYTES).sum())
        yield rows.slice(start, max(1, within))
        start += max(1, within)


def _as_it_is(value: Any) -> Any:
    return value


def _can_be_kept(value: Any) -> bool:
    """Whether JSON has a value; a number that is none is kept with the document alone."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def _matrix(column: Any) -> dict[int, npt.NDArray[Any]]:
    """The vectors of a column by row, without those that are missing."""
    values = column.combine_chunks()
    there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    # A row without a vector has no numbers in what flatten gives.
    numbers = values.flatten().to_numpy(zero_copy_only=False).reshape(len(there), -1) if len(there) else []
    return dict(zip(there.tolist(), numbers, strict=True))


def kind_of(kind: Any) -> str:
    """What an index of a column is called, by its Arrow type; true and false are kept as 1 and 0."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "integer"
    return "float" if pa.types.is_floating(kind) else "keyword"


def as_text(schema: Any) -> str:
    """Columns in letters, for JSON."""
    return base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode()


def as_schema(text: str) -> Any:
    """Columns from letters."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
