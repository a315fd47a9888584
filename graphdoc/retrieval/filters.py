"""Fields of documents, their metadata as typed columns of an index, and filters that restrict a search by them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.section import clean_text
from ..errors import DocumentError, SettingsError
from ..runtime.text import described, one_line

# Every change touches every column of the table.
MOST_FIELDS = 1_000
# Before the names of columns that hold fields; no other column of the table begins so.
_PREFIX = "field_"
# The columns that every index has and a filter can name.
_EVERYWHERE = ("id", "title", "label", "heading", "text")
_HELD = {"bool": "true or false", "int64": "whole numbers", "double": "numbers", "string": "text"}
_KINDS: tuple[tuple[type, Any], ...] = (
    (bool, pa.bool_()),
    (int, pa.int64()),
    (float, pa.float64()),
    (str, pa.string()),
)
_TEXTS = pa.list_(pa.string())
# A list of some thousand ids fits; thousands of conditions or wildcards would keep the store busy for minutes.
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


class Column(NamedTuple):
    """A column that a filter can name.

    Args:
        stored: its name in the table: small letters, digits and ``_``.
        kind: its Arrow type.
    """

    stored: str
    kind: Any


def field_columns(schema: Any) -> dict[str, Column]:
    """The columns of fields by the names that documents give them.

    Args:
        schema: the columns of an index (an Arrow schema).
    """
    return {_field_name(one.name): Column(one.name, one.type) for one in schema if one.name.startswith(_PREFIX)}


def filter_columns(schema: Any) -> dict[str, Column]:
    """The columns that a filter can name: fields, and of the table's own those that no field hides.

    Args:
        schema: the columns of an index (an Arrow schema).
    """
    fields = field_columns(schema)
    return fields | {name: Column(name, schema.field(name).type) for name in _EVERYWHERE if name not in fields}


def kind_name(kind: Any) -> str:
    """What a column of an Arrow type holds, in words.

    >>> kind_name(pa.string()), kind_name(pa.list_(pa.string()))
    ('text', 'lists of texts')
    """
    if pa.types.is_list(kind):
        return "lists of texts"
    return "whole numbers" if pa.types.is_integer(kind) else _HELD.get(str(kind), str(kind))


class Fields:
    """The fields of documents in an index.

    A field holds true or false, whole numbers, numbers, text, or lists of text. The first document that has it decides
    its type, and a value of another type is an error. Deeper values, and numbers that no column can hold (NaN and
    infinity, whole numbers from 2^63), are kept with the document, and cannot be searched by.

    Args:
        schema: columns of the table, with those of fields that are there already (an Arrow schema).
    """

    def __init__(self, schema: Any) -> None:
        self._types: dict[str, Any] = {name: column.kind for name, column in field_columns(schema).items()}

    def new(self, document: Document) -> dict[str, Any]:
        """Columns that a document needs and the index has not, with their Arrow types; they are counted as there.

        Raises:
            DocumentError: the fields become too many.
        """
        added = {
            name: kind
            for name, value in _items(document)
            if name not in self._types and (kind := _kind_of(value)) is not None
        }
        total = len(self._types) + len(added)
        if total > MOST_FIELDS:
            raise DocumentError(
                f"document {document.id!r}: with its metadata the index would have {total:,} fields, more than "
                f"{MOST_FIELDS:,}; put what no search is restricted by into one field"
            )
        self._types |= added
        return {_stored_name(name): kind for name, kind in added.items()}

    def values(self, document: Document) -> dict[str, Any]:
        """The fields of a document by column.

        Raises:
            DocumentError: a value does not fit the type of its column.
        """
        return {
            _stored_name(name): _fitted(document, name, value, self._types[name])
            for name, value in _items(document)
            if name in self._types and _kind_of(value) is not None
        }


def _items(document: Document) -> Iterator[tuple[str, Any]]:
    return ((str(name), value) for name, value in document.metadata.items())


def _stored_name(name: str) -> str:
    """The column of a field, the same in every index: whatever people call it, the store sees plain letters."""
    return _PREFIX + re.sub("[^a-z0-9]", lambda match: f"_{ord(match[0]):x}_", name)


def _field_name(stored: str) -> str:
    return re.sub("_([0-9a-f]+)_", lambda match: chr(int(match[1], 16)), stored.removeprefix(_PREFIX))


def numbers_without_column(document: Document) -> int:
    """How many numbers among the metadata of a document no column can hold."""
    return sum(map(_has_no_column, document.metadata.values()))


def _has_no_column(value: Any) -> bool:
    if isinstance(value, int):
        return not -(2**63) <= value < 2**63
    return isinstance(value, float) and not math.isfinite(value)


def plain_value(value: Any) -> Any:
    """A value of a row as JSON holds it."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _kind_of(value: Any) -> Any:
    """The Arrow type of a value; None where no column can hold it."""
    if isinstance(value, tuple | list | frozenset | set):
        return _TEXTS if value and all(isinstance(one, str) for one in value) else None
    if isinstance(value, Mapping) or _has_no_column(value):
        return None
    if hasattr(value, "isoformat"):
        return pa.string()
    return next((kind for python, kind in _KINDS if isinstance(value, python)), None)


def _fitted(document: Document, name: str, value: Any, kind: Any) -> Any:
    own = _kind_of(value)
    if kind == _TEXTS and own in (_TEXTS, pa.string()):
        values = sorted(value) if isinstance(value, frozenset | set) else value
        return [clean_text(one) for one in ([str(plain_value(value))] if own == pa.string() else values)]
    if pa.types.is_string(kind) and own in (pa.int64(), pa.float64(), pa.bool_()):
        return str(value)
    if pa.types.is_string(kind) and own in (_TEXTS, pa.string()):
        return clean_text("; ".join(value) if own == _TEXTS else str(plain_value(value)))
    if own == kind:
        return plain_value(value)
    if pa.types.is_floating(kind) and pa.types.is_integer(own):
        return float(value)
    if (
        pa.types.is_integer(kind)
        and pa.types.is_floating(own)
        and value.is_integer()
        and not _has_no_column(int(value))
    ):
        return int(value)
    raise DocumentError(
        f"document {document.id!r}: its {one_line(name, 60)} is {described(value)}, but the index holds "
        f"{kind_name(kind)} there; give it a value of this type, or leave it out"
    )


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
            self._fail(f"cannot hold {one_line(self._token.text, 60)!r} there")
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
    def _before(self) -> str:
        return f"before {one_line(self._token.text, 60)!r}" if self._token.text else "at its end"

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
            self._fail(f"needs {sign} {self._before}")

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
            self._fail(f"compares {name} with nothing {self._before}")
        return stored

    @property
    def _is_literal(self) -> bool:
        kind, text = self._token
        return kind in ("text", "number") or (kind == "word" and text.upper() in ("TRUE", "FALSE", "NULL"))

    def _value(self) -> _Token:
        if not self._is_literal:
            self._fail(f"needs a value {self._before}")
        return self._take()

    def _sign(self) -> str | None:
        return _SIGNS[self._take().text] if self._token.text in _SIGNS and self._token.kind == "sign" else None

    def _column(self) -> str:
        kind, text = self._token
        if kind not in ("word", "quoted") or (kind == "word" and text.upper() in _WORDS):
            self._fail(f"needs a column {self._before}")
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
