"""What repeats in an index, found over all of its documents at maintenance, and documents made anew without it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..inference.segmenting import require_text, windows_of
from ..runtime.progress import progress_bar
from ..segmentation.repeats import Place, RepeatCounter
from ..segmentation.spans import SegmentedDocument
from ..similarity.kinds import similarity_of
from .encoding import encode_for_index, known_vectors
from .fields import Fields
from .lance import LanceStore
from .record import leaves_out_repeats, paragraph_of
from .rows import DOCUMENT_COLUMNS, REPEATED, document_of, rows_of, table_of

_BLOCK = 256
_IS_DOCUMENT = "level = 'document'"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The places that an index leaves out of its documents as repeated.

    Args:
        places: by the id of a document.
    """

    places: Mapping[str, list[Place]]

    def among(self, document: Document, places: Sequence[Place]) -> tuple[list[Place], bool]:
        """Which passages of a document repeat, and whether these are so much of it that all of them count."""
        return self.places.get(document.id, []), False

    def describe(self) -> dict[str, Any]:
        """Nothing, since vectors of an index are compared with others by the model alone."""
        return {}


def left_out_of(store: LanceStore, ids: list[str]) -> LeftOut:
    """What an index leaves out of some of its documents."""
    if not leaves_out_repeats(store.record):
        return LeftOut({})
    rows = store.select(["id", REPEATED], _IS_DOCUMENT, ids=ids).to_pylist()
    return LeftOut({row["id"]: [tuple(place) for place in json.loads(row[REPEATED] or "[]")] for row in rows})


def settle_repeats(store: LanceStore, encoder: DocumentEncoder, show_progress: bool | None = None) -> int:
    """Find what repeats in an index, and make the documents anew in which other passages count than before.

    What comes out depends on the documents in the index and not on the order in which they came. Of a document that is
    made anew, only passages that were left out before go through the transformer.

    Args:
        store: the rows of the index.
        encoder: its encoder.
        show_progress: show a bar; None shows it on a terminal when the work is long.

    Returns:
        How many documents were made anew.
    """
    counter = RepeatCounter()
    for document, _ in _documents(store):
        counter.add(document)
    own = encoder.leaving_out(counter.found())
    changed = []
    for document, before in _documents(store):
        places, keeps = own.segmenter.repeated(document)
        if before != ([] if keeps else places):
            changed.append(document.id)
    with progress_bar(show_progress, len(changed), "Leaving out what repeats") as bar:
        for window in windows_of(_segmented(store, own, changed)):
            _write(store, own, window)
            bar.update(len(window))
    return len(changed)


def _documents(store: LanceStore) -> Iterator[tuple[Document, list[Place]]]:
    """All documents, with what is left out of each."""
    for batch in store.batches([*DOCUMENT_COLUMNS, REPEATED], _IS_DOCUMENT):
        for row in batch.to_pylist():
            if row["structure"] is None:
                continue
            yield document_of(row), [tuple(place) for place in json.loads(row[REPEATED] or "[]")]


def _segmented(store: LanceStore, encoder: DocumentEncoder, ids: Iterable[str]) -> Iterator[SegmentedDocument]:
    names = iter(ids)
    while block := list(islice(names, _BLOCK)):
        rows = store.select(list(DOCUMENT_COLUMNS), _IS_DOCUMENT, ids=block).to_pylist()
        for segmented in encoder.segmenter.segment_many(map(document_of, rows)):
            require_text(segmented)
            yield segmented


def _write(store: LanceStore, encoder: DocumentEncoder, window: list[SegmentedDocument]) -> None:
    """Write some documents in one commit."""
    ids = [segmented.document.id for segmented in window]
    paragraph = paragraph_of(store.record)
    fields = Fields(store.schema)
    hashes = store.select(["id", "content_hash"], _IS_DOCUMENT, ids=ids).to_pylist()
    hash_of = {row["id"]: row["content_hash"] for row in hashes}
    unit_length = similarity_of(encoder.model.config.similarity).vectors == "cosine"
    rows: list[dict[str, Any]] = []
    for encoded in encode_for_index(encoder, window, known_vectors(store, ids), paragraph):
        document = encoded.document.segmented.document
        places, keeps = encoder.segmenter.repeated(document)
        made = rows_of(
            encoded.document,
            encoded.pooled,
            fields,
            unit_length=unit_length,
            sentences=encoded.sentences,
            repeated=[] if keeps else places,
        )
        # Of what it was made of, which metadata have kept the same values, not all of the same types.
        made[0]["content_hash"] = hash_of[document.id]
        rows += made
    store.write(table_of(rows, store.schema.remove_metadata()), ids)
