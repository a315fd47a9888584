"""Bringing an index up to date: what is new or changed is encoded and written, all else stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
from tqdm.auto import tqdm

from ..documents.document import Document
from ..documents.readers import Skipped
from ..documents.readers.records import SeenIds
from ..encoder import DocumentEncoder
from ..errors import DocumentError
from ..graphs.batch import GraphBatch
from ..inference.levels import encode_all_levels
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import as_numpy, inference
from ..inference.segmenting import AnyDocument, Workers, as_document, require_text, segment_in_order, windows_of
from ..runtime.memory import give_back_memory
from ..runtime.processes import survive_forks
from ..runtime.progress import progress_bar
from ..segmentation.repeats import Place, RepeatCounter
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.encoded_document import EncodedDocument, Vectors
from ..similarity.kinds import similarity_of
from .lance import DOCUMENT, IS_DOCUMENT, LanceStore
from .sentences import Sentences, encode_sentences
from .table import (
    DOCUMENT_COLUMNS,
    REPEATED,
    Fields,
    content_hash,
    document_of,
    numbers_without_column,
    paragraph_of,
    repeated_places,
    rows_of,
    table_of,
    tokens_hash,
    vectors_of,
)

OnError = Literal["stop", "skip"]
# Pooled vectors of passages by the hash of their tokens.
Known = Mapping[str, Vectors]

# Documents that are looked up together.
_BLOCK = 256


@dataclass(slots=True)
class UpdateReport:
    """What an update did.

    Args:
        added: documents that are new.
        replaced: documents that had changed.
        unchanged: documents that the index had as they are.
        encoded_passages: passages that went through the transformer.
        known_passages: passages of new and changed documents whose vectors were known.
        encoded_sentences: sentences that went through the transformer, where the index keeps them.
        coverage: what of the new and changed documents was encoded.
        skipped: what could not be indexed.
        rebuilt: documents that maintenance encoded again, since other passages of them repeat than before.
        numbers_without_column: numbers in metadata that no filter finds: NaN, infinity, whole numbers from 2^63.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    encoded_passages: int = 0
    known_passages: int = 0
    encoded_sentences: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    skipped: list[Skipped] = field(default_factory=list)
    rebuilt: int = 0
    numbers_without_column: int = 0

    @property
    def changed(self) -> int:
        """Documents that were added or replaced."""
        return self.added + self.replaced


@dataclass(frozen=True, slots=True)
class Encoded:
    """A document with its vectors.

    Args:
        document: the document with its vectors.
        pooled: ``(passages, encoder hidden)``, pooled passage vectors; None where they depend on the whole document.
        new_passages: passages that went through the transformer.
        sentences: its sentences, where they are kept.
    """

    document: EncodedDocument
    pooled: Vectors | None
    new_passages: int
    sentences: Sentences | None = None


class Update:
    """One update of an index (see :meth:`DocumentIndex.update`)."""

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
        # Documents that the index has otherwise, until they are written.
        self._replaced: set[str] = set()
        self._new_columns: dict[str, Any] = {}
        self._fields = Fields(store.schema)

    def run(self, documents: Iterable[AnyDocument]) -> UpdateReport:
        """Index documents, some thousands of passages at a time; each time is one commit."""
        total = len(documents) if isinstance(documents, Sized) else None
        with progress_bar(self._show, total, "Indexing") as bar:
            changed = self._changed(documents, bar)
            with closing(segment_in_order(changed, self._encoder.segmenter, self._workers)) as segmented:
                for window in windows_of(self._indexable(segmented, bar)):
                    known_ids = [one.document.id for one in window if one.document.id in self._replaced]
                    self._write(self._encode(self._encoder, window, known_ids), bar)
        return self.report

    def _changed(self, documents: Iterable[AnyDocument], bar: tqdm[Any]) -> Iterator[Document]:
        """The documents that the index has not, or has otherwise."""
        values = self._read(documents, bar)
        while block := list(islice(values, _BLOCK)):
            rows = self._store.select(["id", "content_hash"], IS_DOCUMENT, ids=[document.id for document in block])
            hashes = dict(zip(rows.column("id").to_pylist(), rows.column("content_hash").to_pylist(), strict=True))
            for document in block:
                if hashes.get(document.id) == content_hash(document):
                    self.report.unchanged += 1
                    bar.update(1)
                    continue
                if document.id in hashes:
                    self._replaced.add(document.id)
                yield document

    def _read(self, documents: Iterable[AnyDocument], bar: tqdm[Any]) -> Iterator[Document]:
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

    def _indexable(self, segmented: Iterable[SegmentedDocument], bar: tqdm[Any]) -> Iterator[SegmentedDocument]:
        """Documents that have text and whose metadata fit their columns, found before anything is encoded."""
        for one in segmented:
            try:
                require_text(one)
                new = self._fields.new(one.document)
                self._fields.values(one.document)
            except DocumentError as error:
                self._skip(one.document.id, error, bar)
                continue
            self._new_columns.update(new)
            yield one

    def _skip(self, source: str, error: DocumentError, bar: tqdm[Any]) -> None:
        if self._on_error == "stop":
            raise error
        self.report.skipped.append(Skipped(source, str(error)))
        bar.update(1)

    def _encode(
        self, encoder: EncodingPipeline, window: Sequence[SegmentedDocument], known_ids: Sequence[str]
    ) -> list[Encoded]:
        """Encode documents together, with the vectors of passages that some of them have in the index."""
        encoded = list(encode_with_known(encoder, window, known_vectors(self._store, known_ids)))
        paragraph = paragraph_of(self._store.record)
        if paragraph is None:
            return encoded
        pooled = [replace(one, passage_vectors=own.pooled) for one, own in zip(window, encoded, strict=True)]
        sentences = encode_sentences(encoder, pooled, paragraph)
        return [replace(one, sentences=own) for one, own in zip(encoded, sentences, strict=True)]

    def _write(self, documents: Sequence[Encoded], bar: tqdm[Any]) -> None:
        """Write documents in one commit."""
        if self._new_columns:
            self._store.add_columns(self._new_columns)
            self._new_columns = {}
        self._put([row for encoded in documents for row in self._rows_of(encoded)])
        for encoded in documents:
            segmented = encoded.document.segmented
            is_replaced = segmented.document.id in self._replaced
            self._replaced.discard(segmented.document.id)
            self.report.replaced += is_replaced
            self.report.added += not is_replaced
            self.report.encoded_passages += encoded.new_passages
            self.report.known_passages += len(segmented.passages) - encoded.new_passages
            self.report.encoded_sentences += len(encoded.sentences or ())
            self.report.coverage += segmented.coverage
            self.report.numbers_without_column += numbers_without_column(segmented.document)
            bar.update(1)

    def _rows_of(self, encoded: Encoded, repeated: Sequence[Place] = ()) -> list[dict[str, Any]]:
        similarity = similarity_of(self._encoder.model.config.similarity).vectors
        return rows_of(
            encoded.document,
            encoded.pooled,
            self._fields,
            unit_length=similarity == "cosine",
            sentences=None if encoded.sentences is None else encoded.sentences.columns(),
            repeated=repeated,
        )

    def _put(self, rows: Sequence[Mapping[str, Any]]) -> None:
        ids = [row["id"] for row in rows if row["level"] == DOCUMENT]
        self._store.write(table_of(rows, self._store.schema.remove_metadata()), ids)

    def reindex_boilerplate(self) -> int:
        """Find passages that repeat in the index, and encode the documents again in which other passages count now.

        What comes out depends on the documents and not on the order in which they came.
        """
        counter = RepeatCounter()
        for document, _ in self._stored():
            counter.add(document)
        encoder = self._encoder.leaving_out(counter.found())
        repeated: dict[str, list[Place]] = {}
        for document, before in self._stored():
            places, keeps_all = encoder.segmenter.repeated(document)
            now = [] if keeps_all else places
            if now != before:
                repeated[document.id] = now
        changed = iter(repeated)
        with progress_bar(self._show, len(repeated), "Leaving out what repeats") as bar:
            while ids := list(islice(changed, _BLOCK)):
                stored = self._store.select([*DOCUMENT_COLUMNS, "content_hash"], IS_DOCUMENT, ids=ids).to_pylist()
                hashes = {row["id"]: row["content_hash"] for row in stored}
                for window in windows_of(encoder.segmenter.segment_many(map(document_of, stored))):
                    names = [segmented.document.id for segmented in window]
                    encoded = self._encode(encoder, window, names)
                    rows = [
                        row for id, one in zip(names, encoded, strict=True) for row in self._rows_of(one, repeated[id])
                    ]
                    for row in rows:
                        if row["level"] == DOCUMENT:
                            # Of the document as it was given: its metadata may have come back with other types.
                            row["content_hash"] = hashes[row["id"]]
                    self._put(rows)
                    bar.update(len(window))
        return len(repeated)

    def _stored(self) -> Iterator[tuple[Document, list[Place]]]:
        """All documents, with the passages that are left out of each."""
        for batch in self._store.batches([*DOCUMENT_COLUMNS, REPEATED], IS_DOCUMENT):
            for row in batch.to_pylist():
                yield document_of(row), repeated_places(row)


def encode_with_known(
    encoder: EncodingPipeline, documents: Sequence[SegmentedDocument], known: Known
) -> Iterator[Encoded]:
    """Encode documents together, with the pooled vectors of passages that are known, in their order.

    A pooled vector depends on the tokens alone, but with structural embeddings, where all passages are encoded.
    """
    if encoder.model.structural_embeddings is not None:
        for segmented in documents:
            yield Encoded(encode_all_levels(encoder, segmented), None, len(segmented.passages))
        return
    hashes = [[tokens_hash(ids) for ids in segmented.token_ids] for segmented in documents]
    new: dict[str, tuple[int, ...]] = {}
    counts = []
    for segmented, own in zip(documents, hashes, strict=True):
        before = len(new)
        for token_ids, name in zip(segmented.token_ids, own, strict=True):
            if name not in known:
                new.setdefault(name, token_ids)
        counts.append(len(new) - before)
    vectors: dict[str, Vectors] = dict(known)
    if new:
        vectors.update(zip(new, _pooled(encoder, tuple(new.values())), strict=True))
    for segmented, own, count in zip(documents, hashes, counts, strict=True):
        pooled = np.stack([vectors[name] for name in own])
        yield Encoded(encode_all_levels(encoder, replace(segmented, passage_vectors=pooled)), pooled, count)


def _pooled(encoder: EncodingPipeline, token_ids: tuple[tuple[int, ...], ...]) -> Vectors:
    """Pooled vectors of passages, ``(passages, encoder hidden)``."""
    survive_forks()
    batch = GraphBatch.of_passages(token_ids).to(encoder.device)
    with inference(encoder.model), encoder.computing_in(None):
        pooled = as_numpy(encoder.model.encode_passages(batch))
    give_back_memory()
    return pooled


def known_vectors(store: LanceStore, ids: Sequence[str]) -> dict[str, Vectors]:
    """Pooled vectors of the passages that documents have in an index, by the hash of their tokens."""
    if not ids:
        return {}
    rows = store.select(["content_hash", "encoder_vector"], "encoder_vector IS NOT NULL", ids=ids)
    return dict(zip(rows.column("content_hash").to_pylist(), vectors_of(rows, "encoder_vector"), strict=True))
