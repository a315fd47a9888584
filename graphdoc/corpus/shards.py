"""Documents cut and tokenised by several processes, and Arrow files of them, read memory-mapped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document, Label
from ..errors import OutputError
from ..runtime.files import mark_checked
from ..runtime.workers import work_ahead
from ..segmentation.segmenter import Segmenter, paragraph_numbers
from ..segmentation.spans import PassageColumns, passage_columns, passage_fields
from ..settings.document import Paragraph
from .document import SPLIT, TokenisedDocument, TrainingDocument, split_of

Block = list[tuple[int, Document]]

# Documents that travel to a process together: enough to tokenise them in one call, little to hold.
BLOCK_DOCUMENTS = 64
BLOCK_CHARACTERS = 2**20


def tokenise_in_order(
    documents: Iterable[tuple[int, Document]],
    segmenter: Segmenter,
    processes: int,
    paragraph: Paragraph | None = None,
) -> Iterator[TokenisedDocument]:
    """Cut and tokenise documents; what comes out does not depend on the number of processes.

    Args:
        documents: hash of the text, and document; read as they are needed, a few blocks ahead.
        segmenter: cuts and tokenises.
        processes: how many processes do so; with 1, or for a corpus of a single block, it is done here.

        paragraph: what a paragraph is, for documents that are cut into sentences; None for others.

    Yields:
        Every document, in the order in which they came.

    Raises:
        GraphdocError: one of the processes was ended from outside.
    """
    blocks = _blocks(documents)
    opening = list(islice(blocks, 2))
    workers = processes if processes > 1 and len(opening) > 1 else 0
    cutter = _Cutter(segmenter, paragraph)
    for tokenised in work_ahead(_tokenise, cutter, chain(opening, blocks), workers, setting="preparing_processes"):
        yield from tokenised


def _blocks(documents: Iterable[tuple[int, Document]]) -> Iterator[Block]:
    block: Block = []
    characters = 0
    for group, document in documents:
        # Metadata stays here; only what is tokenised and kept beside it has to travel.
        split = {SPLIT: split_of(document)} if SPLIT in document.metadata else {}
        block.append((group, replace(document, metadata=split)))
        characters += sum(len(section.text) for section in document.sections)
        if len(block) >= BLOCK_DOCUMENTS or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


class _Cutter(NamedTuple):
    """What the processes cut with."""

    segmenter: Segmenter
    paragraph: Paragraph | None


def _tokenise(cutter: _Cutter, block: Block) -> list[TokenisedDocument]:
    segmenter, paragraph = cutter
    found = []
    for one, (group, _) in zip(segmenter.segment_many(document for _, document in block), block, strict=True):
        numbers = None if paragraph is None else paragraph_numbers(one, paragraph, segmenter)
        found.append(TokenisedDocument.of(one, group, numbers))
    return found


BATCH_DOCUMENTS = 1024
BATCH_TOKENS = 2**22
SHARD_TOKENS = 2**27


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:05d}.arrow"


class CorpusWriter:
    """Writes documents into shards; used in a ``with`` block.

    Args:
        folder: where to.
        largest_token: largest token id there can be; small vocabularies take half the space.

    Attributes:
        shards: name, documents, bytes and checksum of every shard.
    """

    def __init__(self, folder: Path, largest_token: int) -> None:
        self.shards: list[dict[str, Any]] = []
        self._folder = folder
        self._passage_fields = passage_fields(largest_token)
        self._schema = pa.schema(
            [
                pa.field("id", pa.string(), nullable=False),
                pa.field("group", pa.int64(), nullable=False),
                pa.field("label", pa.string()),
                pa.field("split", pa.string()),
                *self._passage_fields,
                pa.field("paragraphs", pa.list_(pa.int32())),
            ]
        )
        self._content = hashlib.blake2b(digest_size=16)
        self._waiting: list[TokenisedDocument] = []
        self._waiting_tokens = self._shard_tokens = 0
        self._stream: Any = None
        self._writer: Any = None

    def __enter__(self) -> CorpusWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._write_batch()
        self._end_shard()

    def add(self, document: TokenisedDocument) -> None:
        """Add a document.

        Raises:
            OutputError: the shard cannot be written.
        """
        self._content.update(json.dumps([document.id, document.label, document.split]).encode("ascii"))
        passages = document.passages
        for part in (passages.sections, passages.lengths, passages.token_ids):
            self._content.update(part.tobytes())
        if document.paragraphs is not None:
            self._content.update(document.paragraphs.tobytes())
        self._waiting.append(document)
        self._waiting_tokens += len(passages.token_ids)
        if len(self._waiting) >= BATCH_DOCUMENTS or self._waiting_tokens >= BATCH_TOKENS:
            self._write_batch()

    @property
    def content(self) -> str:
        """Hash of the documents so far: their ids, labels, passages and tokens, in their order."""
        return self._content.hexdigest()

    def _write_batch(self) -> None:
        if not self._waiting:
            return
        documents = self._waiting
        columns = [
            pa.array([document.id for document in documents], type=pa.string()),
            pa.array([document.group for document in documents], type=pa.int64()),
            # Labels are strings, numbers or lists of them.
            pa.array([None if one.label is None else json.dumps(one.label) for one in documents], type=pa.string()),
            pa.array([document.split for document in documents], type=pa.string()),
            *passage_columns([document.passages for document in documents], self._passage_fields),
            pa.array([document.paragraphs for document in documents], type=pa.list_(pa.int32())),
        ]
        try:
            if self._writer is None:
                name = shard_name(len(self.shards))
                self._stream = pa.OSFile(str(self._folder / name), "wb")
                self._writer = pa.ipc.new_stream(self._stream, self._schema)
                self.shards.append({"file": name, "documents": 0})
            self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        except OSError as error:
            raise _cannot_be_written(self._folder, error) from error
        self.shards[-1]["documents"] += len(documents)
        self._shard_tokens += self._waiting_tokens
        self._waiting, self._waiting_tokens = [], 0
        if self._shard_tokens >= SHARD_TOKENS:
            self._end_shard()

    def _end_shard(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.close()
            self._stream.close()
            path = self._folder / self.shards[-1]["file"]
            self.shards[-1] |= {"bytes": path.stat().st_size, "checksum": mark_checked(path)}
        except OSError as error:
            raise _cannot_be_written(self._folder, error) from error
        finally:
            self._writer = self._stream = None
            self._shard_tokens = 0


class CorpusReader:
    """Reads documents from memory-mapped shards.

    Args:
        paths: the shards, in order.

    Raises:
        OutputError: one of them cannot be read.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._batches: list[_Batch] = []
        for path in paths:
            try:
                # The columns keep the mapping alive.
                reader = pa.ipc.open_stream(pa.memory_map(str(path)))
                self._batches.extend(_Batch(batch) for batch in reader)
            except (OSError, pa.ArrowException, KeyError) as error:
                raise OutputError(
                    f"{path} cannot be read: {' '.join(str(error).split())}; remove its folder"
                ) from error
        self._ends = np.cumsum([len(batch) for batch in self._batches], dtype=np.int64)

    def __len__(self) -> int:
        """Number of documents."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, number: int) -> TrainingDocument:
        """Read a document by its number."""
        position = int(np.searchsorted(self._ends, number, side="right"))
        batch = self._batches[position]
        return batch.document(number - (int(self._ends[position]) - len(batch)))

    def passage(self, number: int, place: int) -> TrainingDocument:
        """Read one passage of a document, as a document of one."""
        position = int(np.searchsorted(self._ends, number, side="right"))
        batch = self._batches[position]
        return batch.passage(number - (int(self._ends[position]) - len(batch)), place)

    def paragraphs(self) -> npt.NDArray[np.int32]:
        """Paragraph of every sentence in its document, document after document; none where there are no sentences."""
        return np.concatenate([batch.paragraphs for batch in self._batches])

    def passage_counts(self) -> npt.NDArray[np.int64]:
        """Passages of every document, ``(documents,)``."""
        return np.concatenate([batch.passages.counts for batch in self._batches])

    def groups(self) -> npt.NDArray[np.int64]:
        """Hash of every document's text, ``(documents,)``."""
        return np.concatenate([batch.groups for batch in self._batches])

    def ids(self) -> list[str]:
        """Id of every document, ``(documents,)``."""
        return [id for batch in self._batches for id in batch.ids.to_pylist()]

    def labels(self) -> list[Label]:
        """Label of every document, None where it has none, ``(documents,)``."""
        values = [value for batch in self._batches for value in batch.labels.to_pylist()]
        found = [None if value is None else json.loads(value) for value in values]
        return [tuple(label) if isinstance(label, list) else label for label in found]

    def splits(self) -> list[str | None]:
        """The part of the corpus that every document belongs to, None where it does not say, ``(documents,)``."""
        return [value for batch in self._batches for value in batch.splits.to_pylist()]


class _Batch:
    """Some documents of a shard as columns that lie in the file."""

    __slots__ = ("groups", "ids", "labels", "paragraphs", "passages", "splits")

    def __init__(self, batch: Any) -> None:
        self.ids = batch.column("id")
        self.labels = batch.column("label")
        self.splits = batch.column("split")
        self.groups: npt.NDArray[np.int64] = batch.column("group").to_numpy()
        self.passages = PassageColumns(batch)
        self.paragraphs: npt.NDArray[np.int32] = batch.column("paragraphs").values.to_numpy()

    def __len__(self) -> int:
        return len(self.ids)

    def document(self, row: int) -> TrainingDocument:
        return TrainingDocument.of(self.ids[row].as_py(), int(self.groups[row]), self.passages[row])

    def passage(self, row: int, place: int) -> TrainingDocument:
        passage = self.passages.passage(row, place)
        return TrainingDocument.of(self.ids[row].as_py(), int(self.groups[row]), passage)


def _cannot_be_written(folder: Path, error: OSError) -> OutputError:
    return OutputError(f"{folder} cannot be written: {error.strerror or error}; free some space or set another cache")
