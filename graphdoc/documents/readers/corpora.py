"""Files of rows: JSON Lines, JSON, CSV and Parquet, read row by row."""

from __future__ import annotations

import codecs
import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

from ...errors import DocumentError
from ...runtime.text import described
from ..parsing.formats import decoding_error, lines_of, open_bytes, split_suffix, too_large
from .records import Record

# The csv module's own limit of 128 KB is below the length of a book. This one stops an unclosed quotation mark from
# taking in the rest of a large file.
_LONGEST_CELL = 2**28
_JSON_BLOCK = 2**20
_PARQUET_ROWS = 64


def read_corpus(path: Path, encoding: str) -> Iterator[Record]:
    """Read the rows of a file one after the other.

    Args:
        path: a JSON Lines, JSON, CSV, TSV or Parquet file.
        encoding: how it is encoded, if it is a text file.

    Yields:
        A record for every row; for a broken row, and for a file that cannot be read on, a record with the reason.
    """
    stem, kind = split_suffix(path)
    found = False
    try:
        for record in _read_parquet(path) if kind == "parquet" else _read_text_corpus(path, kind, stem, encoding):
            found = True
            yield record
    except (DocumentError, MemoryError) as error:
        yield Record(
            str(path), too_large("a row of it does not fit into memory") if isinstance(error, MemoryError) else error
        )
        return
    if not found:
        yield Record(str(path), DocumentError("it has no rows; leave it out"))


def _read_text_corpus(path: Path, kind: str, stem: str, encoding: str) -> Iterator[Record]:
    with open_bytes(path) as stream:
        match kind:
            case "jsonl":
                yield from read_json_lines(lines_of(stream), str(path), encoding)
            case "json":
                yield from _read_json(stream, str(path), stem, encoding)
            case _:
                yield from _read_table(stream, str(path), "\t" if kind == "tsv" else ",", encoding)


def read_json_lines(lines: Iterable[bytes], source: str, encoding: str) -> Iterator[Record]:
    """Read JSON Lines.

    Args:
        lines: the lines as bytes.
        source: name of the file.
        encoding: how it is encoded.

    Yields:
        A record for every line that is not blank.

    Raises:
        DocumentError: the encoding does not allow to read line by line.
    """
    for number, offset, line in _numbered(lines, encoding):
        place = f"{source}:{number}"
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            yield Record(place, decoding_error(error, encoding, offset))
            continue
        if not text.strip():
            continue
        try:
            row = json.loads(text, object_pairs_hook=_object)
        except json.JSONDecodeError as error:
            yield Record(
                place,
                DocumentError(f"invalid JSON at column {error.colno}: {error.msg.removesuffix(' at')}; mend the line"),
            )
        except (ValueError, RecursionError) as error:
            yield Record(place, DocumentError(f"invalid JSON: {' '.join(str(error).split())}; mend the line"))
        else:
            yield _row_record(place, row)


def _row_record(place: str, row: Any, default_id: str | None = None) -> Record:
    if isinstance(row, _DoubledKey):
        reason = f"it names {row.key!r} twice, and JSON keeps the last value alone; rename one of them"
        return Record(place, DocumentError(reason))
    if isinstance(row, dict):
        return Record(place, row, default_id)
    reason = f"a JSON object is expected, not {described(row)}; write one object per document"
    return Record(place, DocumentError(reason))


class _DoubledKey(dict[str, Any]):
    """A JSON object in which a key stands twice, or that holds such an object."""

    key = ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    key = None
    if len(row) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        key = next(name for name in row if counts[name] > 1)
    for value in row.values():
        for inner in value if type(value) is list else (value,):
            if type(inner) is _DoubledKey:
                key = inner.key
    if key is None:
        return row
    doubled = _DoubledKey(row)
    doubled.key = key
    return doubled


def _numbered(lines: Iterable[bytes], encoding: str) -> Iterator[tuple[int, int, bytes]]:
    """Line numbers from 1, byte offsets and lines."""
    if "\n".encode(encoding) != b"\n":
        raise DocumentError(f"it cannot be read line by line as {encoding}; save it as UTF-8")
    offset = 0
    for number, line in enumerate(lines, start=1):
        if number == 1:
            if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in line:
                raise DocumentError("it is UTF-16, which cannot be read line by line; save it as UTF-8")
            if line.startswith(codecs.BOM_UTF8):
                line = line.removeprefix(codecs.BOM_UTF8)
                offset = len(codecs.BOM_UTF8)
        yield number, offset, line
        offset += len(line)


def _read_json(stream: IO[bytes], source: str, stem: str, encoding: str) -> Iterator[Record]:
    """Read a JSON object as one row, or a JSON list row by row without holding it."""
    buffer = _JsonBuffer(stream, encoding)
    opening = buffer.next_character()
    if opening == "{":
        yield _row_record(source, buffer.next_value(), stem)
        if buffer.next_character():
            yield Record(
                f"{source}:{buffer.line}",
                DocumentError(
                    "invalid JSON: more follows the first object; name the file .jsonl if it has one per line"
                ),
            )
        return
    if opening != "[":
        raise DocumentError("it holds no JSON object or list; write an object per document")
    buffer.skip_character()
    for number in itertools.count(1):
        following = buffer.next_character()
        if following == "]":
            buffer.skip_character()
            if buffer.next_character():
                raise DocumentError(f"invalid JSON at line {buffer.line}: more follows the list; the rest is not read")
            return
        if number > 1:
            if following != ",":
                raise DocumentError(f"invalid JSON at line {buffer.line}: ',' or ']' expected; the rest is not read")
            buffer.skip_character()
            buffer.next_character()
        yield _row_record(f"{source}: item {number}", buffer.next_value())


class _JsonBuffer:
    """Decodes the values in a JSON text one at a time, reading on only as far as needed."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self.line = 1
        self._stream = stream
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
        self._values = json.JSONDecoder(object_pairs_hook=_object)
        self._text = ""
        self._position = 0
        self._offset = 0
        self._ended = False

    def next_character(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            end = self._position
            while end < len(self._text) and self._text[end] in " \t\r\n":
                end += 1
            self._advance(end)
            if end < len(self._text):
                return self._text[end]
            if self._ended:
                return ""
            self._read(_JSON_BLOCK)

    def skip_character(self) -> None:
        self._advance(self._position + 1)

    def next_value(self) -> Any:
        """Decode the value that starts at the next character."""
        while True:
            try:
                value, end = self._values.raw_decode(self._text, self._position)
            except (ValueError, RecursionError) as error:
                if not self._ended and not isinstance(error, RecursionError):
                    # Doubling keeps the work of decoding a long value again and again linear.
                    self._read(max(_JSON_BLOCK, len(self._text) - self._position))
                    continue
                line, reason = self.line, " ".join(str(error).split())
                if isinstance(error, json.JSONDecodeError):
                    line += self._text.count("\n", self._position, error.pos)
                    reason = error.msg
                elif isinstance(error, RecursionError):
                    reason = "it is nested too deeply"
                raise DocumentError(f"invalid JSON at line {line}: {reason}; the rest is not read") from None
            self._advance(end)
            return value

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._position, end)
        self._position = end

    def _read(self, size: int) -> None:
        block = self._stream.read(size)
        try:
            text = self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            raise decoding_error(error, self._encoding, self._offset + len(block) - len(error.object)) from None
        except UnicodeError as error:
            raise decoding_error(error, self._encoding) from None
        self._offset += len(block)
        self._text = self._text[self._position :] + text
        self._position = 0
        self._ended = not block


class _TableLines:
    """Feeds lines to the csv module, which counts them, and remembers the first bytes that are no text.

    An undecodable line is passed on with stand-ins, so that the module keeps its place in a cell of several lines.
    """

    def __init__(self, lines: Iterable[bytes], encoding: str) -> None:
        self._lines = _numbered(lines, encoding)
        self._encoding = encoding
        self.error: DocumentError | None = None

    def __iter__(self) -> _TableLines:
        return self

    def __next__(self) -> str:
        _, offset, line = next(self._lines)
        try:
            return line.decode(self._encoding)
        except UnicodeDecodeError as error:
            self.error = self.error or decoding_error(error, self._encoding, offset)
            return line.decode(self._encoding, "replace")


_QUOTED = re.compile(r'"[^"]*"')


def _delimiter_of(header: str, usual: str) -> str:
    """What stands between the names of a header: the most frequent sign outside of quotation marks."""
    plain = _QUOTED.sub("", header)
    return usual if usual == "\t" else max(f"{usual};\t|", key=plain.count)


def _read_table(stream: IO[bytes], source: str, delimiter: str, encoding: str) -> Iterator[Record]:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    raw = lines_of(stream)
    head: list[bytes] = []
    for line in raw:
        head.append(line)
        if line.strip():
            break
    first = head[-1].decode(encoding, "replace") if head else ""
    lines = _TableLines(chain(head, raw), encoding)
    rows = csv.reader(lines, delimiter=_delimiter_of(first, delimiter), strict=True)
    header: list[str] | None = None
    while True:
        place = f"{source}:{rows.line_num + 1}"
        try:
            row = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            reason = " ".join(str(error).split())
            yield Record(place, DocumentError(f"invalid table: {reason}; check the quotation marks from this row on"))
            continue
        undecodable, lines.error = lines.error, None
        if undecodable is not None:
            if header is None:
                raise undecodable
            yield Record(place, undecodable)
        elif not any(row):
            continue
        elif header is None:
            header = [name.strip() for name in row]
            doubled = sorted(name for name, count in Counter(header).items() if count > 1)
            if doubled:
                raise DocumentError(f"its header names {doubled[0]!r} twice; rename one of the columns")
        elif len(row) != len(header):
            yield Record(place, DocumentError(f"it has {len(row)} cells, the header {len(header)}; mend the row"))
        else:
            # An empty cell is how a table says that there is no value.
            yield Record(place, {name: cell if cell else None for name, cell in zip(header, row, strict=True)})


def _read_parquet(path: Path) -> Iterator[Record]:
    import pyarrow  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]

    # Texts that are no UTF-8 and dates beyond the year 9999 raise errors of Python.
    broken = (pyarrow.ArrowException, OSError, ValueError, OverflowError)
    with open_bytes(path) as stream:
        try:
            file = pyarrow.parquet.ParquetFile(stream, pre_buffer=False)
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        except broken as error:
            reason = " ".join(str(error).split())
            raise DocumentError(f"it cannot be read as Parquet: {reason}; write it again") from None
        end = 0
        # Damage to one group of rows leaves the others readable.
        for group, size in enumerate(sizes):
            number, end = end, end + size
            try:
                for batch in file.iter_batches(batch_size=_PARQUET_ROWS, row_groups=[group]):
                    for row in batch.to_pylist():
                        number += 1
                        yield Record(f"{path}: row {number}", row)
            except broken as error:
                reason = " ".join(str(error).split())
                yield Record(
                    f"{path}: rows {number + 1} to {end}",
                    DocumentError(f"they cannot be read as Parquet: {reason}; write the file again"),
                )
