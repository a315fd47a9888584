"""Rows (mappings) to the parts of a document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import DocumentError
from ..document import Columns, Label
from ..section import Section

_DEEPEST_LEVEL = 100
_SECTION_KEYS = ("heading", "text", "level", "path")

DocumentParts = tuple[str | None, tuple[Section, ...], str, Label, dict[str, Any]]


def row_id(row: Mapping[str, Any], columns: Columns) -> str | None:
    """The id that a row gives itself, if it does."""
    value = row.get(_id_column(row, columns))
    if _is_missing(value) or value == "":
        return None
    if not isinstance(value, str | int | float):
        raise DocumentError(f"its id is of type {type(value).__name__}; give a string or a number")
    return str(value)


def document_parts(row: Mapping[str, Any], id: str | None, columns: Columns) -> DocumentParts:
    """Take a row apart.

    Args:
        row: the row.
        id: the id, instead of the one in the row.
        columns: what the columns are called.

    Returns:
        Id (None if the row has none), sections, title, label and metadata.

    Raises:
        DocumentError: there is neither text nor sections, or a value is of the wrong type.
    """
    own_id = row_id(row, columns)
    used = {columns.title, columns.label, _id_column(row, columns), "metadata"}
    metadata: dict[str, Any] = {}
    sections = _sections(row.get(columns.sections), metadata)
    text = row.get(columns.text)
    used.add(columns.sections)
    if not sections and not _is_missing(text):
        if not isinstance(text, str):
            raise DocumentError(f"its column {columns.text!r} is of type {type(text).__name__}; give a string")
        sections = (Section(text),) if text else ()
        used.add(columns.text)
    elif _is_missing(text):
        used.add(columns.text)
    if sections is None:
        raise _missing_text(row, columns)
    nested = row.get("metadata")
    if isinstance(nested, Mapping):
        metadata |= nested
    elif nested is not None:
        metadata["metadata"] = nested
    metadata |= {key: value for key, value in row.items() if key not in used}
    if id is not None and own_id is not None and id != own_id:
        metadata["row_id"] = own_id
    return id or own_id, sections, _title(row.get(columns.title)), _label(row.get(columns.label)), metadata


def _id_column(row: Mapping[str, Any], columns: Columns) -> str:
    # Corpora in the format of BEIR (https://github.com/beir-cellar/beir) say _id.
    return "_id" if columns.id == "id" and "id" not in row and "_id" in row else columns.id


def _is_missing(value: Any) -> bool:
    """Whether a value stands for no value: None, or the NaN that tables put in its place."""
    return value is None or (isinstance(value, float) and value != value)


def _missing_text(row: Mapping[str, Any], columns: Columns) -> DocumentError:
    there = ", ".join(str(key) for key in row) or "none"
    if columns.text in row or columns.sections in row:
        column = columns.text if columns.text in row else columns.sections
        return DocumentError(f"it has no value in column {column!r}; fill it or leave the row out")
    return DocumentError(
        f"it has neither column {columns.text!r} nor {columns.sections!r}, only {there}; "
        "name the column with --text-column, corpus.columns.text of a configuration file, or Columns(text=...)"
    )


def _title(value: Any) -> str:
    if _is_missing(value):
        return ""
    if not isinstance(value, str | int | float):
        raise DocumentError(f"its title is of type {type(value).__name__}; give a string")
    return str(value)


def _label(value: Any) -> Label:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        names = tuple(str(name) for part in value if (name := _single_label(part)) is not None)
        return names if names or not value else None
    return _single_label(value)


def _single_label(value: Any) -> str | int | None:
    if _is_missing(value):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else str(value)
    if isinstance(value, int):
        return int(value)
    raise DocumentError(
        f"its label is of type {type(value).__name__}; give a string, a whole number or a list of strings"
    )


def _sections(value: Any, metadata: dict[str, Any]) -> tuple[Section, ...] | None:
    """Sections from a list, a JSON list in a string, or a mapping of columns; None if there are none."""
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise DocumentError("its sections are a string that is no JSON list; give a list of sections") from None
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        value = _transposed(value)
    if _is_missing(value):
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DocumentError(f"its sections are of type {type(value).__name__}; give a list of sections")
    sections: list[Section] = []
    enclosing: list[tuple[int, str]] = []
    ignored: set[str] = set()
    for number, entry in enumerate(value, start=1):
        if isinstance(entry, str):
            entry = {"text": entry}
        if not isinstance(entry, Mapping):
            raise DocumentError(f"its section {number} is of type {type(entry).__name__}; give a string or a mapping")
        sections.append(_section(entry, number, enclosing))
        ignored.update(str(key) for key in entry if key not in _SECTION_KEYS)
    if ignored:
        metadata["ignored_section_keys"] = sorted(ignored)
    return tuple(sections)


def _transposed(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows from a mapping of columns, as which ``datasets`` gives a sequence of mappings."""
    lists = {key: list(values) for key, values in columns.items() if isinstance(values, list | tuple)}
    if len(lists) != len(columns) or len({len(values) for values in lists.values()}) > 1:
        raise DocumentError("its sections are a single mapping; give a list of sections")
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def _section(entry: Mapping[str, Any], number: int, enclosing: list[tuple[int, str]]) -> Section:
    text, heading = entry.get("text"), entry.get("heading")
    if "text" not in entry and "heading" not in entry:
        there = ", ".join(str(key) for key in entry) or "none"
        raise DocumentError(f"its section {number} has neither 'text' nor 'heading', only {there}; rename the keys")
    for name, value in (("text", text), ("heading", heading)):
        if value is not None and not isinstance(value, str):
            raise DocumentError(f"the {name} of its section {number} is of type {type(value).__name__}; give a string")
    path = entry.get("path")
    if path is not None and hasattr(path, "tolist"):
        path = path.tolist()
    if path is not None and (isinstance(path, str) or not isinstance(path, Sequence)):
        raise DocumentError(
            f"the path of its section {number} is of type {type(path).__name__}; give a list of headings"
        )
    level = entry.get("level")
    if level is None:
        level = len(path) or 1 if path is not None else 1
    if isinstance(level, float) and level.is_integer():
        level = int(level)
    if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= _DEEPEST_LEVEL:
        raise DocumentError(
            f"the level of its section {number} is {level!r}; give a whole number from 1 to {_DEEPEST_LEVEL}"
        )
    while enclosing and enclosing[-1][0] >= level:
        enclosing.pop()
    if heading:
        enclosing.append((level, heading))
    if path is None:
        path = [name for _, name in enclosing]
    return Section(text or "", heading or "", level, tuple(str(name) for name in path))
