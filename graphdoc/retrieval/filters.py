"""Filters that restrict a search by the columns of an index: one small grammar, translated into the store's SQL."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from ..errors import SettingsError
from ..runtime.text import described, one_line
from .table import Column, kind_name

# A list of some thousand ids fits; thousands of conditions or wildcards would keep the store busy for minutes.
MOST_CHARACTERS, MOST_CONDITIONS, MOST_WILDCARDS, MOST_DEPTH = 100_000, 200, 100, 20
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`)"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),])|(?P<end>$))"
)
_SIGNS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_FLIPPED = str.maketrans("<>", "><")
_WORDS = frozenset(["AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "IS", "NULL", "BETWEEN", "TRUE", "FALSE"])
_TEXT, _LIST, _TRUTH, _WHOLE, _NUMBER = "text", "lists of texts", "true or false", "whole numbers", "numbers"
_ORDERED = (_TEXT, _WHOLE, _NUMBER)


class _Token(NamedTuple):
    kind: str
    text: str


def store_filter(where: object, columns: Mapping[str, Column]) -> str:
    """Translate a filter into the SQL of the store, so that it can be joined to other conditions.

    A filter compares columns with literals or other columns by ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``IN``,
    ``LIKE``, ``ILIKE``, ``BETWEEN`` and ``IS NULL``, and joins conditions by ``AND``, ``OR``, ``NOT`` and parentheses.
    A column of true or false is a condition by itself. A list of texts equals each of the texts in it. Texts are
    compared with numbers by the numbers that they hold: cells of CSV files are texts.

    Args:
        where: the filter.
        columns: the columns that it can name, by name. Names other than words stand in double quotes.

    Raises:
        SettingsError: it is no text, too long or too deep, is not written like this, names an unknown column, or
            compares a column with a value of another type.

    >>> import pyarrow as pa
    >>> columns = {"year": Column("field_year", pa.int64()), "tags": Column("field_tags", pa.list_(pa.string()))}
    >>> store_filter("year >= 2010 AND NOT tags = 'sea'", columns)
    "`field_year` >= 2010 AND NOT (array_has(`field_tags`, 'sea'))"
    """
    if not isinstance(where, str) or not where.strip() or re.search("[\ud800-\udfff\0]", where):
        raise SettingsError(f"the filter is {described(where)}, no text with conditions like: year >= 2010")
    if len(where) > MOST_CHARACTERS:
        raise SettingsError(f"the filter has {len(where):,} characters; {MOST_CHARACTERS:,} are the most")
    return _Parser(where, columns).parsed()


class _Parser:
    """Recursive descent over the tokens of one filter, which gives SQL."""

    def __init__(self, where: str, columns: Mapping[str, Column]) -> None:
        self._where, self._columns = where, columns
        self._next, self._counts, self._tokens = 0, Counter[str](), list[_Token]()
        place = 0
        while not self._tokens or self._token.kind != "end":
            match = _TOKEN.match(where, place)
            if match is None:
                self._fail(f"cannot hold {where[place:].lstrip()[:10]!r}")
            self._tokens.append(_Token(str(match.lastgroup), match[str(match.lastgroup)]))
            self._next, place = len(self._tokens) - 1, match.end()
        self._next = 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _is_literal(self) -> bool:
        kind, text = self._token
        return kind in ("text", "number") or (kind == "word" and text.upper() in ("TRUE", "FALSE", "NULL"))

    def _take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _takes(self, word: str) -> bool:
        """Whether a word or sign follows, which is passed over."""
        follows = self._token.kind in ("word", "sign") and self._token.text.upper() == word
        self._next += follows
        return follows

    def _require(self, sign: str) -> None:
        if not self._takes(sign):
            self._lacks(sign)

    def _lacks(self, what: str) -> NoReturn:
        self._fail(f"needs {what} " + (f"before {self._token.text!r}" if self._token.text else "at its end"))

    def _fail(self, reason: str) -> NoReturn:
        example = "write conditions like: year >= 2010 AND label = 'sea'"
        raise SettingsError(f"the filter {one_line(self._where, 60)!r} {one_line(reason, 600)}; {example}")

    def _count(self, what: str, most: int, count: int = 1) -> None:
        self._counts[what] += count
        if self._counts[what] > most:
            self._fail(f"has more than {most} {what}")

    def parsed(self) -> str:
        condition = self._alternatives()
        if self._token.kind != "end":
            self._fail(f"cannot hold {self._token.text!r} there")
        return condition

    def _alternatives(self) -> str:
        parts = [self._conjunction()]
        while self._takes("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else " OR ".join(f"({part})" for part in parts)

    def _conjunction(self) -> str:
        parts = [self._condition()]
        while self._takes("AND"):
            parts.append(self._condition())
        return " AND ".join(parts)

    def _condition(self) -> str:
        is_negated = self._takes("NOT")
        if not is_negated and not self._takes("("):
            return self._comparison()
        self._count("levels", MOST_DEPTH)
        condition = self._condition() if is_negated else self._alternatives()
        self._count("levels", MOST_DEPTH, -1)
        if not is_negated:
            self._require(")")
        return f"NOT ({condition})" if is_negated else f"({condition})"

    def _comparison(self) -> str:
        self._count("conditions", MOST_CONDITIONS)
        if self._is_literal():
            value, sign = self._take(), self._sign()
            if sign is None:
                self._lacks("a comparison with a column")
            return self._compared(self._column(), sign.translate(_FLIPPED), value)
        name = self._column()
        stored, held = self._described(name)
        if self._takes("IS"):
            negation = "NOT " if self._takes("NOT") else ""
            self._require("NULL")
            return f"{stored} IS {negation}NULL"
        if (sign := self._sign()) is not None:
            if self._is_literal():
                return self._compared(name, sign, self._take())
            other = self._column()
            other_stored, other_held = self._described(other)
            if held == _LIST or held.removeprefix("whole ") != other_held.removeprefix("whole "):
                self._misfit(name, other)
            return f"{stored} {sign} {other_stored}"
        negation = "NOT " if self._takes("NOT") else ""
        if self._takes("IN"):
            return negation + self._in(name)
        if self._takes("BETWEEN"):
            least = self._value()
            self._require("AND")
            compared, (first, last) = self._operands(name, [least, self._value()], _ORDERED)
            return f"{compared} {negation}BETWEEN {first} AND {last}"
        for word in ("LIKE", "ILIKE"):
            if self._takes(word):
                pattern = self._value()
                self._count("wildcards (% and _)", MOST_WILDCARDS, sum(map(pattern.text.count, "%_")))
                return f"{stored} {negation}{word} {self._literal(name, pattern, (_TEXT,))}"
        if negation or held != _TRUTH:
            self._lacks(f"a comparison of {name}")
        return stored

    def _value(self) -> _Token:
        if not self._is_literal():
            self._lacks("a value")
        return self._take()

    def _sign(self) -> str | None:
        return _SIGNS[self._take().text] if self._token.kind == "sign" and self._token.text in _SIGNS else None

    def _column(self) -> str:
        kind, text = self._token
        if kind not in ("word", "quoted") or (kind == "word" and text.upper() in _WORDS):
            self._lacks("a column")
        self._take()
        name = text if kind == "word" else text[1:-1].replace(text[0] * 2, text[0])
        if name not in self._columns:
            names = ", ".join(map(_quoted_name, self._columns))
            self._fail(f"names {name!r}, which is no column (a text stands in single quotes); there are {names}")
        return name

    def _described(self, name: str) -> tuple[str, str]:
        """A column as the store writes it, and what it holds."""
        return f"`{self._columns[name].stored}`", kind_name(self._columns[name].kind)

    def _compared(self, name: str, sign: str, value: _Token) -> str:
        stored, (literal,) = self._operands(name, [value], () if sign in ("=", "!=") else _ORDERED)
        if self._described(name)[1] == _LIST:
            return f"{'' if sign == '=' else 'NOT '}array_has({stored}, {literal})"
        return f"{stored} {sign} {literal}"

    def _in(self, name: str) -> str:
        self._require("(")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self._require(")")
        stored, literals = self._operands(name, values)
        listed, is_list = ", ".join(literals), self._described(name)[1] == _LIST
        return f"array_has_any({stored}, [{listed}])" if is_list else f"({stored} IN ({listed}))"

    def _operands(self, name: str, values: list[_Token], kinds: tuple[str, ...] = ()) -> tuple[str, list[str]]:
        """A column and values as the store compares them: a text beside numbers is the number that it holds."""
        stored, held = self._described(name)
        if held == _TEXT and all(value.kind == "number" and math.isfinite(float(value.text)) for value in values):
            return f"TRY_CAST(btrim({stored}) AS DOUBLE)", [repr(float(value.text)) for value in values]
        return stored, [self._literal(name, value, kinds) for value in values]

    def _literal(self, name: str, value: _Token, kinds: tuple[str, ...]) -> str:
        """A value as the store writes it for a column, which holds values of its type, one of ``kinds`` if any."""
        held, text = self._described(name)[1], value.text
        if not kinds or held in kinds:
            if value.kind == "text" and held in (_TEXT, _LIST):
                return text
            if value.kind == "word" and held == _TRUTH and text.upper() != "NULL":
                return text.upper()
            if value.kind == "number" and held == _WHOLE:
                whole = int(text) if text.lstrip("+-").isdigit() and len(text) < 30 else float(text)
                if abs(whole) < 2**63 and whole == int(whole):
                    return str(int(whole))
            if value.kind == "number" and held == _NUMBER and math.isfinite(float(text)):
                return repr(float(text))
        self._misfit(name, text)

    def _misfit(self, name: str, value: str) -> NoReturn:
        self._fail(
            f"compares {one_line(name, 60)}, which holds {self._described(name)[1]}, with {one_line(value, 60)}"
        )


def _quoted_name(name: str) -> str:
    """The name of a column as a filter writes it."""
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name.upper() not in _WORDS
    return name if is_plain else '"' + name.replace('"', '""') + '"'
