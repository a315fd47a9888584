"""Columns of metadata: what documents carry, with a type, so that a search can be restricted by it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.section import clean_text
from ..errors import DocumentError
from ..runtime.text import described
from .filter_types import kind_name

# Every change touches every column of the table.
MOST_FIELDS = 1_000
_NAME = re.compile(r"\W+")
_KINDS: tuple[tuple[type, Any], ...] = (
    (bool, pa.bool_()),
    (int, pa.int64()),
    (float, pa.float64()),
    (str, pa.string()),
)
_TEXTS = pa.list_(pa.string())


class Fields:
    """The columns of metadata in an index.

    Metadata that a column can hold are true or false, whole numbers, numbers, text, and lists of text. The first
    document that has a field decides its type. A name that is not one of SQL, or that the index has already, is
    changed: other characters become ``_``, and a name that is taken gets ``_`` behind it. Deeper values are kept with
    the document, and cannot be searched by.

    Args:
        schema: columns of the table, with those of metadata that are there already.
        own: names of the columns that are not metadata.
    """

    def __init__(self, schema: Any, own: Iterable[str]) -> None:
        self._own = frozenset(own)
        self.types: dict[str, Any] = {one.name: one.type for one in schema if one.name not in self._own}

    def new(self, documents: Iterable[Document]) -> dict[str, Any]:
        """Columns that documents need and the index has not, with their Arrow types; they are counted as there.

        Raises:
            DocumentError: two fields of a document have one column, or the columns become too many.
        """
        found: dict[str, Any] = {}
        for document in documents:
            added = {name: _kind_of(value) for name, value in self._items(document) if name not in self.types}
            added = {name: kind for name, kind in added.items() if kind is not None}
            total = len(self.types) + len(added)
            if total > MOST_FIELDS:
                raise DocumentError(
                    f"document {document.id!r}: with its metadata the index would have {total:,} fields, more than "
                    f"{MOST_FIELDS:,}; put what no search is restricted by into one field, such as "
                    '{"more": {...}}, or leave it out'
                )
            self.types.update(added)
            found.update(added)
        return found

    def values(self, document: Document) -> dict[str, Any]:
        """The metadata of a document by column.

        Raises:
            DocumentError: a value does not fit the type of its column.
        """
        found = {}
        for name, value in self._items(document):
            kind = self.types.get(name)
            if kind is None or _kind_of(value) is None:
                continue
            found[name] = _fitted(document, name, value, kind)
        return found

    def _items(self, document: Document) -> Iterable[tuple[str, Any]]:
        taken: dict[str, str] = {}
        for key, value in document.metadata.items():
            name = self.column(str(key))
            other = taken.setdefault(name, str(key))
            if other != str(key):
                raise DocumentError(
                    f"document {document.id!r}: its metadata {other!r} and {key!r} are both called {name} there; "
                    "rename one, or leave it out"
                )
            yield name, value

    def column(self, key: str) -> str:
        """The column of a field of metadata."""
        name = _NAME.sub("_", key).strip("_").lower() or "field"
        if name[0].isdigit():
            name = f"_{name}"
        while name in self._own or name.startswith("_row"):
            name += "_"
        return name


def plain_value(value: Any) -> Any:
    """A value of a row as JSON holds it."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _kind_of(value: Any) -> Any:
    """The Arrow type of a value; None where no column can hold it."""
    if isinstance(value, tuple | list | frozenset | set):
        return _TEXTS if value and all(isinstance(one, str) for one in value) else None
    if isinstance(value, Mapping):
        return None
    if hasattr(value, "isoformat"):
        return pa.string()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
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
    if own == kind or (pa.types.is_floating(kind) and pa.types.is_integer(own)):
        return plain_value(value)
    if pa.types.is_integer(kind) and pa.types.is_floating(own) and float(value).is_integer():
        return int(value)
    raise DocumentError(
        f"document {document.id!r}: its {name} is {described(value)}, but the index holds {kind_name(kind)} there; "
        "give it a value of this type, or leave it out"
    )
