"""Documents as callers give them: one or many, as objects, texts or rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..documents.document import Document
from ..documents.parsing.formats import split_suffix
from ..errors import DocumentError
from ..runtime.text import described
from ..segmentation.spans import SegmentedDocument

AnyDocument = Document | str | Mapping[str, Any]

# Longer strings are texts; the systems that this runs on have no longer names.
_LONGEST_NAME = 1024


def is_single(value: object) -> bool:
    """Whether a value stands for one document."""
    return isinstance(value, Document | SegmentedDocument | str | Mapping)


def documents_of(value: Any) -> Iterable[Any]:
    """One document or many as an iterable; a pandas table gives its rows.

    Raises:
        DocumentError: it is something else.
    """
    if is_single(value):
        return [value]
    if hasattr(value, "iterrows"):
        return _Rows(value)
    # An array without axes has what an iterable has, and cannot be iterated over.
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | PathLike) or _has_no_axes(value):
        raise _no_document(value)
    return value


def _has_no_axes(value: object) -> bool:
    return isinstance(getattr(value, "shape", None), tuple) and not value.shape  # type: ignore[attr-defined]


class _Rows:
    """The rows of a pandas table, as often as they are asked for."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (row.to_dict() for _, row in self._table.iterrows())


def as_document(value: object) -> Document:
    """Take a document, a string without structure, or a row as a document.

    Raises:
        DocumentError: it is something else, a row without text, or a string that can only be the name of a file.
    """
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        if _is_file_name(value):
            raise DocumentError(
                f"{value!r} looks like the name of a file, not like a text; read it with Document.from_file, or give "
                "Document.from_text(...) to encode the name itself"
            )
        return Document.from_text(value)
    if isinstance(value, Mapping):
        return Document.from_mapping(value)
    raise _no_document(value)


def require_text(segmented: SegmentedDocument) -> None:
    """Refuse a document that has no passage.

    Raises:
        DocumentError: there is nothing to encode.
    """
    if not segmented.passages:
        raise DocumentError(f"document {segmented.document.id!r} has no text to encode; leave it out")


def _is_file_name(text: str) -> bool:
    """Whether a string is one word with the suffix of a known type of file, whatever lies on the disk."""
    if len(text) > _LONGEST_NAME or any(map(str.isspace, text)):
        return False
    return bool(split_suffix(Path(text))[1])


def _no_document(value: object) -> DocumentError:
    reading = "read it with Document.from_file or graphdoc.read_documents"
    fix = reading if isinstance(value, PathLike) else "give a Document, a text or a row"
    return DocumentError(f"{described(value)} is no document; {fix}")
