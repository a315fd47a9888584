"""Filters of a search: conditions over columns and literals, parsed and checked before the store sees them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..errors import SettingsError
from ..runtime.text import described, one_line
from .fields import Column, kind_name

# A list of 10,000 ids fits; a chain of thousands of conditions, or of wildcards, keeps the store busy for minutes.
MOST_CHARACTERS, MOST_CONDITIONS, MOST_WILDCARDS, MOST_DEPTH = 100_000, 200, 100, 20
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`)"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),])|(?P<end>$))"
)
_SIGNS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WORDS = frozenset(["AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "IS", "NULL", "BETWEEN", "TRUE", "FALSE"])
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_EXAMPLES = {"text": "'sea'", "lists of texts": "'sea'", "true or false": "true", "numbers": "2.5"}
_MOST_NAMED = 50


class _Token(NamedTuple):
    kind: str
    text: str


def store_filter(where: object, columns: Mapping[str, Column]) -> str:
    """Translate a filter into the SQL of the store, so that it can be joined to other conditions.

    A filter compares columns with literals or other columns by ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``IN``,
    ``LIKE``, ``ILIKE``, ``BETWEEN`` and ``IS NULL``, and joins conditions by ``AND``, ``OR``, ``NOT`` and parentheses.
    A column of true or false is a condition by itself. A list of texts equals each of the texts in it.

    Args:
        where: the filter.
        columns: the columns that it can name, by name. Names other than words stand in double quotes.

    Raises:
        SettingsError: it is no text, too long or too deep, is not written like this, names an unknown column, or
            compares a column with a value of another type.

    >>> columns = {"year": Column("field_year", pa.int64()), "tags": Column("field_tags", pa.list_(pa.string()))}
    >>> store_filter("year >= 2010 AND NOT tags = 'sea'", columns)
    "`field_year` >= 2010 AND NOT (array_has(`field_tags`, 'sea'))"
    """
    require_filter(where)
    return _Parser(require_filter(where), columns).parsed()


def require_filter(where: object) -> str:
    """Refuse what is no filter in any index.

    Raises:
        SettingsError: it is no text, empty, or too long.
    """
    if not isinstance(where, str) or not where.strip():
        raise SettingsError(f"the filter is {described(where)}; write it like: year >= 2010, or leave it out")
    if len(where) > MOST_CHARACTERS:
        raise SettingsError(f"the filter has {len(where):,} characters; {MOST_CHARACTERS:,} are the most")
    if any("\ud800" <= character <= "\udfff" or character == "\0" for character in where):
        raise SettingsError(f"the filter {one_line(where, 60)!r} holds a character that no text has")
    return where


class _Parser:
    """Recursive descent over the tokens of one filter, which gives SQL."""

    def __init__(self, where: str, columns: Mapping[str, Column]) -> None:
        self._where, self._columns = where, columns
        self._tokens = self._read()
        self._next = self._depth = self._conditions = self._wildcards = 0

    def parsed(self) -> str:
        found = self._either()
        if self._token.kind != "end":
            self._fail(f"cannot hold {self._shown} there")
        return found

    def _read(self) -> list[_Token]:
        tokens: list[_Token] = []
        place = 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKEN.match(self._where, place)
            if match is None:
                self._fail(f"cannot hold {self._where[place:].lstrip()[:10]!r}")
            assert match.lastgroup is not None
            tokens.append(_Token(match.lastgroup, match[match.lastgroup]))
            place = match.end()
        return tokens

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    @property
    def _shown(self) -> str:
        return repr(one_line(self._token.text, 60)) if self._token.text else "its end"

    def _take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _takes(self, *words: str) -> bool:
        """Whether these words or signs follow; they are passed over."""
        following = self._tokens[self._next : self._next + len(words)]
        if [token.text.upper() for token in following if token.kind in ("word", "sign")] != list(words):
            return False
        self._next += len(words)
        return True

    def _require(self, sign: str) -> None:
        if not self._takes(sign):
            self._fail(f"needs {sign} before {self._shown}")

    def _fail(self, reason: str) -> NoReturn:
        raise SettingsError(
            f"the filter {one_line(self._where, 60)!r} {reason}; write conditions like: year >= 2010 AND label = 'sea'"
        )

    def _either(self) -> str:
        return self._joined("OR", lambda: self._joined("AND", self._condition))

    def _joined(self, word: str, part: Callable[[], str]) -> str:
        parts = [part()]
        while self._takes(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else f" {word} ".join(f"({one})" if word == "OR" else one for one in parts)

    def _condition(self) -> str:
        is_negated, is_nested = self._takes("NOT"), False
        if not is_negated:
            is_nested = self._takes("(")
        if not is_negated and not is_nested:
            return self._comparison()
        self._depth += 1
        if self._depth > MOST_DEPTH:
            self._fail(f"is nested more than {MOST_DEPTH} deep")
        found = self._condition() if is_negated else self._either()
        if is_nested:
            self._require(")")
        self._depth -= 1
        return f"NOT ({found})" if is_negated else f"({found})"

    def _comparison(self) -> str:
        self._conditions += 1
        if self._conditions > MOST_CONDITIONS:
            self._fail(f"has more than {MOST_CONDITIONS} conditions")
        if self._is_literal:
            value, sign = self._take(), self._sign()
            if sign is None:
                self._fail(f"compares {one_line(value.text, 60)} with no column")
            name = self._column()
            flipped = sign.translate(str.maketrans("<>", "><"))
            return self._compared(name, flipped, value)
        name = self._column()
        column = self._columns[name]
        stored = f"`{column.stored}`"
        if self._takes("IS", "NULL"):
            return f"{stored} IS NULL"
        if self._takes("IS", "NOT", "NULL"):
            return f"{stored} IS NOT NULL"
        sign = self._sign()
        if sign is not None:
            return self._compared(name, sign, self._take()) if self._is_literal else self._beside(name, sign)
        negation = "NOT " if self._takes("NOT") else ""
        if self._takes("IN"):
            return negation + self._in(name)
        if self._takes("BETWEEN"):
            first = self._ordered(name, self._value())
            self._require("AND")
            return f"{stored} {negation}BETWEEN {first} AND {self._ordered(name, self._value())}"
        for word in ("LIKE", "ILIKE"):
            if self._takes(word):
                return f"{stored} {negation}{word} {self._pattern(name)}"
        if negation or not pa.types.is_boolean(column.kind):
            self._fail(f"compares {name} with nothing before {self._shown}")
        return stored

    @property
    def _is_literal(self) -> bool:
        kind, text = self._token
        return kind in ("text", "number") or (kind == "word" and text.upper() in ("TRUE", "FALSE", "NULL"))

    def _value(self) -> _Token:
        if not self._is_literal:
            self._fail(f"needs a value before {self._shown}")
        return self._take()

    def _sign(self) -> str | None:
        return _SIGNS[self._take().text] if self._token.text in _SIGNS and self._token.kind == "sign" else None

    def _column(self) -> str:
        kind, text = self._token
        if kind not in ("word", "quoted") or (kind == "word" and text.upper() in _WORDS):
            self._fail(f"needs a column before {self._shown}")
        self._take()
        if kind == "word" and self._token.text == "(":
            self._fail(f"calls {one_line(text, 60)}, and functions are not for filters")
        name = text if kind == "word" else text[1:-1].replace(text[0] * 2, text[0])
        if name not in self._columns:
            is_value = self._next > 1 and self._tokens[self._next - 2].text in _SIGNS
            hint = f"a text stands in single quotes: '{one_line(name, 60)}'; " if is_value else ""
            raise SettingsError(
                f"the filter names {one_line(name, 60)!r}, which is no column; {hint}{columns_there(self._columns)}"
            )
        return name

    def _beside(self, name: str, sign: str) -> str:
        """A comparison of two columns."""
        other = self._column()
        kinds = {_family(self._columns[one].kind) for one in (name, other)}
        if len(kinds) > 1 or not kinds < {"text", "numbers", "true or false"}:
            self._misfit(name, other)
        return f"`{self._columns[name].stored}` {sign} `{self._columns[other].stored}`"

    def _compared(self, name: str, sign: str, value: _Token) -> str:
        column = self._columns[name]
        if pa.types.is_list(column.kind):
            if sign not in ("=", "!="):
                self._misfit(name, value.text)
            found = f"array_has(`{column.stored}`, {self._literal(name, value)})"
            return found if sign == "=" else f"NOT {found}"
        literal = self._literal(name, value) if sign in ("=", "!=") else self._ordered(name, value)
        return f"`{column.stored}` {sign} {literal}"

    def _in(self, name: str) -> str:
        self._require("(")
        values = [self._literal(name, self._value())]
        while self._takes(","):
            values.append(self._literal(name, self._value()))
        self._require(")")
        stored, listed = f"`{self._columns[name].stored}`", ", ".join(values)
        is_list = pa.types.is_list(self._columns[name].kind)
        return f"array_has_any({stored}, [{listed}])" if is_list else f"({stored} IN ({listed}))"

    def _pattern(self, name: str) -> str:
        value = self._value()
        if not pa.types.is_string(self._columns[name].kind):
            self._misfit(name, value.text)
        self._wildcards += sum(map(value.text.count, "%_"))
        if self._wildcards > MOST_WILDCARDS:
            self._fail(f"has more than {MOST_WILDCARDS} wildcards (% and _)")
        return self._literal(name, value)

    def _ordered(self, name: str, value: _Token) -> str:
        if _family(self._columns[name].kind) not in ("text", "numbers"):
            self._misfit(name, value.text)
        return self._literal(name, value)

    def _literal(self, name: str, value: _Token) -> str:
        """A value as the store writes it for a column, which holds values of this type."""
        kind, text = self._columns[name].kind, value.text
        if value.kind == "word" and text.upper() == "NULL":
            self._fail(f"compares {one_line(name, 60)} with NULL; write IS NULL")
        if value.kind == "text" and (pa.types.is_string(kind) or pa.types.is_list(kind)):
            return text
        if value.kind == "word" and pa.types.is_boolean(kind):
            return text.upper()
        if value.kind == "number" and pa.types.is_integer(kind):
            whole = int(text) if text.lstrip("+-").isdigit() and len(text) < 30 else float(text)
            if abs(whole) < 2 ** (kind.bit_width - 1) and whole == int(whole):
                return str(int(whole))
        if value.kind == "number" and pa.types.is_floating(kind) and math.isfinite(float(text)):
            return repr(float(text))
        self._misfit(name, text)

    def _misfit(self, name: str, value: str) -> NoReturn:
        held = kind_name(self._columns[name].kind)
        raise SettingsError(
            f"the filter does not fit its columns: {one_line(name, 60)} holds {held}, and is compared with "
            f"{one_line(value, 60)}; compare it like: {_EXAMPLES.get(held, '2010')}"
        )


def columns_there(columns: Mapping[str, Column]) -> str:
    """The columns that a filter can name, as it names them, for messages."""
    names = [name if _is_plain(name) else '"' + name.replace('"', '""') + '"' for name in columns]
    return f"there are {', '.join(one_line(name, 60) for name in names[:_MOST_NAMED])}" + (
        f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    )


def _is_plain(name: str) -> bool:
    return bool(_PLAIN_NAME.fullmatch(name)) and name.upper() not in _WORDS


def _family(kind: Any) -> str:
    held = kind_name(kind)
    return "numbers" if held == "whole numbers" else held
