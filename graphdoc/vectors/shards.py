"""Shards: Parquet files of vectors, each with a record of the documents it was made of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.readers import Skipped
from ..errors import OutputError
from ..inference.pipeline import Level
from ..runtime.files import file_checksum, writing_error
from ..segmentation.spans import Coverage, SegmentedDocument

if TYPE_CHECKING:
    from torch import Tensor

FORMAT: Final = "graphdoc vectors"
FORMAT_VERSION: Final = 1
METADATA_KEY = b"graphdoc"
ROWS_PER_GROUP = 4096
# Levels whose parts are numbered in their document.
_NUMBERED = ("passage", "sentence")


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of vectors.

    Args:
        file: its name.
        read: documents of the input it was made of, the skipped ones among them.
        rows: vectors in it.
        input_hash: hash of those documents (:class:`InputHash`).
        coverage: what of them was encoded.
        skipped: documents among them that were not encoded.
        checksum: BLAKE2b hash of the file, 32 bytes.
    """

    file: str
    read: int
    rows: int
    input_hash: str
    coverage: Coverage
    skipped: tuple[Skipped, ...]
    checksum: str

    @classmethod
    def of(cls, file: str, record: Mapping[str, Any], checksum: str) -> Shard:
        """The shard that a record describes (see :func:`shard_record`)."""
        return cls(
            file=file,
            read=record["read"],
            rows=record["rows"],
            input_hash=record["input_hash"],
            coverage=Coverage.from_dict(record["coverage"]),
            skipped=tuple(Skipped(**entry) for entry in record["skipped"]),
            checksum=checksum,
        )


class InputHash:
    """Hash of all that vectors read of documents, and that is written beside them: id, title, headings and texts."""

    def __init__(self) -> None:
        self.documents = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, document: Document) -> None:
        """Count a document in."""
        self.documents += 1
        self._add(document.id)
        self._add(document.title)
        for section in document.sections:
            self._add(section.heading)
            self._add(section.text)
        self._hash.update(b"\xff")

    def count_unread(self) -> None:
        """Count something in that is no document."""
        self.documents += 1

    def hexdigest(self) -> str:
        """The hash of everything that was added."""
        return self._hash.hexdigest()

    def _add(self, text: str) -> None:
        encoded = text.encode("utf-8", "surrogatepass")
        self._hash.update(len(encoded).to_bytes(8, "little") + encoded)


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.parquet"


def shard_schema(level: Level, hidden_size: int, texts: Sequence[str] = ()) -> Any:
    """Columns of a shard (an Arrow schema), with those of :data:`TEXT_COLUMNS` that are wanted."""
    columns = [("id", pa.string())]
    if level != "document":
        columns.append(("section", pa.int32()))
    if level in _NUMBERED:
        columns.append((level, pa.int32()))
    if level != "document":
        columns += [("heading", pa.string()), ("start", pa.int64()), ("end", pa.int64())]
    columns += [(name, pa.string()) for name in texts]
    columns.append(("vector", pa.list_(pa.float32(), hidden_size)))
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


class ShardWriter:
    """Writes one shard, a few thousand rows at a time; used in a ``with`` block.

    The file gets its name when it is finished. Errors of writing are :class:`OutputError`; all others pass.

    Args:
        path: the file.
        level: what a row is.
        hidden_size: length of a vector.
        texts: which of :data:`TEXT_COLUMNS` stand beside the vectors.
    """

    def __init__(self, path: Path, level: Level, hidden_size: int, texts: Sequence[str] = ()) -> None:
        self.rows = 0
        self._path, self._partial = path, path.with_name(f".partial-{os.getpid()}-{path.name}")
        self._level = level
        self._texts = texts
        self._schema = shard_schema(level, hidden_size, texts)
        self._columns: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        self._waiting = 0
        repeating = [name for name in ("id", "heading", "title") if name in self._schema.names]
        # Vectors hardly get smaller, so only time would be lost on them.
        compression = {name: "ZSTD" for name in self._schema.names} | {"vector.list.element": "NONE"}
        with self._writing():
            self._writer = pq.ParquetWriter(
                self._partial,
                self._schema,
                use_dictionary=repeating,
                compression=compression,
                write_page_checksum=True,
                write_statistics=[name for name in repeating if name != "title"],
            )

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)

    def add(self, segmented: SegmentedDocument, vectors: Tensor) -> None:
        """Add the rows of one document.

        Args:
            segmented: the document.
            vectors: ``(rows, hidden)``.

        Raises:
            OutputError: the file cannot be written.
        """
        columns = self._columns
        columns["id"].extend([segmented.document.id] * len(vectors))
        for name in self._texts:
            columns[name].extend(TEXT_COLUMNS[name](segmented, self._level))
        columns["vector"].append(np.array(vectors.numpy(), dtype=np.float32))
        if self._level != "document":
            for row in _places(segmented, self._level):
                for name, value in row.items():
                    columns[name].append(value)
        self._waiting += len(vectors)
        self.rows += len(vectors)
        if self._waiting >= ROWS_PER_GROUP:
            self._write_rows()

    def finish(self, record: Mapping[str, Any]) -> str:
        """Write what is left and the shard's record, give the file its name, and return its checksum.

        Raises:
            OutputError: the file cannot be written.
        """
        if self._waiting:
            self._write_rows()
        with self._writing():
            self._writer.add_key_value_metadata({METADATA_KEY: json.dumps(record).encode()})
            self._writer.close()
            checksum = file_checksum(self._partial)
            with self._partial.open("rb") as file:
                # What has its name is whole, also after the machine lost its power.
                os.fsync(file.fileno())
            self._partial.replace(self._path)
        return checksum

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise writing_error(self._path, error) from error

    def _write_rows(self) -> None:
        arrays = []
        for entry in self._schema:
            values = self._columns[entry.name]
            if entry.name == "vector":
                flat = pa.array(np.concatenate(values).reshape(-1), type=pa.float32())
                arrays.append(pa.FixedSizeListArray.from_arrays(flat, type=entry.type))
            else:
                arrays.append(pa.array(values, type=entry.type))
            values.clear()
        with self._writing():
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=ROWS_PER_GROUP)
        self._waiting = 0


def _titles(segmented: SegmentedDocument, level: Level) -> list[str]:
    """The title of a document, for each of its rows."""
    return [segmented.document.title] * (1 if level == "document" else len(_places(segmented, level)))


def _texts(segmented: SegmentedDocument, level: Level) -> list[str]:
    """The text of each row: of the whole document, or from ``start`` to ``end`` of its section."""
    document = segmented.document
    if level == "document":
        return [document.text]
    return [document.sections[row["section"]].text[row["start"] : row["end"]] for row in _places(segmented, level)]


# What can stand beside vectors to be read with them.
TEXT_COLUMNS: dict[str, Callable[[SegmentedDocument, Level], list[str]]] = {"title": _titles, "text": _texts}


def _places(segmented: SegmentedDocument, level: Level) -> list[dict[str, Any]]:
    """Where the rows of a document lie: section, heading and span, and the number of a passage or sentence."""
    if level in _NUMBERED:
        groups = [[passage] for passage in segmented.passages]
    else:
        sections = sorted({passage.section for passage in segmented.passages})
        groups = [[passage for passage in segmented.passages if passage.section == section] for section in sections]
    rows = []
    for number, group in enumerate(groups):
        row: dict[str, Any] = {"section": group[0].section}
        if level in _NUMBERED:
            row[level] = number
        row["heading"] = segmented.document.sections[group[0].section].heading
        row["start"] = group[0].start
        row["end"] = group[-1].end
        rows.append(row)
    return rows


def shard_record(
    origin: Mapping[str, Any],
    read: int,
    input_hash: str,
    rows: int,
    coverage: Coverage,
    skipped: Sequence[Skipped],
) -> dict[str, Any]:
    """What is kept inside a shard, so that an interrupted run can be continued.

    Args:
        origin: model, weights, settings and versions that the vectors come from.
        read: documents of the input that it was made of, the skipped ones among them.
        input_hash: hash of those documents.
        rows: vectors in the shard.
        coverage: how much of the documents was encoded.
        skipped: documents that were not encoded.
    """
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **origin,
        "read": read,
        "rows": rows,
        "input_hash": input_hash,
        "coverage": coverage.to_dict(),
        "skipped": [asdict(entry) for entry in skipped],
    }


def read_record(path: Path) -> dict[str, Any]:
    """Read what :func:`shard_record` made.

    Raises:
        OutputError: the file is no shard of graphdoc, or is damaged.
    """
    try:
        if not path.is_file():
            raise OSError("not a regular file")
        metadata = pq.read_metadata(path, memory_map=False)
        record = json.loads((metadata.metadata or {}).get(METADATA_KEY, b"null"))
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(f"{path} cannot be read as a shard of vectors; remove it and run again") from error
    if not _is_record(record, metadata.num_rows):
        raise OutputError(f"{path} is no shard that this version of graphdoc wrote; move it, or give another folder")
    return dict(record)


def _is_record(value: Any, rows: int) -> bool:
    """Whether a value is what :func:`shard_record` makes for a file of so many rows."""
    if not isinstance(value, dict) or value.get("format_version") != FORMAT_VERSION or value.get("rows") != rows:
        return False
    kinds = {"model": dict, "settings": dict, "versions": dict, "read": int, "input_hash": str}
    if not all(isinstance(value.get(name), kind) for name, kind in kinds.items()):
        return False
    try:
        Shard.of("", value, "")
    except (KeyError, TypeError, ValueError):
        return False
    return True


def is_whole(path: Path) -> bool:
    """Whether a shard is as it was written, by the checksums of its pages."""
    try:
        with pq.ParquetFile(path, memory_map=False, page_checksum_verification=True) as file:
            for _ in file.iter_batches(ROWS_PER_GROUP):
                pass
    except (OSError, ValueError):
        return False
    return True


def read_rows(path: Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Ids and vectors of a shard: a list, and ``(rows, hidden)``."""
    table = pq.read_table(path, columns=["id", "vector"]).combine_chunks()
    vectors = table.column("vector").combine_chunks()
    return table.column("id").to_pylist(), vectors.flatten().to_numpy().reshape(len(vectors), -1)
