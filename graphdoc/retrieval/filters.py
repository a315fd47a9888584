"""Filters that restrict a search by the columns of an index, translated into the store's SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..errors import SettingsError
from ..runtime.text import described, one_line
from .table import Column

# A list of some thousand ids fits.
MOST_CHARACTERS = 100_000
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<column>\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`)"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),])|(?P<end>$))"
)
_WORDS = frozenset(["AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "IS", "NULL", "BETWEEN", "TRUE", "FALSE"])
_LOWEST = str(-(2**63))
# What may stand between a column and the first value that it is compared with, beside signs.
_BETWEEN = ("NOT", "IN", "BETWEEN")


class _Token(NamedTuple):
    kind: str
    text: str


def store_filter(where: object, columns: Mapping[str, Column]) -> str:
    """Translate a filter into the SQL of the store, so that it can be joined to other conditions.

    Nothing but columns, literals, signs of comparison, parentheses and ``AND``, ``OR``, ``NOT``, ``IN``, ``LIKE``,
    ``ILIKE``, ``BETWEEN`` and ``IS NULL`` gets through: no functions, arithmetic or subqueries. In which order, and of
    which types, the store checks. A list of texts equals each of the texts in it. Texts are compared with numbers by
    the numbers that they hold: cells of CSV files are texts.

    Args:
        where: the filter.
        columns: the columns that it can name, by name. Names other than words stand in double quotes.

    Raises:
        SettingsError: it is no text, too long, names an unknown column, or has what is not listed above.

    >>> columns = {"year": Column("field_year", pa.int64()), "tags": Column("field_tags", pa.list_(pa.string()))}
    >>> store_filter("year >= 2010 AND NOT tags = 'sea'", columns)
    "`field_year` >= 2010 AND NOT array_has(`field_tags`, 'sea')"
    """
    if not isinstance(where, str) or not where.strip() or re.search("[\ud800-\udfff\0]", where):
        raise SettingsError(f"the filter is {described(where)}, no text with conditions like: year >= 2010")
    if len(where) > MOST_CHARACTERS:
        raise SettingsError(f"the filter has {len(where):,} characters; {MOST_CHARACTERS:,} are the most")
    return " ".join(_written(list(_tokens(where, columns)), columns))


def no_filter(where: str, reason: str) -> SettingsError:
    """The error that a text is no filter."""
    example = "write conditions like: year >= 2010 AND label = 'sea'"
    return SettingsError(f"the filter {one_line(where, 60)!r} {one_line(reason, 600)}; {example}")


def _tokens(where: str, columns: Mapping[str, Column]) -> Iterator[_Token]:
    """The tokens of a filter: a ``column`` by its name, or ``text``, ``number``, ``word`` or ``sign``."""
    place = depth = 0
    is_value = False
    while (match := _TOKEN.match(where, place)) and match.lastgroup != "end":
        kind = str(match.lastgroup)
        text = {"==": "=", "<>": "!="}.get(match[kind], match[kind])
        if is_value and kind == "number" and text[0] in "+-":
            # This would be arithmetic.
            match = None
            break
        place = match.end()
        if kind == "word" and text.upper() in _WORDS:
            text = text.upper()
        elif kind in ("word", "column"):
            text = text if kind == "word" else text[1:-1].replace(text[0] * 2, text[0])
            kind = "column"
            if text not in columns:
                names = ", ".join(map(_quoted_name, columns))
                reason = f"names {text!r}, which is no column (a text stands in single quotes); there are {names}"
                raise no_filter(where, reason)
        depth += (kind, text) == ("sign", "(")
        depth -= (kind, text) == ("sign", ")")
        if depth < 0:
            break
        is_value = kind in ("column", "number", "text") or text == ")"
        yield _Token(kind, text)
    if match is None:
        raise no_filter(where, f"cannot hold {where[place:].lstrip()[:10]!r}")
    if depth:
        raise no_filter(where, f"needs a {')' if depth > 0 else '('!r}")


def _written(tokens: Sequence[_Token], columns: Mapping[str, Column]) -> Iterator[str]:
    """The tokens in SQL, with functions where a column holds lists of texts, or texts that stand beside numbers."""

    def is_list(name: str) -> bool:
        return bool(pa.types.is_list(columns[name].kind))

    place, end = 0, ")"
    while place < len(tokens):
        used = 1
        match tokens[place : place + 4]:
            case [("column", name), ("sign", "=" | "!=" as sign), ("text", text), *_] if is_list(name):
                yield _has(columns[name], text, sign)
                used = 3
            case [("text", text), ("sign", "=" | "!=" as sign), ("column", name), *_] if is_list(name):
                yield _has(columns[name], text, sign)
                used = 3
            case [("column", name), ("word", "IN"), ("sign", "("), *_] if is_list(name):
                yield f"array_has_any(`{columns[name].stored}`, ["
                used, end = 3, "])"
            case [("column", name), ("word", "NOT"), ("word", "IN"), ("sign", "(")] if is_list(name):
                yield f"NOT array_has_any(`{columns[name].stored}`, ["
                used, end = 4, "])"
            case [("column", name), *_]:
                stored, is_text = f"`{columns[name].stored}`", columns[name].kind == pa.string()
                is_cast = is_text and _is_beside_number(tokens, place, columns)
                # A text that says it is no number is none, and not above all others.
                yield f"NULLIF(TRY_CAST(btrim({stored}) AS DOUBLE), 'NaN')" if is_cast else stored
            case [("sign", ")"), *_]:
                yield end
                end = ")"
            case [("number", text), *_] if not text.lstrip("+-").isdigit():
                # Whole numbers are compared with others of their kind, however they are written.
                number = float(text)
                if number.is_integer():
                    yield str(int(number)) if abs(number) < 2**63 else repr(number)
                else:
                    # As it is, the store refuses it beside whole numbers.
                    yield f"CAST({number!r} AS DOUBLE)"
            case [(_, text), *_]:
                # The store would take the lowest whole number for another kind of number.
                yield f"CAST('{_LOWEST}' AS BIGINT)" if text == _LOWEST else text.removeprefix("+")
        place += used


def _has(column: Column, text: str, sign: str) -> str:
    return f"{'NOT ' if sign == '!=' else ''}array_has(`{column.stored}`, {text})"


def _is_beside_number(tokens: Sequence[_Token], place: int, columns: Mapping[str, Column]) -> bool:
    """Whether what a column is compared with is a number, or a column of numbers."""

    def is_number(token: _Token) -> bool:
        is_column = token.kind == "column"
        return token.kind == "number" or (is_column and columns[token.text].kind in (pa.int64(), pa.float64()))

    after = (token for token in tokens[place + 1 :] if token.kind != "sign" and token.text not in _BETWEEN)
    is_after = place > 1 and tokens[place - 1].kind == "sign" and is_number(tokens[place - 2])
    return is_after or is_number(next(after, _Token("end", "")))


def _quoted_name(name: str) -> str:
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name.upper() not in _WORDS
    return name if is_plain else '"' + name.replace('"', '""') + '"'
