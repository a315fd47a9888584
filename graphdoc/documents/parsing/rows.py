"""Rows (mappings) to the parts of a document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import DocumentError
from ...runtime.text import described
from ..section import DEEPEST_PATH, Section, is_missing

_SECTION_KEYS = ("heading", "text", "level", "path")


# Without slots, since readers of configuration files look at the defaults through ``vars``.
@dataclass(frozen=True)
class Columns:
    """Names of the columns (keys) of a row that make a document, in any case; all others become metadata.

    Args:
        text: the running text.
        sections: a list of texts, or of mappings with ``heading``, ``text`` and, if known, ``level`` and ``path``.
        title: the title.
        id: the id; by default ``_id`` is taken where there is no ``id``.
        label: the class or group.
    """

    text: str = "text"
    sections: str = "sections"
    title: str = "title"
    id: str = "id"
    label: str = "label"


def row_id(row: Mapping[str, Any], columns: Columns) -> str | None:
    """The id that a row gives itself, if it does."""
    value = row.get(_id_column(row, columns))
    if is_missing(value) or value == "":
        return None
    if not isinstance(value, str | int | float):
        raise DocumentError(f"its id is {described(value)}; give a string or a number")
    return str(value)


def document_parts(row: Mapping[str, Any], id: str | None, columns: Columns) -> dict[str, Any]:
    """The arguments of a document that a row has; ``id`` stands for the one in the row.

    Raises:
        DocumentError: there is neither text nor sections, or a value is of the wrong type.
    """
    own_id = row_id(row, columns)
    columns = replace(
        columns, **{name: _written(row, column) for name, column in vars(columns).items() if name != "id"}
    )
    used = {columns.sections, columns.title, columns.label, _id_column(row, columns), "metadata"}
    metadata: dict[str, Any] = {}
    sections = _sections(row.get(columns.sections), metadata)
    text = row.get(columns.text)
    if is_missing(text) or not sections:
        used.add(columns.text)
    if not sections and not is_missing(text):
        if not isinstance(text, str):
            raise DocumentError(f"its column {columns.text!r} is {described(text)}; give a string")
        sections = (Section(text),) if text else ()
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
    title = row.get(columns.title)
    if not is_missing(title) and not isinstance(title, str | int | float):
        raise DocumentError(f"its title is {described(title)}; give a string")
    named = {"title": "" if is_missing(title) else str(title), "label": row.get(columns.label)}
    return {"id": id or own_id, "sections": sections, **named, "metadata": metadata}


def _id_column(row: Mapping[str, Any], columns: Columns) -> str:
    # Corpora in the format of BEIR (https://github.com/beir-cellar/beir) say _id.
    return "_id" if columns.id == "id" and "id" not in row and "_id" in row else _written(row, columns.id)


def _written(row: Mapping[str, Any], name: str) -> str:
    """The name of a column as a row writes it, since ``Text`` and ``TEXT`` are the same to people."""
    return name if name in row else next((key for key in row if str(key).casefold() == name.casefold()), name)


def _missing_text(row: Mapping[str, Any], columns: Columns) -> DocumentError:
    there = ", ".join(str(key) for key in row) or "none"
    if columns.text in row or columns.sections in row:
        column = columns.text if columns.text in row else columns.sections
        return DocumentError(f"it has no value in column {column!r}; fill it or leave the row out")
    return DocumentError(
        f"it has neither column {columns.text!r} nor {columns.sections!r}, only {there}; "
        "name the column with --column text=NAME, corpus.columns.text of a configuration file, or Columns(text=...)"
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
        # A mapping of columns, as which ``datasets`` gives a sequence of mappings.
        lists = {key: list(values) for key, values in value.items() if isinstance(values, list | tuple)}
        if len(lists) != len(value) or len({len(values) for values in lists.values()}) > 1:
            raise DocumentError("its sections are a single mapping; give a list of sections")
        value = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    if is_missing(value):
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DocumentError(f"its sections are {described(value)}; give a list of sections")
    sections: list[Section] = []
    enclosing: list[tuple[int, str]] = []
    ignored: set[str] = set()
    for number, entry in enumerate(value, start=1):
        if isinstance(entry, str):
            entry = {"text": entry}
        if not isinstance(entry, Mapping):
            raise DocumentError(f"its section {number} is {described(entry)}; give a string or a mapping")
        sections.append(_section(entry, number, enclosing))
        ignored.update(str(key) for key in entry if key not in _SECTION_KEYS)
    if ignored:
        metadata["ignored_section_keys"] = sorted(ignored)
    return tuple(sections)


def _section(entry: Mapping[str, Any], number: int, enclosing: list[tuple[int, str]]) -> Section:
    if "text" not in entry and "heading" not in entry:
        there = ", ".join(str(key) for key in entry) or "none"
        raise DocumentError(f"its section {number} has neither 'text' nor 'heading', only {there}; rename the keys")
    text, heading, level = (entry.get(key) for key in ("text", "heading", "level"))
    path: Any = entry.get("path")
    path = path.tolist() if hasattr(path, "tolist") else path
    if level is None:
        level = len(path) or 1 if isinstance(path, Sequence) else 1
    try:
        section = Section("" if text is None else text, "" if heading is None else heading, level, path or ())
    except DocumentError as error:
        raise DocumentError(f"its section {number}: {error}") from None
    while enclosing and enclosing[-1][0] >= section.level:
        enclosing.pop()
    if section.heading:
        enclosing.append((section.level, section.heading))
    return section if path is not None else replace(section, path=tuple(name for _, name in enclosing[-DEEPEST_PATH:]))
