"""Shards: Parquet files of vectors, each with a record of the documents that it was made of."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
from pydantic import BaseModel, ConfigDict

from ..documents.document import Document
from ..documents.readers import Skipped
from ..errors import OutputError
from ..inference.pipeline import Level
from ..runtime.files import write_atomically
from ..segmentation.spans import Coverage, SegmentedDocument

if TYPE_CHECKING:
    from torch import Tensor

METADATA_KEY = b"graphdoc"
ROWS_PER_GROUP = 4096
# What can be stored with vectors.
TEXT_COLUMNS = ("title", "text")


class Provenance(BaseModel):
    """All that affects vectors besides the documents; parsed strictly."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    format: Literal["graphdoc vectors"] = "graphdoc vectors"
    format_version: Literal[1] = 1
    model: dict[str, Any]
    weights: str
    settings: dict[str, Any]
    versions: dict[str, str]


class ShardRecord(Provenance):
    """What is kept inside a shard, so that an interrupted run can be continued.

    Args:
        read: documents of the input that it was made of, the skipped ones among them.
        rows: vectors in it.
        input_hash: hash of those documents (:class:`ShardInput`).
        coverage: what of them was encoded.
        skipped: documents among them that were not encoded.
    """

    read: int
    rows: int
    input_hash: str
    coverage: Coverage
    skipped: tuple[Skipped, ...]


class ShardInput:
    """The documents that a shard is made of, as far as they are read.

    Its hash is of all that vectors read of documents, and that is written with them: id, title, headings and texts.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.read = 0
        self.skipped: list[Skipped] = []
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, document: Document) -> None:
        """Count a document in."""
        self.read += 1
        parts = (text for section in document.sections for text in (section.heading, section.text))
        for text in (document.id, document.title, *parts):
            encoded = text.encode("utf-8", "surrogatepass")
            self._hash.update(len(encoded).to_bytes(8, "little") + encoded)
        self._hash.update(b"\xff")

    def skip(self, skipped: Skipped) -> None:
        """Count an input that is not a document."""
        self.read += 1
        self.skipped.append(skipped)

    @property
    def hash(self) -> str:
        """The hash of the documents so far."""
        return self._hash.hexdigest()


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.parquet"


def write_shard(
    path: Path,
    encoded: Iterable[tuple[SegmentedDocument, Tensor]],
    level: Level,
    hidden_size: int,
    texts: Sequence[str],
    describe: Callable[[int], ShardRecord],
) -> None:
    """Write a shard, a few thousand rows at a time; the file gets its name when it is whole.

    Args:
        path: the file.
        encoded: documents with their vectors, each ``(rows, hidden)``.
        level: what a row is.
        hidden_size: length of a vector.
        texts: which of :data:`TEXT_COLUMNS` are stored with the vectors.
        describe: gives the record of a shard by its number of rows, once all documents are taken.
    """
    schema = _schema(level, hidden_size, texts)
    repeating = [name for name in ("id", "heading", "title") if name in schema.names]

    def write(partial: Path) -> None:
        rows = 0
        with pq.ParquetWriter(
            partial,
            schema,
            use_dictionary=repeating,
            # Vectors hardly get smaller, so only time would be lost on them.
            compression={name: "ZSTD" for name in schema.names} | {"vector.list.element": "NONE"},
            write_page_checksum=True,
            write_statistics=[name for name in repeating if name != "title"],
        ) as writer:
            for table in _tables(encoded, level, schema):
                writer.write_table(table, row_group_size=ROWS_PER_GROUP)
                rows += len(table)
            writer.add_key_value_metadata({METADATA_KEY: describe(rows).model_dump_json().encode()})
        with partial.open("rb") as file:
            # What has its name is whole, also after the machine lost its power.
            os.fsync(file.fileno())

    write_atomically(path, write)


def _schema(level: Level, hidden_size: int, texts: Sequence[str]) -> Any:
    columns = [("id", pa.string())]
    if level != "document":
        columns.append(("section", pa.int32()))
        if level != "section":
            columns.append((level, pa.int32()))
        columns += [("heading", pa.string()), ("start", pa.int64()), ("end", pa.int64())]
    columns += [(name, pa.string()) for name in texts]
    columns.append(("vector", pa.list_(pa.float32(), hidden_size)))
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


def _tables(encoded: Iterable[tuple[SegmentedDocument, Tensor]], level: Level, schema: Any) -> Iterator[Any]:
    rows: list[dict[str, Any]] = []
    vectors: list[npt.NDArray[np.float32]] = []

    def table() -> Any:
        *names, _ = schema.names
        columns = [pa.array([row[name] for row in rows], type=schema.field(name).type) for name in names]
        flat = pa.array(np.concatenate(vectors).reshape(-1), type=pa.float32())
        columns.append(pa.FixedSizeListArray.from_arrays(flat, type=schema.field("vector").type))
        rows.clear()
        vectors.clear()
        return pa.Table.from_arrays(columns, schema=schema)

    for segmented, some in encoded:
        rows += _rows(segmented, level)
        vectors.append(np.array(some.numpy(), dtype=np.float32))
        if len(rows) >= ROWS_PER_GROUP:
            yield table()
    if rows:
        yield table()


def _rows(segmented: SegmentedDocument, level: Level) -> Iterator[dict[str, Any]]:
    """The columns of a document's rows, but for the vector: whose it is, and where its text lies."""
    document = segmented.document
    about = {"id": document.id, "title": document.title}
    if level == "document":
        yield {**about, "text": document.text}
        return
    passages = segmented.passages
    by_section = (list(group) for _, group in groupby(passages, key=lambda passage: passage.section))
    for number, group in enumerate(by_section if level == "section" else ([passage] for passage in passages)):
        start, end = group[0].start, group[-1].end
        section = document.sections[group[0].section]
        place = {level: number, "section": group[0].section, "heading": section.heading, "start": start, "end": end}
        yield {**about, **place, "text": section.text[start:end]}


def read_record(path: Path) -> ShardRecord:
    """Read the record of a shard.

    Raises:
        OutputError: the file is no shard of graphdoc, or is damaged.
    """
    try:
        if not path.is_file():
            raise OSError("not a regular file")
        metadata = pq.read_metadata(path, memory_map=False)
        record = ShardRecord.model_validate_json((metadata.metadata or {}).get(METADATA_KEY, b""))
        documents = record.read - len(record.skipped)
        if (record.rows, record.coverage.documents) != (metadata.num_rows, documents):
            raise ValueError("its numbers contradict each other")
    except (OSError, ValueError) as error:
        raise OutputError(
            f"{path} is damaged, or no shard that this version of graphdoc wrote; move it, or give another folder"
        ) from error
    return record


def read_rows(path: Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Ids and vectors of a shard: a list, and ``(rows, hidden)``.

    Raises:
        OutputError: a page of it does not have the checksum that it was written with.
    """
    try:
        table = pq.read_table(path, columns=["id", "vector"], page_checksum_verification=True).combine_chunks()
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} is damaged; remove it and run the encoding again") from error
    vectors = table.column("vector").combine_chunks()
    return table.column("id").to_pylist(), vectors.flatten().to_numpy().reshape(len(vectors), -1)
