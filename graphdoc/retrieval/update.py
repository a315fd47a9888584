"""Bringing an index up to date: what is new or changed is encoded and written, all else stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from tqdm.auto import tqdm

from ..documents.document import Document
from ..documents.readers import Skipped
from ..documents.readers.records import SeenIds
from ..encoder import DocumentEncoder
from ..errors import DocumentError
from ..inference.segmenting import AnyDocument, Workers, as_document, require_text, segment_in_order, windows_of
from ..runtime.progress import progress_bar
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.kinds import similarity_of
from .encoding import Encoded, Known, encode_for_index, known_vectors
from .fields import Fields, numbers_without_column
from .lance import LanceStore
from .record import paragraph_of
from .rows import Sizes, content_hash, rows_of, table_of

OnError = Literal["stop", "skip"]

# Documents whose hashes are looked up together.
_BLOCK = 256


@dataclass(slots=True)
class UpdateReport:
    """What an update did.

    Args:
        added: documents that are new.
        replaced: documents that had changed.
        unchanged: documents that the index had as they are.
        deleted: documents that were removed.
        encoded_passages: passages that went through the transformer.
        known_passages: passages of new and changed documents whose vectors were known.
        encoded_sentences: sentences that went through the transformer, where the index keeps them.
        coverage: what of the new and changed documents was encoded.
        skipped: what could not be indexed.
        numbers_without_column: numbers in metadata of new and changed documents that no filter finds, since no column
            can hold them: not a number, infinity, whole numbers from 2^63.
        remade: documents that were made anew at maintenance, since other passages of them repeat than before.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    encoded_passages: int = 0
    known_passages: int = 0
    encoded_sentences: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    skipped: list[Skipped] = field(default_factory=list)
    remade: int = 0
    numbers_without_column: int = 0

    @property
    def changed(self) -> int:
        """Documents that were added, replaced or deleted."""
        return self.added + self.replaced + self.deleted


class Update:
    """One update of an index.

    Args:
        store: where rows are kept.
        encoder: encodes.
        on_error: whether a document that cannot be indexed stops the update or is skipped and listed.
        show_progress: show a bar; None shows it on a terminal when the work is long.
        workers: processes that cut and tokenise ahead; None for as many as suit the machine.
    """

    def __init__(
        self,
        store: LanceStore,
        encoder: DocumentEncoder,
        on_error: OnError = "stop",
        show_progress: bool | None = None,
        workers: int | None = None,
    ) -> None:
        self.report = UpdateReport()
        self._store, self._encoder, self._on_error = store, encoder, on_error
        self._show, self._workers = show_progress, Workers.on(encoder.device, workers)
        self._seen = SeenIds()
        self._known_ids: set[str] = set()
        self._new_columns: dict[str, Any] = {}
        self._paragraph = paragraph_of(store.record)
        self._fields = Fields(store.schema)
        self._unit_length = similarity_of(encoder.model.config.similarity).vectors == "cosine"

    def run(self, documents: Iterable[AnyDocument]) -> UpdateReport:
        """Index documents, some thousands of passages at a time; each time is one commit.

        An update that was interrupted goes on where it stopped when it is run again, since what is there with the
        same content is left alone.
        """
        total = len(documents) if isinstance(documents, Sized) else None
        with progress_bar(self._show, total, "Indexing") as bar:
            changed = self._changed(documents, bar)
            with closing(segment_in_order(changed, self._encoder.segmenter, self._workers)) as segmented:
                for window in windows_of(self._with_text(segmented, bar)):
                    known = self._known_of(segmented.document.id for segmented in window)
                    self._write(encode_for_index(self._encoder, window, known, self._paragraph), bar)
        return self.report

    def _changed(self, documents: Iterable[AnyDocument], bar: tqdm[Any]) -> Iterator[Document]:
        """The documents that the index has not, or has otherwise."""
        values = iter(self._taken(documents, bar))
        while block := list(islice(values, _BLOCK)):
            ids = [document.id for document in block]
            there = self._store.select(["id", "content_hash"], "level = 'document'", ids=ids)
            hashes = dict(zip(there.column("id").to_pylist(), there.column("content_hash").to_pylist(), strict=True))
            for document in block:
                if hashes.get(document.id) == content_hash(document):
                    self.report.unchanged += 1
                    bar.update(1)
                    continue
                if document.id in hashes:
                    self._known_ids.add(document.id)
                yield document

    def _taken(self, documents: Iterable[AnyDocument], bar: tqdm[Any]) -> Iterator[Document]:
        for number, value in enumerate(documents, start=1):
            try:
                document = as_document(value)
                if self._seen.add(document.id) is not None:
                    raise DocumentError(
                        f"the id {document.id!r} of document {number} is taken by an earlier one; give each its own id"
                    )
            except DocumentError as error:
                self._skip(f"document {number}", error, bar)
                continue
            yield document

    def _with_text(self, segmented: Iterable[SegmentedDocument], bar: tqdm[Any]) -> Iterator[SegmentedDocument]:
        for one in segmented:
            try:
                require_text(one)
            except DocumentError as error:
                self._skip(one.document.id, error, bar)
                continue
            if self._fits(one.document, bar):
                yield one

    def _fits(self, document: Document, bar: tqdm[Any]) -> bool:
        """Whether its metadata fit their columns, which is found before anything is encoded."""
        try:
            new = self._fields.new(document)
            self._fields.values(document)
            self._new_columns.update(new)
        except DocumentError as error:
            self._skip(document.id, error, bar)
            return False
        return True

    def _known_of(self, ids: Iterable[str]) -> Known:
        """Vectors of passages that documents which changed have in the index."""
        return known_vectors(self._store, [id for id in ids if id in self._known_ids])

    def _skip(self, source: str, error: DocumentError, bar: tqdm[Any]) -> None:
        if self._on_error == "stop":
            raise error
        self.report.skipped.append(Skipped(source, str(error)))
        bar.update(1)

    def _write(self, documents: Iterable[Encoded], bar: tqdm[Any]) -> None:
        """Write documents in one commit."""
        if self._new_columns:
            self._store.add_columns(self._new_columns)
            self._new_columns = {}
        rows: list[dict[str, Any]] = []
        ids: list[str] = []
        for encoded in documents:
            segmented = encoded.document.segmented
            rows += rows_of(
                encoded.document,
                encoded.pooled,
                self._fields,
                unit_length=self._unit_length,
                sentences=encoded.sentences,
            )
            ids.append(segmented.document.id)
            self.report.encoded_passages += encoded.new_passages
            self.report.known_passages += len(segmented.passages) - encoded.new_passages
            self.report.encoded_sentences += 0 if encoded.sentences is None else len(encoded.sentences.places)
            self.report.coverage += segmented.coverage
            self.report.numbers_without_column += numbers_without_column(segmented.document)
            bar.update(1)
        self._store.write(table_of(rows, self._store.schema.remove_metadata()), ids)
        changed = self._known_ids.intersection(ids)
        self.report.replaced += len(changed)
        self.report.added += len(ids) - len(changed)
        self._known_ids -= changed


def sizes_of(encoder: DocumentEncoder) -> Sizes:
    """Lengths of the vectors that an encoder gives."""
    return Sizes(encoder.hidden_size, encoder.vector_size("passage"), encoder.model.config.passage_size)
