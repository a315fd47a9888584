"""Reading documents from anything that holds them, one at a time."""

from __future__ import annotations

import bisect
import io
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal, cast, get_args

from ...errors import DocumentError, MissingExtraError
from ...runtime.text import described, require_one_of
from ..document import Document
from ..parsing.files import unknown_type
from ..parsing.formats import check_encoding, decode, is_corpus, reading_error, split_suffix, too_large
from ..parsing.rows import Columns, row_id
from ..section import clean_text
from .corpora import read_corpus, read_json_lines
from .folders import ClashingIds, FoundFile, find_files, is_pattern, location_of
from .records import ReadingReport, Record, SeenIds, Skipped, with_class_names

_STANDARD_INPUT = "standard input"

OnError = Literal["skip_in_folders", "skip", "stop"]
OnUnencodable = Literal["skip", "stop"]
LabelFrom = Literal["column", "folder"]


def read_documents(
    sources: Any,
    *,
    columns: Columns | None = None,
    encoding: str = "utf-8",
    text_headings: bool = True,
    label_from: LabelFrom = "column",
    on_error: OnError = "stop",
    report: ReadingReport | None = None,
    unique_ids: bool = True,
) -> Iterator[Document]:
    """Read documents one at a time, never holding more than one of them.

    A source is a file, a folder (all of it, sorted), a glob pattern, ``-`` for standard input (JSON Lines if it starts
    with ``{``, otherwise one plain text), ``corpus.jsonl#id`` for one document of a corpus, a ``datasets.Dataset``, a
    pandas table, a Document, a row (mapping), or any iterable of these.

    A file's document gets the file's name without suffix as its id; in a folder the path relative to it. If several
    would get the same id in that way they keep their suffix; of several sources, files that are listed one by one get
    the path as given, and those of a folder its name in front. Rows without an id get a hash of their content. What is
    the same file is read from one source, the first.

    Args:
        sources: one source or an iterable of sources.
        columns: what the columns of rows are called.
        encoding: how text files are encoded.
        text_headings: whether plain text files are searched for headings.
        label_from: whether labels are values of a column, or names of the folders directly below one that is read.
        on_error: ``stop`` at what cannot be read, or ``skip`` it and list it in the report; ``skip_in_folders`` skips
            what folders and patterns hold, and stops at what is named itself and at ids that occur twice.
        report: is filled while documents are read.
        unique_ids: whether a document with the id of an earlier one is an error.

    Raises:
        DocumentError: something cannot be read, has no text, was read before, or has the id of an earlier document.

    >>> rows = [{"id": "a", "text": "Rice is steamed."}, {"id": "b", "text": "Tides rise."}]
    >>> [document.id for document in read_documents(rows)]
    ['a', 'b']
    """
    require_one_of("on_error", on_error, get_args(OnError))
    require_one_of("label_from", label_from, get_args(LabelFrom))
    check_encoding(encoding)
    report = ReadingReport() if report is None else report
    reading = _Reading(columns or Columns(), encoding, text_headings, label_from, on_error, report, unique_ids)
    return reading.read(sources)


@dataclass
class _Reading:
    columns: Columns
    encoding: str
    text_headings: bool
    label_from: LabelFrom
    on_error: OnError
    report: ReadingReport
    unique_ids: bool
    # The file that is being read, where a folder or pattern holds it, and it was not named itself.
    in_folder: FoundFile | None = None
    seen: SeenIds = field(default_factory=SeenIds)
    files: set[str] = field(default_factory=set)
    # How many documents were read before those of a location.
    added: int = 0
    starts: list[int] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)

    def read(self, sources: Any) -> Iterator[Document]:
        for location, records in self._sources(sources):
            self.starts.append(self.added)
            self.locations.append(location)
            for record in _ending_in_error(location, records):
                document = self._accept(record)
                if document is not None:
                    yield document

    def _accept(self, record: Record) -> Document | None:
        """Make the document of a record and check it; None if there is none and reading goes on."""
        is_read = False
        try:
            document = self._document(record)
            if self.label_from == "folder":
                document = replace(document, label=None if self.in_folder is None else self.in_folder.folder)
            if document.is_empty:
                raise DocumentError(f"document {document.id!r} has no text; leave it out")
            is_read = True
            first = self.seen.add(document.id) if self.unique_ids else None
            if first is not None:
                self.report.duplicate_ids.append(document.id)
                location = self.locations[bisect.bisect_right(self.starts, first) - 1]
                raise DocumentError(f"the id {document.id!r} is taken by a document of {location}; give each its own")
        except (DocumentError, MemoryError) as error:
            if isinstance(error, MemoryError):
                error = too_large()
            is_passed_over = self.on_error == "skip_in_folders" and self.in_folder is not None and not is_read
            if self.on_error != "skip" and not is_passed_over:
                raise DocumentError(f"{record.location}: {error}") from error.__cause__
            self.report.skipped.append(Skipped(record.location, str(error)))
            return None
        self.added += 1
        self.report.documents += 1
        is_row = not isinstance(record.content, Document | DocumentError) and record.default_id is None
        self.report.without_id += is_row and row_id(cast("Mapping[str, Any]", record.content), self.columns) is None
        if self.report.locations is not None:
            self.report.locations[document.id] = record.location
        return document

    def _document(self, record: Record) -> Document:
        content = record.content
        if isinstance(content, DocumentError):
            raise content
        if isinstance(content, Document):
            return content
        id = record.default_id if row_id(content, self.columns) is None else None
        try:
            return Document.from_mapping(content, id=id, columns=self.columns)
        except DocumentError as error:
            # The location that is put in front says more.
            raise DocumentError(str(error).removeprefix("row: ")) from error.__cause__

    def _sources(self, source: Any, clashing: ClashingIds | None = None) -> Iterator[tuple[str, Iterable[Record]]]:
        if isinstance(source, str | PathLike):
            yield from self._path_source(str(source), clashing or ClashingIds())
        elif isinstance(source, Document | Mapping):
            yield from _row_sources([source])
        elif hasattr(source, "iterrows"):
            yield from _row_sources(row.to_dict() for _, row in source.iterrows())
        elif isinstance(source, Iterable) and not isinstance(source, bytes | bytearray):
            listed = ClashingIds.from_sources(source) if isinstance(source, Sequence) else None
            # Rows in a row are one source, so that their places are numbered through.
            rows = with_class_names(source, getattr(getattr(source, "features", None), "to_dict", dict)())
            for is_row, group in itertools.groupby(rows, lambda entry: isinstance(entry, Document | Mapping)):
                if is_row:
                    yield from _row_sources(group)
                else:
                    for entry in group:
                        yield from self._sources(entry, listed)
        else:
            yield _failed("input", f"{described(source)} holds no documents; give paths, rows or documents")

    def _path_source(self, source: str, clashing: ClashingIds) -> Iterator[tuple[str, Iterable[Record]]]:
        if source == "-":
            yield _STANDARD_INPUT, self._standard_input()
            return
        if not source.strip():
            yield _failed("input", f"{source!r} is no name; name a file or a folder, . for the working folder")
            return
        path = Path(source)
        try:
            exists, is_folder = path.exists(), path.is_dir()
        except PermissionError as error:
            yield _failed(source, str(reading_error(error)))
            return
        except (OSError, ValueError):
            exists, is_folder = False, False
        if is_folder or (not exists and is_pattern(source)):
            yield from self._folder_source(source, clashing)
        elif exists:
            yield str(path), self._file(path, clashing.of_file(path))
        else:
            yield source, self._one_of_corpus(source)

    def _folder_source(self, source: str, clashing: ClashingIds) -> Iterator[tuple[str, Iterable[Record]]]:
        try:
            for found in find_files(source):
                if isinstance(found, FoundFile):
                    self.in_folder = found
                    yield str(found.path), self._file(found.path, clashing.of_found(source, found))
                    self.in_folder = None
                else:
                    self.report.ignored.append(found)
        except DocumentError as error:
            yield _failed(source, str(error))

    def _file(self, path: Path, id: str) -> Iterator[Record]:
        if is_corpus(split_suffix(path)[1]):
            yield from read_corpus(path, self.encoding)
            return
        try:
            document = Document._read(path, self.encoding, {"id": id}, text_headings=self.text_headings)
        except MissingExtraError as error:
            # Every file of a kind would be missing: that is left out where it was asked for alone.
            if self.on_error != "skip":
                raise
            raise DocumentError(str(error)) from None
        # From another source, and perhaps with another id.
        location = location_of(path)
        if self.unique_ids and location in self.files:
            raise DocumentError("it was read before, from another source; name it once")
        added = self.added
        yield Record(str(path), document)
        # What was not taken, as its id was, was not read.
        if self.added > added:
            self.files.add(location)

    def _standard_input(self) -> Iterator[Record]:
        stream = cast("IO[bytes]", getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode("utf-8")))
        try:
            opening: list[bytes] = []
            for line in stream:
                opening.append(line)
                if line.strip(b"\xef\xbb\xbf \t\r\n"):
                    break
            lines = itertools.chain(opening, stream)
            if opening and opening[-1].lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
                yield from read_json_lines(lines, _STANDARD_INPUT, self.encoding)
                return
            text = decode(b"".join(lines), self.encoding)
        except OSError as error:
            raise reading_error(error) from None
        yield Record(_STANDARD_INPUT, Document.from_text(text, id="stdin"))

    def _one_of_corpus(self, source: str) -> Iterator[Record]:
        """Find one document of a corpus, named after a ``#``."""
        for position, character in enumerate(source):
            path, wanted = Path(source[:position]), clean_text(source[position + 1 :]).strip()
            if character != "#" or not wanted or not path.is_file():
                continue
            kind = split_suffix(path)[1]
            if not is_corpus(kind):
                reason = "it holds one document" if kind else str(unknown_type(path))
                raise DocumentError(f"{reason}; '#' and an id name a document of a JSON Lines file or table")
            yield from self._find(path, wanted)
            return
        raise DocumentError("there is no such file or folder; check the path")

    def _find(self, path: Path, wanted: str) -> Iterator[Record]:
        for record in read_corpus(path, self.encoding):
            if isinstance(record.content, DocumentError):
                yield record
                continue
            try:
                id = row_id(cast("Mapping[str, Any]", record.content), self.columns) or self._document(record).id
            except DocumentError:
                continue  # a row without a usable id or text is not the wanted one
            if clean_text(id).strip() == wanted:
                yield record
                return
        raise DocumentError(f"there is no document {wanted!r}; check the id, or its column (--column id=NAME)")


def _ending_in_error(location: str, records: Iterable[Record]) -> Iterator[Record]:
    try:
        yield from records
    except DocumentError as error:
        yield Record(location, error)


def _failed(location: str, reason: str) -> tuple[str, list[Record]]:
    return location, [Record(location, DocumentError(reason))]


def _row_sources(rows: Iterable[Document | Mapping[str, Any]]) -> Iterator[tuple[str, Iterable[Record]]]:
    yield "the given rows", (Record(f"row {number}", _checked(row)) for number, row in enumerate(rows, start=1))


def _checked(row: Document | Mapping[str, Any]) -> Document | Mapping[str, Any] | DocumentError:
    if type(row).__name__ in ("DatasetDict", "IterableDatasetDict"):
        splits = ", ".join(map(str, cast("Mapping[str, Any]", row)))
        return DocumentError(f"it is a dictionary of data sets; choose one of its splits ({splits})")
    return row
