"""Files of queries with an id, a text and any other fields, which queries can be chosen by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ..documents.document import Document
from ..documents.parsing.rows import Columns, is_missing, row_id
from ..documents.readers.corpora import read_corpus
from ..documents.section import clean_text
from ..errors import DocumentError, EvaluationError, SettingsError
from ..runtime.text import described, one_line
from .labels import named

TEXT_COLUMN = "text"

Row = Mapping[str, Any]


@dataclass(slots=True)
class _Condition:
    """That a field of a query has one of some values; notes which values there are."""

    name: str
    values: set[str] = field(default_factory=set)
    there: dict[str, None] = field(default_factory=dict)

    def holds(self, row: Row) -> bool:
        if self.name not in row:
            return False
        value = row[self.name]
        own = [_as_written(one) for one in (value if isinstance(value, list | tuple) else [value])]
        self.there.update(dict.fromkeys(own))
        return any(one in self.values for one in own)

    def require_met(self, place: str, noun: str) -> None:
        if not self.there:
            raise EvaluationError(f"{place}no {noun} has the field {self.name!r}; choose by another one")
        if not self.values & self.there.keys():
            wanted = " or ".join(sorted(self.values))
            shown = named(one_line(value, 40) for value in self.there)
            raise EvaluationError(f"{place}no {noun} has {self.name}={wanted}; there are {shown}")


def read_queries(
    path: Path, only: Sequence[str] = (), text_column: str = TEXT_COLUMN
) -> tuple[dict[str, str], set[str]]:
    """Read queries from a file of rows.

    Args:
        path: a JSON Lines, JSON, CSV, TSV or Parquet file whose rows have ``_id`` or ``id``, and a text.
        only: conditions on fields, such as ``kind=specific``; of several on one field one must hold.
        text_column: the field that holds the text.

    Returns:
        Texts of the queries that fit, by id, empty ones as well; the ids of all queries.

    Raises:
        EvaluationError: a row is malformed, an id occurs twice, or no query fits; the message names file and line.
        SettingsError: a condition is none.
    """
    conditions = _conditions(only)
    places: dict[str, str] = {}
    texts: dict[str, str] = {}
    for record in read_corpus(path, "utf-8"):
        try:
            if isinstance(record.content, DocumentError):
                raise record.content
            row = cast("Row", record.content)
            id = clean_text(row_id(row, Columns()) or "").strip()
            if not id:
                raise DocumentError("the query has no id; give it one as _id")
            if id in places:
                raise DocumentError(f"the id {id!r} is taken by the query of {places[id]}; give each its own id")
            places[id] = record.place
            # All are asked, so that each notes the values that there are.
            if all([condition.holds(row) for condition in conditions]):
                texts[id] = _text(row, text_column)
        except DocumentError as error:
            raise EvaluationError(f"{record.place}: {error}") from error.__cause__
    for condition in conditions:
        condition.require_met(f"{path}: ", "query")
    if not texts:
        raise EvaluationError(f"{path}: no query fits all conditions ({', '.join(only)}); leave one of them out")
    return texts, set(places)


def fitting_documents(documents: Iterable[Document], only: Sequence[str]) -> list[Document]:
    """The documents whose fields fit all conditions.

    Args:
        documents: the documents.
        only: conditions on fields, such as ``split=test``; of several on one field one must hold.

    Raises:
        EvaluationError: no document fits.
        SettingsError: a condition is none.
    """
    conditions = _conditions(only)
    found = []
    for document in documents:
        # All are asked, so that each notes the values that there are.
        if all([condition.holds(document.metadata) for condition in conditions]):
            found.append(document)
    for condition in conditions:
        condition.require_met("", "document")
    if not found:
        raise EvaluationError(f"no document fits all conditions ({', '.join(only)}); leave one of them out")
    return found


def _conditions(only: Sequence[str]) -> list[_Condition]:
    if isinstance(only, str):
        raise SettingsError(f"only={only!r} is one string; give a list of conditions, such as [{only!r}]")
    found: dict[str, _Condition] = {}
    for text in only:
        name, _, value = (part.strip() for part in str(text).partition("="))
        if not (name and value):
            raise SettingsError(f"{text!r} is no condition; write a field and its value, such as kind=specific")
        found.setdefault(name, _Condition(name)).values.add(value)
    return list(found.values())


def _as_written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(row: Row, column: str) -> str:
    if column not in row:
        raise DocumentError(f"the query has no field {column!r}, only {', '.join(map(str, row))}; choose one of them")
    text = row[column]
    if is_missing(text):
        return ""
    if not isinstance(text, str):
        raise DocumentError(f"the text of the query, {column!r}, is {described(text)}; give a string")
    return clean_text(text).strip()
