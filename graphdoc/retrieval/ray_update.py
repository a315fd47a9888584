"""Documents encoded for an index on a Ray cluster; the process that updates the index writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..documents.document import Document
from ..errors import DocumentError
from ..inference.segmenting import Workers, require_text, segment_in_order
from ..settings.document import Paragraph
from ..vectors.writer import EncoderOnRay
from .encoding import Encoded, Known, encode_for_index

# About as much as a window of passages holds.
_BATCH_CHARACTERS = 2_000_000


@dataclass(frozen=True, slots=True)
class EncodingTask:
    """Documents to encode together.

    Args:
        documents: the documents.
        known: pooled vectors of their passages that the index has.
        versions: of the libraries of the process that writes.
        may_skip: whether a document without text is left out.
        paragraph: which sentences belong together, where the index keeps sentences.
    """

    documents: tuple[Document, ...]
    known: Known
    versions: Mapping[str, str]
    may_skip: bool
    paragraph: Paragraph | None = None


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Documents that were encoded, and those that could not be.

    Args:
        encoded: the documents with their vectors.
        failed: ids of the others, with reasons.
    """

    encoded: tuple[Encoded, ...]
    failed: tuple[tuple[str, str], ...]


class PassageEncoder(EncoderOnRay):
    """Encodes documents for an index in a process of a cluster."""

    def encode(self, task: EncodingTask) -> EncodedBatch:
        """Encode documents.

        Raises:
            DocumentError: one has no text.
            OutputError: this process has other versions of the libraries.
        """
        self.require_versions(task.versions)
        failed, window = [], []
        for segmented in segment_in_order(task.documents, self.encoder.segmenter, Workers(0)):
            try:
                require_text(segmented)
            except DocumentError as error:
                if not task.may_skip:
                    raise
                failed.append((segmented.document.id, str(error)))
                continue
            window.append(segmented)
        encoded = encode_for_index(self.encoder, window, task.known, task.paragraph)
        return EncodedBatch(tuple(encoded), tuple(failed))


def batches_of(documents: Iterable[Document]) -> Iterator[tuple[Document, ...]]:
    """Gather documents until they hold some millions of characters."""
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += sum(len(section.text) for section in document.sections)
        if characters >= _BATCH_CHARACTERS:
            yield tuple(batch)
            batch, characters = [], 0
    if batch:
        yield tuple(batch)
