"""Files of rows: JSON Lines, JSON, CSV and Parquet, read row by row."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any

from ...errors import DocumentError
from ...runtime.text import described
from ..parsing.formats import decode, decoding_error, lines_of, open_bytes, read_whole, split_suffix, too_large
from ..parsing.outline import joined_lines
from .records import Record, with_class_names

# The csv module's own limit of 128 KB is below the length of a book. This one stops an unclosed quotation mark from
# taking in the rest of a large file.
_LONGEST_CELL = 2**28
_PARQUET_ROWS = 64


def read_corpus(path: Path, encoding: str) -> Iterator[Record]:
    """Read the rows of a JSON Lines, JSON, CSV, TSV or Parquet file one after the other.

    Yields:
        A record for every row; for a broken row, and for a file that cannot be read on, a record with the reason.
    """
    kind = split_suffix(path)[1]
    found = False
    try:
        for record in _records(path, kind, encoding):
            found = True
            yield record
    except (DocumentError, MemoryError) as error:
        reason = error if isinstance(error, DocumentError) else too_large("a row of it does not fit into memory")
        yield Record(str(path), reason)
        return
    if not found:
        yield Record(str(path), DocumentError("it has no rows; leave it out"))


def _records(path: Path, kind: str, encoding: str) -> Iterator[Record]:
    if kind == "json":
        yield from _read_json(path, encoding)
        return
    with open_bytes(path) as stream:
        if kind == "parquet":
            yield from _read_parquet(stream, path)
        elif kind == "jsonl":
            yield from read_json_lines(lines_of(stream), str(path), encoding)
        else:
            yield from _read_table(lines_of(stream), str(path), "\t" if kind == "tsv" else ",", encoding)


def read_json_lines(lines: Iterable[bytes], source: str, encoding: str) -> Iterator[Record]:
    """Read JSON Lines.

    Yields:
        A record for every line that is not blank.

    Raises:
        DocumentError: the encoding does not allow to read line by line.
    """
    for number, offset, line in _numbered(lines, encoding):
        location = f"{source}:{number}"
        try:
            text = line.decode(encoding)
            if text.strip():
                yield _row_record(location, _parse_json(text, "mend the line"))
        except UnicodeDecodeError as error:
            yield Record(location, decoding_error(error, encoding, offset))
        except DocumentError as error:
            yield Record(location, error)


def _parse_json(text: str, fix: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        location = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise DocumentError(f"invalid JSON at {location}: {error.msg.removesuffix(' at')}; {fix}") from None
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"invalid JSON: {error}; {fix}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        doubled = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise DocumentError(f"it names {doubled!r} twice, and JSON keeps the last value alone; rename one of them")
    return row


def _row_record(location: str, row: Any, default_id: str | None = None) -> Record:
    if isinstance(row, dict):
        return Record(location, row, default_id)
    reason = f"a JSON object is expected, not {described(row)}; write one object per document"
    return Record(location, DocumentError(reason))


def _numbered(lines: Iterable[bytes], encoding: str) -> Iterator[tuple[int, int, bytes]]:
    if "\n".encode(encoding) != b"\n":
        raise DocumentError(f"it cannot be read line by line as {encoding}; save it as UTF-8")
    offset = 0
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in line:
            raise DocumentError("it is UTF-16, which cannot be read line by line; save it as UTF-8")
        if number == 1 and line.startswith(codecs.BOM_UTF8):
            line, offset = line.removeprefix(codecs.BOM_UTF8), len(codecs.BOM_UTF8)
        yield number, offset, line
        offset += len(line)


def _read_json(path: Path, encoding: str) -> Iterator[Record]:
    """Read a JSON object as one row, or a list of objects, which is read whole."""
    fix = "mend it, or name the file .jsonl if every line is an object"
    content = _parse_json(decode(read_whole(path), encoding), fix)
    if not isinstance(content, list):
        yield _row_record(str(path), content, split_suffix(path)[0])
        return
    for number, row in enumerate(content, start=1):
        yield _row_record(f"{path}: item {number}", row)


class _TableLines:
    """Feeds lines to the csv module, those that are no text with stand-ins, so that it keeps its place in a cell."""

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


def _read_table(raw: Iterator[bytes], source: str, delimiter: str, encoding: str) -> Iterator[Record]:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    head: list[bytes] = []
    for line in raw:
        head.append(line)
        if line.strip():
            break
    plain = _QUOTED.sub("", head[-1].decode(encoding, "replace")) if head else ""
    lines = _TableLines(chain(head, raw), encoding)
    # What stands between the names of a header: the most frequent sign outside of quotation marks.
    sign = delimiter if delimiter == "\t" else max(f"{delimiter};\t|", key=plain.count)
    rows = csv.reader(lines, delimiter=sign, skipinitialspace=f"{sign} " in plain, strict=True)
    header: list[str] | None = None
    while True:
        location = f"{source}:{rows.line_num + 1}"
        try:
            row = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            reason = f"invalid table: {joined_lines(str(error))}; check the quotation marks from here on"
            yield Record(location, DocumentError(reason))
            continue
        undecodable, lines.error = lines.error, None
        if undecodable is not None:
            if header is None:
                raise undecodable
            yield Record(location, undecodable)
        elif not any(row) or (header is None and row == ["sep=", ""]):
            continue
        elif header is None:
            header = [name.strip() for name in row]
            doubled = sorted(name for name, count in Counter(header).items() if count > 1)
            if doubled:
                raise DocumentError(f"its header names {doubled[0]!r} twice; rename one of the columns")
        elif len(row) != len(header):
            yield Record(location, DocumentError(f"it has {len(row)} cells, the header {len(header)}; mend the row"))
        else:
            # An empty cell is how a table says that there is no value.
            yield Record(location, {name: cell if cell else None for name, cell in zip(header, row, strict=True)})


def _read_parquet(stream: IO[bytes], path: Path) -> Iterator[Record]:
    import pyarrow  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]

    # Texts that are no UTF-8 and dates beyond the year 9999 raise errors of Python.
    broken = (pyarrow.ArrowException, OSError, ValueError, OverflowError)
    features: dict[str, Any] = {}
    try:
        file = pyarrow.parquet.ParquetFile(stream, pre_buffer=False)
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except broken as error:
        raise DocumentError(f"it cannot be read as Parquet: {joined_lines(str(error))}; write it again") from None
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        features = json.loads((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    end = 0
    # Damage to one group of rows leaves the others readable.
    for group, size in enumerate(sizes):
        number, end = end, end + size
        try:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS, row_groups=[group]):
                for row in with_class_names(batch.to_pylist(), features):
                    number += 1
                    yield Record(f"{path}: row {number}", row)
        except broken as error:
            reason = f"they cannot be read as Parquet: {joined_lines(str(error))}; write the file again"
            yield Record(f"{path}: rows {number + 1} to {end}", DocumentError(reason))
