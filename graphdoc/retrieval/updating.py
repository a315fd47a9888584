"""Bringing an index up to date: what is new or changed is encoded and written, all else stays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ..documents.document import Document
from ..documents.readers import Skipped
from ..documents.readers.reading import OnUnencodable
from ..documents.readers.records import SeenIds
from ..encoder import DocumentEncoder
from ..errors import DocumentError
from ..graphs.batch import GraphBatch
from ..inference.levels import encode_all_levels
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import as_numpy, inference
from ..inference.segmenting import (
    WINDOW_PASSAGES,
    AnyDocument,
    Workers,
    as_document,
    in_blocks,
    require_text,
    segment_in_order,
    windows_of,
)
from ..runtime.arrays import Vectors
from ..runtime.memory import give_back_memory
from ..runtime.processes import survive_forks
from ..runtime.progress import number_of, progress_bar
from ..segmentation.repeats import RepeatCounter, SectionSpan
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.encoded_document import EncodedDocument
from .lance import IS_DOCUMENT, LanceStore
from .sentences import encode_sentences
from .table import (
    DOCUMENT_COLUMNS,
    REPEATED,
    Fields,
    add_vectors,
    content_hash,
    document_of,
    repeated_places,
    rows_of,
    table_of,
    tokens_hash,
    vectors_of,
)

# Documents that are looked up together.
_BLOCK = 256


@dataclass(slots=True)
class UpdateReport:
    """What an update did.

    Passages and sentences that were encoded went through the transformer; ``known_passages`` are those of new and
    changed documents whose vectors were known. ``rebuilt`` are documents that maintenance encoded again, since other
    passages of them repeat than before.
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

    @property
    def changed(self) -> int:
        """Documents that were added or replaced."""
        return self.added + self.replaced


class Update:
    """One update of an index (see :meth:`~graphdoc.retrieval.index.DocumentIndex.update`)."""

    def __init__(
        self,
        store: LanceStore,
        encoder: DocumentEncoder,
        on_error: OnUnencodable = "stop",
        show_progress_bar: bool | None = None,
        workers: int | None = None,
    ) -> None:
        self.report = UpdateReport()
        self._store, self._encoder, self._on_error = store, encoder, on_error
        self._show, self._workers = show_progress_bar, Workers.on(encoder.device, workers)
        self._seen = SeenIds()
        # Documents that the index has otherwise, until they are written.
        self._replaced: set[str] = set()
        self._new_columns: dict[str, Any] = {}
        self._fields = Fields(store.schema)

    def run(self, documents: Iterable[AnyDocument]) -> UpdateReport:
        """Index documents, thousands of passages at a time; each time is one commit, also before an error."""
        # What a processor encodes in half a minute: an update that is ended from outside loses no more.
        most = WINDOW_PASSAGES if self._encoder.device.type != "cpu" else WINDOW_PASSAGES // 4
        # Texts are made into terms as the search structure of words says.
        self._store.prepare()
        with progress_bar(self._show, partial(number_of, documents), "Indexing") as self._bar:
            changed = self._changed(documents)
            with closing(segment_in_order(changed, self._encoder.segmenter, self._workers)) as segmented:
                for window in in_blocks(filter(self._is_indexable, segmented), most, lambda one: len(one.passages)):
                    replaced = {one.document.id for one in window} & self._replaced
                    self._write(self._encoder, window, replaced)
                    self._replaced -= replaced
                    self.report.replaced += len(replaced)
                    self.report.added += len(window) - len(replaced)
        return self.report

    def _changed(self, documents: Iterable[AnyDocument]) -> Iterator[Document]:
        for block in in_blocks(self._read(documents), _BLOCK):
            rows = self._store.select(["id", "content_hash"], IS_DOCUMENT, ids=[document.id for document in block])
            hashes = {row["id"]: row["content_hash"] for row in rows.to_pylist()}
            for document in block:
                if hashes.get(document.id) == content_hash(document):
                    self.report.unchanged += 1
                    self._bar.update(1)
                    continue
                if document.id in hashes:
                    self._replaced.add(document.id)
                yield document

    def _read(self, documents: Iterable[AnyDocument]) -> Iterator[Document]:
        for number, value in enumerate(documents, start=1):
            try:
                document = as_document(value)
                if self._seen.add(document.id) is not None:
                    raise DocumentError(
                        f"the id {document.id!r} of document {number} is taken by an earlier one; give each its own id"
                    )
            except DocumentError as error:
                self._skip(f"document {number}", error)
                continue
            yield document

    def _is_indexable(self, segmented: SegmentedDocument) -> bool:
        """Whether a document has text and its metadata fit their columns, found before anything is encoded."""
        try:
            require_text(segmented)
            self._new_columns |= self._fields.admit(segmented.document)
        except DocumentError as error:
            self._skip(segmented.document.id, error)
            return False
        return True

    def _skip(self, source: str, error: DocumentError) -> None:
        if self._on_error == "stop":
            raise error
        self.report.skipped.append(Skipped(source, str(error)))
        self._bar.update(1)

    def _write(
        self,
        encoder: EncodingPipeline,
        window: Sequence[SegmentedDocument],
        known_ids: Iterable[str],
        values: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Encode documents together and write them in one commit, with further columns of their rows by id.

        Of those with ``known_ids`` the vectors of passages in the index are used again.
        """
        report, encoded = self.report, list(encode_with_known(encoder, window, self._store, list(known_ids)))
        columns = [dict((values or {}).get(one.document.id, {})) for one in window]
        if (paragraph := self._store.paragraph) is not None:
            known = [replace(one, passage_vectors=pooled) for one, (_, pooled, _) in zip(window, encoded, strict=True)]
            for row, sentences in zip(columns, encode_sentences(encoder, known, paragraph), strict=True):
                row |= sentences.columns()
                report.encoded_sentences += len(sentences)
        if self._new_columns:
            self._store.add_columns(self._new_columns)
            self._new_columns = {}
        rows, unit_length = [], self._store.record["similarity"] == "cosine"
        for one, (document, passages, new), further in zip(window, encoded, columns, strict=True):
            of_document = rows_of(one, self._fields, **further)
            add_vectors(of_document, document, passages, unit_length=unit_length)
            rows += of_document
            report.encoded_passages += new
            report.known_passages += len(one.passages) - new
            report.coverage += one.coverage
        ids = [one.document.id for one in window]
        self._store.write(table_of(rows, self._store.schema.remove_metadata(), self._store.tokens), ids)
        self._bar.update(len(window))

    def reindex_boilerplate(self) -> int:
        """Encode the documents again in which other passages repeat than before, whatever order they came in."""
        counter = RepeatCounter()
        for document, _ in self._stored():
            counter.add(document)
        encoder = self._encoder.without_repeats(counter.result())
        repeated: dict[str, list[SectionSpan]] = {}
        for document, before in self._stored():
            places, keeps_all = encoder.segmenter.repeated(document)
            now = [] if keeps_all else places
            if now != before:
                repeated[document.id] = now
        changed = iter(repeated)
        with progress_bar(self._show, len(repeated), "Leaving out what repeats") as self._bar:
            while ids := list(islice(changed, _BLOCK)):
                stored = self._store.select([*DOCUMENT_COLUMNS, "content_hash"], IS_DOCUMENT, ids=ids).to_pylist()
                # The hash is that of the document as it was given: its metadata may have come back with other types.
                values = {
                    row["id"]: {
                        "content_hash": row["content_hash"],
                        REPEATED: json.dumps(repeated[row["id"]]) if repeated[row["id"]] else None,
                    }
                    for row in stored
                }
                for window in windows_of(encoder.segmenter.segment_many(map(document_of, stored))):
                    self._write(encoder, window, [one.document.id for one in window], values)
        return len(repeated)

    def _stored(self) -> Iterator[tuple[Document, list[SectionSpan]]]:
        """All documents, with the passages that are left out of each."""
        for batch in self._store.batches([*DOCUMENT_COLUMNS, REPEATED], IS_DOCUMENT):
            for row in batch.to_pylist():
                yield document_of(row), repeated_places(row)


def encode_with_known(
    encoder: EncodingPipeline, documents: Sequence[SegmentedDocument], store: LanceStore, known_ids: Sequence[str]
) -> Iterator[tuple[EncodedDocument, Vectors | None, int]]:
    """Encode documents in their order, with the pooled vectors of passages that an index has of those with known ids.

    Yields:
        Each document with its vectors, ``(passages, encoder hidden)``, pooled passage vectors, which depend on the
        tokens alone, and how many of its passages went through the transformer. With structural embeddings these are
        all, and the pooled vectors None.
    """
    if encoder.model.structural_embeddings is not None:
        for segmented in documents:
            yield encode_all_levels(encoder, segmented), None, len(segmented.passages)
        return
    vectors: dict[str, Vectors] = {}
    if known_ids:
        rows = store.select(["content_hash", "encoder_vector"], "encoder_vector IS NOT NULL", ids=known_ids)
        vectors = dict(zip(rows.column("content_hash").to_pylist(), vectors_of(rows, "encoder_vector"), strict=True))
    hashes = [[tokens_hash(ids) for ids in segmented.token_ids] for segmented in documents]
    new: dict[str, tuple[int, ...]] = {}
    counts = []
    for segmented, names in zip(documents, hashes, strict=True):
        before = len(new)
        for token_ids, name in zip(segmented.token_ids, names, strict=True):
            if name not in vectors:
                new.setdefault(name, token_ids)
        counts.append(len(new) - before)
    if new:
        survive_forks()
        batch = GraphBatch.from_passages(tuple(new.values())).to(encoder.device)
        with inference(encoder.model), encoder.computing_in(None):
            vectors.update(zip(new, as_numpy(encoder.model.encode_passages(batch)), strict=True))
        give_back_memory()
    for segmented, names, count in zip(documents, hashes, counts, strict=True):
        pooled = np.stack([vectors[name] for name in names])
        yield encode_all_levels(encoder, replace(segmented, passage_vectors=pooled)), pooled, count
