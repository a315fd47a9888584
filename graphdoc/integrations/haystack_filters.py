"""Filters of Haystack as conditions over the columns of an index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from ..errors import SettingsError
from ..retrieval.rows import quoted
from ..runtime.text import described

# Each comparison with its opposite, of two values that are there.
_OPPOSITES = {"==": "!=", ">": "<=", ">=": "<", "in": "not in"}
_OPPOSITES |= {opposite: one for one, opposite in _OPPOSITES.items()}
_HOLDS_WHERE_MISSING = ("!=", "not in")
_SIGNS = {"==": "=", "in": "IN", "not in": "NOT IN"}
_LOGIC = ("AND", "OR", "NOT")


def condition_of(filters: Mapping[str, Any]) -> str:
    """A filter of Haystack as a condition that :meth:`DocumentIndex.search` takes.

    A document without the field is handled as Haystack handles it: it differs from every value, and no comparison of
    sizes holds for it.

    Args:
        filters: a comparison (``field``, ``operator``, ``value``), or several under ``conditions`` that ``operator``
            joins (``AND``, ``OR``, ``NOT``).

    Raises:
        SettingsError: it is not written so.

    >>> condition_of({"field": "meta.year", "operator": ">=", "value": 2010})
    'year >= 2010'
    >>> condition_of({"field": "meta.kind", "operator": "not in", "value": ["note", "draft"]})
    "(kind NOT IN ('note', 'draft') OR kind IS NULL)"
    """
    return _condition(filters, negated=False)


def _condition(filters: object, *, negated: bool) -> str:
    if not isinstance(filters, Mapping):
        raise SettingsError(f"the filter is {described(filters)}; give a dictionary, as Haystack writes it")
    wanted = ("field", "operator", "value") if "field" in filters else ("operator", "conditions")
    for name in wanted:
        if name not in filters:
            raise SettingsError(f"the filter {_shown(filters)} has no {name!r}; it needs {', '.join(wanted)}")
    return _comparison(filters, negated) if "field" in filters else _joined(filters, negated)


def _joined(filters: Mapping[str, Any], negated: bool) -> str:
    operator, conditions = filters["operator"], filters["conditions"]
    if operator not in _LOGIC:
        raise SettingsError(f"the filter joins by {operator!r}; choose one of {', '.join(_LOGIC)}")
    if not isinstance(conditions, list | tuple) or not conditions:
        raise SettingsError(f"the conditions of {operator} are {described(conditions)}; give a list of one or more")
    if operator == "NOT":
        operator, negated = "AND", not negated
    if negated:
        operator = "OR" if operator == "AND" else "AND"
    return "(" + f" {operator} ".join(_condition(one, negated=negated) for one in conditions) + ")"


def _comparison(filters: Mapping[str, Any], negated: bool) -> str:
    field, operator, value = filters["field"], filters["operator"], filters["value"]
    if operator not in _OPPOSITES:
        raise SettingsError(f"the filter compares by {operator!r}; choose one of {', '.join(sorted(_OPPOSITES))}")
    name = _column(field)
    # A comparison of sizes holds for no missing value, so its negation holds for each.
    holds_where_missing = (operator in _HOLDS_WHERE_MISSING) != negated
    operator = _OPPOSITES[operator] if negated else operator
    if value is None and operator in ("==", "!="):
        return f"{name} IS NULL" if operator == "==" else f"{name} IS NOT NULL"
    if operator in ("in", "not in"):
        if not isinstance(value, list | tuple | set | frozenset):
            raise SettingsError(f"the filter compares {field} by 'in' with {described(value)}; give a list")
        if not value:
            return f"({name} IS NULL {'AND' if operator == 'in' else 'OR'} {name} IS NOT NULL)"
        written = f"({', '.join(_value(field, one) for one in value)})"
    else:
        written = _value(field, value)
    condition = f"{name} {_SIGNS.get(operator, operator)} {written}"
    return f"({condition} OR {name} IS NULL)" if holds_where_missing else condition


def _column(field: object) -> str:
    name = field.removeprefix("meta.") if isinstance(field, str) else ""
    if not re.fullmatch(r"[^\W\d]\w*", name):
        raise SettingsError(f"the filter names the field {field!r}; give a column of the index, such as meta.year")
    return name


def _value(field: object, value: object) -> str:
    value = value.isoformat() if hasattr(value, "isoformat") else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return repr(value)
    if isinstance(value, str):
        return quoted(value)
    raise SettingsError(f"the filter compares {field} with {described(value)}; give a text, a number, true or false")


def _shown(filters: Mapping[str, Any]) -> str:
    return "of " + (", ".join(map(repr, filters)) or "nothing")
