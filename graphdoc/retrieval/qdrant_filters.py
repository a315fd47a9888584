"""Filters in SQL as Qdrant takes them: conditions over the columns of an index, by their types."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..errors import MissingExtraError, SettingsError
from ..runtime.plain_text import one_line
from .filter_types import misfit, misfit_in
from .qdrant_conditions import Condition, Filter, every, present, some
from .rows import columns_there

try:
    import sqlglot
    from sqlglot import expressions as sql
except ImportError as error:
    raise MissingExtraError("sqlglot", "qdrant", "keep an index in Qdrant") from error

_OPERATORS: dict[type[sql.Expr], str] = {
    sql.EQ: "=", sql.NEQ: "!=", sql.GT: ">", sql.GTE: ">=", sql.LT: "<", sql.LTE: "<="
}  # fmt: skip
_OPPOSITE = {"=": "!=", "!=": "=", ">": "<=", "<=": ">", ">=": "<", "<": ">="}
_MIRRORED = {"=": "=", "!=": "!=", ">": "<", "<": ">", ">=": "<=", "<=": ">="}
_RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le
}  # fmt: skip
_HOW = "write one condition, like: year >= 2010 AND label = 'sea'"
_KNOWN = "use =, !=, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL, array_has(column, 'value'), AND, OR and NOT"
# Columns that hold whole texts; words are searched for in them instead.
_NO_FILTER = ("text", "document_text", "structure", "coverage")


class Filters:
    """Makes filters of Qdrant from conditions in SQL.

    Args:
        schema: columns of the index (an Arrow schema).
        vectors: columns that are vectors of points.
        values_of: gives the different texts in a column, for what Qdrant cannot compare itself.
    """

    def __init__(self, schema: Any, vectors: Iterable[str], values_of: Callable[[str], list[str]]) -> None:
        self._schema, self._vectors, self._values_of = schema, frozenset(vectors), values_of

    def of(self, where: str) -> Condition:
        """The filter of a condition, as SQL means it: what is not there meets no comparison.

        Raises:
            SettingsError: it cannot be read, or does not fit the columns.
        """
        try:
            parsed = sqlglot.parse_one(where, dialect="sqlite")
        except (sqlglot.errors.SqlglotError, RecursionError) as error:
            reason = one_line(re.sub(r"\x1b\[\d*m", "", str(error)), 160)
            raise SettingsError(f"the filter cannot be read: {reason}; {_HOW}") from error
        try:
            return self._condition(parsed, True)
        except SettingsError as error:
            # What does not fit is said as LanceDB's filters say it, with the comparison that fits.
            raise misfit_in(where, self._schema) or error from None
        except RecursionError as error:
            raise SettingsError(f"the filter {one_line(where, 60)!r} is too deep; {_HOW}") from error

    def _condition(self, node: sql.Expr, wanted: bool) -> Condition:
        """What holds where a condition is true, or where it is false."""
        if node.args.get("negate") and not isinstance(node, sql.Is):
            wanted = not wanted
        if isinstance(node, sql.Paren):
            return self._condition(node.this, wanted)
        if isinstance(node, sql.Not):
            return self._condition(node.this, not wanted)
        if isinstance(node, sql.And | sql.Or):
            parts = [self._condition(part, wanted) for part in (node.this, node.expression)]
            return every(parts) if isinstance(node, sql.And) == wanted else some(parts)
        if isinstance(node, sql.Boolean):
            return bool(node.this) == wanted
        if isinstance(node, sql.Is):
            return self._is(node, wanted)
        if isinstance(node, sql.In):
            return self._one_of(node, wanted)
        if isinstance(node, sql.Between):
            parts = [
                self._compared(node.this, sign, node.args[name], wanted)
                for sign, name in ((">=", "low"), ("<=", "high"))
            ]
            return every(parts) if wanted else some(parts)
        if isinstance(node, sql.Like | sql.ILike):
            flags = re.DOTALL | (re.IGNORECASE if isinstance(node, sql.ILike) else 0)
            pattern = re.compile(_as_pattern(str(self._literal(node.expression))), flags)
            return self._text(self._column(node.this), lambda value: bool(pattern.fullmatch(value)) == wanted)
        if type(node) in _OPERATORS:
            return self._compared(node.this, _OPERATORS[type(node)], node.expression, wanted)
        if isinstance(node, sql.Column):
            name = self._column(node)
            if not pa.types.is_boolean(self._schema.field(name).type):
                raise self._no_condition(node)
            return {"must": [{"key": name, "match": {"value": int(wanted)}}]}
        arguments = _array_has(node)
        if arguments is not None:
            name, value = self._column(arguments[0]), self._literal(arguments[1])
            if not pa.types.is_list(self._schema.field(name).type) or not isinstance(value, str):
                raise self._misfit(name, value)
            return self._matches(name, [value], wanted)
        if isinstance(node, sql.Literal | sql.Neg | sql.Null):
            raise self._no_condition(node)
        raise self._unknown(node)

    def _is(self, node: sql.Is, wanted: bool) -> Condition:
        wanted = wanted != bool(node.args.get("negate"))
        if isinstance(node.expression, sql.Boolean):
            found = self._condition(node.this, bool(node.expression.this))
            return found if wanted else not found if isinstance(found, bool) else {"must_not": [found]}
        if not isinstance(node.expression, sql.Null):
            raise self._unknown(node)
        name = self._column(node.this, may_be_text=True)
        is_there: Filter = {"has_vector": name} if name in self._vectors else present(name)
        return {"must_not": [is_there]} if wanted else {"must": [is_there]}

    def _one_of(self, node: sql.In, wanted: bool) -> Condition:
        if node.args.get("query") or not node.expressions:
            raise self._unknown(node)
        name = self._column(node.this)
        values = [self._literal(value) for value in node.expressions]
        kind = self._schema.field(name).type
        if pa.types.is_string(kind) and all(isinstance(value, str) for value in values):
            return self._matches(name, values, wanted)
        parts = [self._value(name, "=" if wanted else "!=", value) for value in values]
        return some(parts) if wanted else every(parts)

    def _compared(self, left: sql.Expr, sign: str, right: sql.Expr, wanted: bool) -> Condition:
        left, right = (side.unnest() for side in (left, right))
        if not isinstance(left, sql.Column) and isinstance(right, sql.Column):
            left, sign, right = right, _MIRRORED[sign], left
        sign = sign if wanted else _OPPOSITE[sign]
        if isinstance(left, sql.Column):
            name = self._column(left)
            return False if isinstance(right, sql.Null) else self._value(name, sign, self._literal(right))
        one, other = self._literal(left), self._literal(right)
        if isinstance(one, str) != isinstance(other, str):
            raise SettingsError(f"the filter compares {one!r} with {other!r}; {_HOW}")
        return _COMPARED[sign](one, other)

    def _value(self, name: str, sign: str, value: Any) -> Condition:
        """A column compared with a value."""
        kind = self._schema.field(name).type
        if pa.types.is_string(kind) and isinstance(value, str):
            if sign in ("=", "!="):
                return self._matches(name, [value], sign == "=")
            return self._text(name, lambda own: _COMPARED[sign](own, value))
        if pa.types.is_boolean(kind) and isinstance(value, bool) and sign in ("=", "!="):
            return {"must": [{"key": name, "match": {"value": int(value == (sign == "="))}}]}
        if isinstance(value, bool | str) or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise self._misfit(name, value)
        if not (-(2**63) <= value < 2**63 if pa.types.is_integer(kind) else abs(value) <= sys.float_info.max):
            raise self._misfit(name, value)
        if sign in _RANGES:
            return {"must": [{"key": name, "range": {_RANGES[sign]: value}}]}
        if pa.types.is_integer(kind) and value == int(value):
            same: Filter = {"key": name, "match": {"value": int(value)}}
        else:
            same = {"key": name, "range": {"gte": value, "lte": value}}
        return {"must": [same]} if sign == "=" else {"must": [present(name)], "must_not": [same]}

    def _text(self, name: str, fits: Callable[[str], bool]) -> Condition:
        """Texts are compared here, each once, and those that fit are asked for."""
        kind = self._schema.field(name).type
        if not pa.types.is_string(kind):
            raise misfit(name, kind, "a text")
        values = [value for value in self._values_of(name) if fits(value)]
        return self._matches(name, values, True) if values else False

    def _matches(self, name: str, values: list[str], wanted: bool) -> Filter:
        same = {"key": name, "match": {"any": values}}
        return {"must": [same]} if wanted else {"must": [present(name)], "must_not": [same]}

    def _column(self, node: sql.Expr, *, may_be_text: bool = False) -> str:
        node = node.unnest()
        if not isinstance(node, sql.Column):
            raise self._unknown(node)
        name = node.name if node.this.quoted else node.name.lower()
        if name not in self._schema.names:
            there = columns_there(self._schema.names)
            raise SettingsError(f"the filter names {one_line(name, 60)!r}, which is no column; {there}")
        if name in _NO_FILTER and not may_be_text:
            raise SettingsError(f"the filter compares {name}, which holds whole texts; search for its words instead")
        return name

    def _literal(self, node: sql.Expr) -> Any:
        node = node.unnest()
        if isinstance(node, sql.Cast):
            return self._literal(node.this)
        if isinstance(node, sql.Neg):
            return -self._literal(node.this)
        if isinstance(node, sql.Boolean):
            return bool(node.this)
        if not isinstance(node, sql.Literal):
            raise self._unknown(node)
        if node.is_string:
            return str(node.this)
        return int(node.this) if re.fullmatch(r"\d{1,19}", str(node.this)) else float(node.this)

    def _misfit(self, name: str, value: Any) -> SettingsError:
        return misfit(name, self._schema.field(name).type, repr(value))

    def _no_condition(self, node: sql.Expr) -> SettingsError:
        return SettingsError(f"the filter is no condition: {_shown(node)}; compare with something, like: year >= 2010")

    def _unknown(self, node: sql.Expr) -> SettingsError:
        return SettingsError(f"the filter holds {_shown(node)}, which cannot be asked of Qdrant; {_KNOWN}")


def _shown(node: sql.Expr) -> str:
    return one_line(node.sql("sqlite"), 60)


def _array_has(node: sql.Expr) -> tuple[sql.Expr, sql.Expr] | None:
    """Column and value of ``array_has``, under any of its names."""
    if isinstance(node, sql.ArrayContains):
        return node.this, node.expression
    names = ("array_has", "array_contains", "list_has", "list_contains")
    if isinstance(node, sql.Anonymous) and node.name.lower() in names and len(node.expressions) == 2:
        return node.expressions[0], node.expressions[1]
    return None


def _as_pattern(text: str) -> str:
    """A pattern of LIKE as a regular expression."""
    return re.sub(
        r"(?s)\\(.)|(.)",
        lambda match: re.escape(match[1]) if match[1] else {"%": ".*", "_": "."}.get(match[2], re.escape(match[2])),
        text,
    )
