"""Filters that restrict a search by the columns of an index: one small grammar, translated into the store's SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from ..errors import SettingsError
from ..runtime.text import described, one_line
from .table import Column, kind_name

# A list of some thousand ids fits; thousands of conditions or wildcards would keep the store busy for minutes.
MOST_CHARACTERS, MOST_CONDITIONS, MOST_WILDCARDS, MOST_DEPTH = 100_000, 200, 100, 20
_MOST_NAMED = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`)"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),])|(?P<end>$))"
)
_SIGNS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_FLIPPED = str.maketrans("<>", "><")
_WORDS = frozenset(["AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "IS", "NULL", "BETWEEN", "TRUE", "FALSE"])
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
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
    if not isinstance(where, str) or not where.strip():
        raise SettingsError(f"the filter is {described(where)}; write it like: year >= 2010, or leave it out")
    if len(where) > MOST_CHARACTERS:
        raise SettingsError(f"the filter has {len(where):,} characters; {MOST_CHARACTERS:,} are the most")
    if re.search("[\ud800-\udfff\0]", where):
        raise SettingsError(f"the filter {one_line(where, 60)!r} holds a character that no text has")
    return _Parser(where, columns).parsed()


class _Parser:
    """Recursive descent over the tokens of one filter, which gives SQL."""

    def __init__(self, where: str, columns: Mapping[str, Column]) -> None:
        self._where, self._columns = where, columns
        self._tokens = self._read()
        self._next = self._depth = self._conditions = self._wildcards = 0

    def parsed(self) -> str:
        condition = self._alternatives()
        if self._token.kind != "end":
            self._fail(f"cannot hold {one_line(self._token.text, 60)!r} there")
        return condition

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
    def _is_literal(self) -> bool:
        kind, text = self._token
        return kind in ("text", "number") or (kind == "word" and text.upper() in ("TRUE", "FALSE", "NULL"))

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
            self._lacks(sign)

    def _lacks(self, what: str) -> NoReturn:
        text = self._token.text
        self._fail(f"needs {what} " + (f"before {one_line(text, 60)!r}" if text else "at its end"))

    def _fail(self, reason: str) -> NoReturn:
        raise SettingsError(
            f"the filter {one_line(self._where, 60)!r} {reason}; write conditions like: year >= 2010 AND label = 'sea'"
        )

    def _alternatives(self) -> str:
        parts = [self._conditions_of_all()]
        while self._takes("OR"):
            parts.append(self._conditions_of_all())
        return parts[0] if len(parts) == 1 else " OR ".join(f"({part})" for part in parts)

    def _conditions_of_all(self) -> str:
        parts = [self._condition()]
        while self._takes("AND"):
            parts.append(self._condition())
        return " AND ".join(parts)

    def _condition(self) -> str:
        is_negated = self._takes("NOT")
        if not is_negated and not self._takes("("):
            return self._comparison()
        self._depth += 1
        if self._depth > MOST_DEPTH:
            self._fail(f"is nested more than {MOST_DEPTH} deep")
        condition = self._condition() if is_negated else self._alternatives()
        self._depth -= 1
        if not is_negated:
            self._require(")")
        return f"NOT ({condition})" if is_negated else f"({condition})"

    def _comparison(self) -> str:
        self._conditions += 1
        if self._conditions > MOST_CONDITIONS:
            self._fail(f"has more than {MOST_CONDITIONS} conditions")
        if self._is_literal:
            value, sign = self._take(), self._sign()
            if sign is None:
                self._fail(f"compares {one_line(value.text, 60)} with no column")
            return self._compared(self._column(), sign.translate(_FLIPPED), value)
        name = self._column()
        stored, held = self._described(name)
        if self._takes("IS", "NULL"):
            return f"{stored} IS NULL"
        if self._takes("IS", "NOT", "NULL"):
            return f"{stored} IS NOT NULL"
        if (sign := self._sign()) is not None:
            return self._compared(name, sign, self._take()) if self._is_literal else self._beside(name, sign)
        negation = "NOT " if self._takes("NOT") else ""
        if self._takes("IN"):
            return negation + self._in(name)
        if self._takes("BETWEEN"):
            least = self._value()
            self._require("AND")
            compared, (first, last) = self._operands(name, (least, self._value()), _ORDERED)
            return f"{compared} {negation}BETWEEN {first} AND {last}"
        for word in ("LIKE", "ILIKE"):
            if self._takes(word):
                return f"{stored} {negation}{word} {self._pattern(name)}"
        if negation or held != _TRUTH:
            self._lacks(f"a comparison of {one_line(name, 60)}")
        return stored

    def _value(self) -> _Token:
        if not self._is_literal:
            self._lacks("a value")
        return self._take()

    def _sign(self) -> str | None:
        return _SIGNS[self._take().text] if self._token.kind == "sign" and self._token.text in _SIGNS else None

    def _column(self) -> str:
        kind, text = self._token
        if kind not in ("word", "quoted") or (kind == "word" and text.upper() in _WORDS):
            self._lacks("a column")
        self._take()
        if kind == "word" and self._token.text == "(":
            self._fail(f"calls {one_line(text, 60)}, and functions are not for filters")
        name = text if kind == "word" else text[1:-1].replace(text[0] * 2, text[0])
        if name not in self._columns:
            is_value = self._next > 1 and self._tokens[self._next - 2].text in _SIGNS
            hint = f"a text stands in single quotes: '{one_line(name, 60)}'; " if is_value else ""
            names = [one_line(_quoted_name(known), 60) for known in [*self._columns][:_MOST_NAMED]]
            more = len(self._columns) - len(names)
            raise SettingsError(
                f"the filter names {one_line(name, 60)!r}, which is no column; {hint}there are {', '.join(names)}"
                + (f" and {more:,} more" if more else "")
            )
        return name

    def _described(self, name: str) -> tuple[str, str]:
        """A column as the store writes it, and what it holds."""
        return f"`{self._columns[name].stored}`", kind_name(self._columns[name].kind)

    def _beside(self, name: str, sign: str) -> str:
        """A comparison of two columns."""
        other = self._column()
        (stored, held), (other_stored, other_held) = self._described(name), self._described(other)
        if held == _LIST or held.removeprefix("whole ") != other_held.removeprefix("whole "):
            self._misfit(name, other)
        return f"{stored} {sign} {other_stored}"

    def _compared(self, name: str, sign: str, value: _Token) -> str:
        stored, (literal,) = self._operands(name, (value,), () if sign in ("=", "!=") else _ORDERED)
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

    def _pattern(self, name: str) -> str:
        value = self._value()
        self._wildcards += sum(map(value.text.count, "%_"))
        if self._wildcards > MOST_WILDCARDS:
            self._fail(f"has more than {MOST_WILDCARDS} wildcards (% and _)")
        return self._literal(name, value, (_TEXT,))

    def _operands(self, name: str, values: Sequence[_Token], kinds: Sequence[str] = ()) -> tuple[str, list[str]]:
        """A column and values as the store compares them: a text beside numbers is the number that it holds."""
        stored, held = self._described(name)
        if held == _TEXT and all(value.kind == "number" and math.isfinite(float(value.text)) for value in values):
            return f"TRY_CAST(btrim({stored}) AS DOUBLE)", [repr(float(value.text)) for value in values]
        return stored, [self._literal(name, value, kinds) for value in values]

    def _literal(self, name: str, value: _Token, kinds: Sequence[str] = ()) -> str:
        """A value as the store writes it for a column, which holds values of its type, one of ``kinds`` if any."""
        held, text = self._described(name)[1], value.text
        if value.kind == "word" and text.upper() == "NULL":
            self._fail(f"compares {one_line(name, 60)} with NULL; write IS NULL")
        if not kinds or held in kinds:
            if value.kind == "text" and held in (_TEXT, _LIST):
                return text
            if value.kind == "word" and held == _TRUTH:
                return text.upper()
            if value.kind == "number" and held == _WHOLE:
                whole = int(text) if text.lstrip("+-").isdigit() and len(text) < 30 else float(text)
                if abs(whole) < 2**63 and whole == int(whole):
                    return str(int(whole))
            if value.kind == "number" and held == _NUMBER and math.isfinite(float(text)):
                return repr(float(text))
        self._misfit(name, text)

    def _misfit(self, name: str, value: str) -> NoReturn:
        raise SettingsError(
            f"the filter does not fit its columns: {one_line(name, 60)} holds {self._described(name)[1]}, and is "
            f"compared with {one_line(value, 60)}"
        )


def _quoted_name(name: str) -> str:
    """The name of a column as a filter writes it."""
    is_plain = _PLAIN_NAME.fullmatch(name) and name.upper() not in _WORDS
    return name if is_plain else '"' + name.replace('"', '""') + '"'
