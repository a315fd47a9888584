"""Fields of documents: their metadata as typed columns of an index, by which a search can be restricted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.section import clean_text
from ..errors import DocumentError
from ..runtime.text import described, one_line

# Every change touches every column of the table.
MOST_FIELDS = 1_000
# Before the names of columns that hold fields; no other column of the table begins so.
_PREFIX = "field_"
# The columns that every index has and a filter can name.
_EVERYWHERE = ("id", "title", "label", "heading", "text")
_HELD = {"bool": "true or false", "int64": "whole numbers", "double": "numbers", "string": "text"}
_KINDS: tuple[tuple[type, Any], ...] = (
    (bool, pa.bool_()),
    (int, pa.int64()),
    (float, pa.float64()),
    (str, pa.string()),
)
_TEXTS = pa.list_(pa.string())


class Column(NamedTuple):
    """A column that a filter can name.

    Args:
        stored: its name in the table: small letters, digits and ``_``.
        kind: its Arrow type.
    """

    stored: str
    kind: Any


def field_columns(schema: Any) -> dict[str, Column]:
    """The columns of fields by the names that documents give them.

    Args:
        schema: the columns of an index (an Arrow schema).
    """
    return {_field_name(one.name): Column(one.name, one.type) for one in schema if one.name.startswith(_PREFIX)}


def filter_columns(schema: Any) -> dict[str, Column]:
    """The columns that a filter can name: fields, and of the table's own those that no field hides.

    Args:
        schema: the columns of an index (an Arrow schema).
    """
    fields = field_columns(schema)
    return fields | {name: Column(name, schema.field(name).type) for name in _EVERYWHERE if name not in fields}


def kind_name(kind: Any) -> str:
    """What a column of an Arrow type holds, in words.

    >>> kind_name(pa.string()), kind_name(pa.list_(pa.string()))
    ('text', 'lists of texts')
    """
    if pa.types.is_list(kind):
        return "lists of texts"
    return "whole numbers" if pa.types.is_integer(kind) else _HELD.get(str(kind), str(kind))


class Fields:
    """The fields of documents in an index.

    A field holds true or false, whole numbers, numbers, text, or lists of text. The first document that has it decides
    its type, and a value of another type is an error. Deeper values, and numbers that no column can hold (NaN and
    infinity, whole numbers from 2^63), are kept with the document, and cannot be searched by.

    Args:
        schema: columns of the table, with those of fields that are there already (an Arrow schema).
    """

    def __init__(self, schema: Any) -> None:
        self._types: dict[str, Any] = {name: column.kind for name, column in field_columns(schema).items()}

    def new(self, document: Document) -> dict[str, Any]:
        """Columns that a document needs and the index has not, with their Arrow types; they are counted as there.

        Raises:
            DocumentError: the fields become too many.
        """
        added = {
            name: kind
            for name, value in _items(document)
            if name not in self._types and (kind := _kind_of(value)) is not None
        }
        total = len(self._types) + len(added)
        if total > MOST_FIELDS:
            raise DocumentError(
                f"document {document.id!r}: with its metadata the index would have {total:,} fields, more than "
                f"{MOST_FIELDS:,}; put what no search is restricted by into one field"
            )
        self._types |= added
        return {_stored_name(name): kind for name, kind in added.items()}

    def values(self, document: Document) -> dict[str, Any]:
        """The fields of a document by column.

        Raises:
            DocumentError: a value does not fit the type of its column.
        """
        return {
            _stored_name(name): _fitted(document, name, value, self._types[name])
            for name, value in _items(document)
            if name in self._types and _kind_of(value) is not None
        }


def _items(document: Document) -> Iterator[tuple[str, Any]]:
    return ((str(name), value) for name, value in document.metadata.items())


def _stored_name(name: str) -> str:
    """The column of a field, the same in every index: whatever people call it, the store sees plain letters."""
    return _PREFIX + re.sub("[^a-z0-9]", lambda match: f"_{ord(match[0]):x}_", name)


def _field_name(stored: str) -> str:
    return re.sub("_([0-9a-f]+)_", lambda match: chr(int(match[1], 16)), stored.removeprefix(_PREFIX))


def numbers_without_column(document: Document) -> int:
    """How many numbers among the metadata of a document no column can hold."""
    return sum(map(_has_no_column, document.metadata.values()))


def _has_no_column(value: Any) -> bool:
    if isinstance(value, int):
        return not -(2**63) <= value < 2**63
    return isinstance(value, float) and not math.isfinite(value)


def plain_value(value: Any) -> Any:
    """A value of a row as JSON holds it."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _kind_of(value: Any) -> Any:
    """The Arrow type of a value; None where no column can hold it."""
    if isinstance(value, tuple | list | frozenset | set):
        return _TEXTS if value and all(isinstance(one, str) for one in value) else None
    if isinstance(value, Mapping) or _has_no_column(value):
        return None
    if hasattr(value, "isoformat"):
        return pa.string()
    return next((kind for python, kind in _KINDS if isinstance(value, python)), None)


def _fitted(document: Document, name: str, value: Any, kind: Any) -> Any:
    own = _kind_of(value)
    if kind == _TEXTS and own in (_TEXTS, pa.string()):
        values = sorted(value) if isinstance(value, frozenset | set) else value
        return [clean_text(one) for one in ([str(plain_value(value))] if own == pa.string() else values)]
    if pa.types.is_string(kind) and own in (pa.int64(), pa.float64(), pa.bool_()):
        return str(value)
    if pa.types.is_string(kind) and own in (_TEXTS, pa.string()):
        return clean_text("; ".join(value) if own == _TEXTS else str(plain_value(value)))
    if own == kind:
        return plain_value(value)
    if pa.types.is_floating(kind) and pa.types.is_integer(own):
        return float(value)
    if (
        pa.types.is_integer(kind)
        and pa.types.is_floating(own)
        and value.is_integer()
        and not _has_no_column(int(value))
    ):
        return int(value)
    raise DocumentError(
        f"document {document.id!r}: its {one_line(name, 60)} is {described(value)}, but the index holds "
        f"{kind_name(kind)} there; give it a value of this type, or leave it out"
    )
