"""What the columns of an index hold, in words, and how a filter is written that fits them."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..errors import SettingsError
from ..runtime.text import one_line

_NAMES = {"bool": "true or false", "int64": "whole numbers", "double": "numbers", "string": "text"}
_VALUE = r"'(?:[^']|'')*'|[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?\b|\b(?:true|false)\b"
_NAME = r"\"[^\"]+\"|`[^`]+`|\b[^\W\d]\w*\b"
_SIGN = "<=|>=|<>|!=|==|=|<|>"
# A column compared with values; else a word or value, which is passed over.
_COMPARED = re.compile(
    rf"(?P<column>{_NAME})(?:[\s)]*(?P<sign>{_SIGN})[\s(]*(?P<value>{_VALUE})"
    rf"|\s+(?:not\s+)?in\s*\((?P<list>\s*(?:{_VALUE})(?:\s*,\s*(?:{_VALUE}))*)\s*\)"
    rf"|\s+(?:not\s+)?between\s+(?P<bounds>(?:{_VALUE})\s+and\s+(?:{_VALUE}))"
    rf"|\s+(?:not\s+)?i?(?P<like>like)\s+(?P<pattern>{_VALUE}))"
    rf"|(?P<first>{_VALUE})\s*(?:{_SIGN})\s*(?P<last>{_NAME})"
    rf"|{_VALUE}|{_NAME}",
    re.IGNORECASE,
)
_VALUES = re.compile(_VALUE, re.IGNORECASE)
_MOST_NAMED = 5


def kind_name(kind: Any) -> str:
    """What a column of an Arrow type holds, in words.

    >>> import pyarrow
    >>> kind_name(pyarrow.string()), kind_name(pyarrow.list_(pyarrow.string()))
    ('text', 'lists of texts')
    """
    if pa.types.is_fixed_size_list(kind) or pa.types.is_large_binary(kind):
        return "vectors"
    if pa.types.is_list(kind):
        return "lists of texts"
    return "whole numbers" if pa.types.is_integer(kind) else _NAMES.get(str(kind), str(kind))


def misfit(name: str, kind: Any, value: str, fitting: str | None = None) -> SettingsError:
    """The error of a column that a filter compares with what it does not hold.

    Args:
        name: the column.
        kind: its Arrow type.
        value: what it is compared with, as the filter has it.
        fitting: the same comparison as it fits; None for an example.
    """
    held = kind_name(kind)
    examples = {
        "text": f"{name} = 'sea'",
        "lists of texts": f"array_has({name}, 'sea')",
        "true or false": f"{name} = true",
    }
    way_out = f"write: {fitting}" if fitting else f"write it like: {examples.get(held, f'{name} >= 2010')}"
    if held == "vectors":
        way_out = "compare another column"
    return SettingsError(
        f"the filter does not fit its columns: {one_line(name, 60)} holds {held}, and is compared with "
        f"{one_line(value, 60)}; {way_out}"
    )


def misfit_in(where: str, schema: Any) -> SettingsError | None:
    """The error of the first column in a filter that is compared with what it does not hold; None where all fit.

    Args:
        where: the filter.
        schema: columns of the index (an Arrow schema).

    >>> import pyarrow
    >>> print(misfit_in("label = 'sea' AND year >= 2010", pyarrow.schema([("year", pyarrow.string())])))
    the filter does not fit its columns: year holds text, and is compared with 2010; write: year >= '2010'
    """
    for found in _COMPARED.finditer(where):
        given = next((found[part] for part in ("value", "list", "bounds", "pattern", "first") if found[part]), None)
        column = _named(found["column"] or found["last"] or "", schema)
        if given is None or column is None:
            continue
        name, kind = column
        values = _VALUES.findall(given)
        wrong = next((value for value in values if not _fits(kind, value)), None)
        if wrong is not None or (found["like"] and not pa.types.is_string(kind)):
            return misfit(name, kind, wrong or values[0], _fitting(found, name, kind, values))
    return None


def columns_in(where: str, schema: Any) -> str:
    """The columns that a filter names, each with what it holds; empty where it names none."""
    names = dict.fromkeys(
        column
        for found in re.finditer(rf"'(?:[^']|'')*'|({_NAME})", where)
        if (column := _named(found[1] or "", schema))
    )
    held = [f"{one_line(name, 60)} holds {kind_name(kind)}" for name, kind in names]
    return ", ".join(held[:_MOST_NAMED]) + (", ..." if len(held) > _MOST_NAMED else "")


def _named(word: str, schema: Any) -> tuple[str, Any] | None:
    """The column that a word of a filter names, and its type."""
    name = word[1:-1] if word[:1] in ('"', "`") else word
    found = next((one for one in (name, name.lower()) if one in schema.names), None)
    return (found, schema.field(found).type) if found is not None else None


def _fits(kind: Any, value: str) -> bool:
    if value[0] == "'":
        return bool(pa.types.is_string(kind))
    if value.lower() in ("true", "false"):
        return bool(pa.types.is_boolean(kind))
    return bool(pa.types.is_floating(kind) or (pa.types.is_integer(kind) and re.fullmatch(r"[-+]?\d+", value)))


def _fitting(found: re.Match[str], name: str, kind: Any, values: list[str]) -> str | None:
    """A comparison with its values as the column holds them; None where they cannot be written so."""
    own = list(values)
    if pa.types.is_string(kind):
        own = [value if value[0] == "'" else f"'{value}'" for value in values]
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        own = [value.strip("'").strip() for value in values]
        if found["like"] or not all(re.fullmatch(r"[-+]?\d+(\.\d+)?", one) and _fits(kind, one) for one in own):
            return None
    elif pa.types.is_list(kind) and found["sign"] in ("=", "==") and values[0][0] == "'":
        return f"array_has({name}, {values[0]})"
    else:
        return None
    if found["sign"]:
        # Without the parentheses between them.
        return one_line(f"{found['column']} {found['sign']} {own[0]}", 200)
    after = iter(own)
    written = _VALUES.sub(lambda _: next(after), found[0][len(found["column"] or "") :])
    return one_line((found["column"] or "") + written, 200)
