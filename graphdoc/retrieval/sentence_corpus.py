"""Where the sentences of documents that are ranked come from: an index that keeps them, or the encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..inference.pipeline import EncodingPipeline
from ..runtime.progress import progress_bar
from ..settings.document import Paragraph
from ..similarity.hierarchical import SentenceSet
from .lance import LanceStore
from .rows import DOCUMENT, document_of
from .sentences import COLUMNS, SentenceBlock, Sentences, blocks_of, encode_sentences, sentence_set, stored_sentences

# Sentences that are scored together: enough that a product is worth its while, and some 25 MB of vectors.
BLOCK_SENTENCES = 16_384
# Documents whose rows are looked up, or that are encoded, together.
_BLOCK_DOCUMENTS = 64
# Passages that documents have, which are read together; a passage is about five sentences.
_READ_PASSAGES, _READ_DOCUMENTS = 2_000, 256
# Sentences of the documents that z-scores come from, where there are more.
_SAMPLE_SENTENCES = 100_000

_DOCUMENT_COLUMNS = ("id", "title", "document_text", "structure", "content_hash")


@dataclass(frozen=True, slots=True, eq=False)
class PlacedDocument:
    """A document with its sentences, to be shown beside another one.

    Args:
        sentences: its sentences.
        headings: heading of every section.
        texts: text of every section.
        title: its title, empty when there is none.
        version: hash of what the index holds of it; None for the document that is asked with.
    """

    sentences: Sentences
    headings: Sequence[str]
    texts: Sequence[str]
    title: str = ""
    version: str | None = None

    @classmethod
    def of(cls, document: Document, sentences: Sentences, version: str | None = None) -> PlacedDocument:
        """A document whose text is known."""
        headings, texts = ([getattr(one, name) for one in document.sections] for name in ("heading", "text"))
        return cls(sentences, headings, texts, document.title, version)


class SentenceCorpus(Protocol):
    """Documents that can be ranked by their sentences."""

    def ids(self) -> list[str]:
        """Ids of all documents that have sentences."""

    def blocks(self, ids: Sequence[str] | None = None, least: int = BLOCK_SENTENCES) -> Iterator[SentenceBlock]:
        """The sentences of some documents, or of all, in blocks of so many sentences at least."""

    def placed(self, id: str) -> PlacedDocument | None:
        """A document with its sentences; None where there is none, or none any more."""


def sample_of(corpus: SentenceCorpus, without: str | None, most: int = _SAMPLE_SENTENCES) -> SentenceSet | None:
    """The sentences of all documents of a corpus but one, or of a sample where there are too many.

    Which documents are in the sample depends on their ids alone, so that it is the same for every search, and changes
    little when the corpus does.

    Args:
        corpus: the documents.
        without: id of a document that is left out.
        most: sentences from which on no further documents are taken.

    Returns:
        The documents; None where there is no other.
    """
    ids = sorted((id for id in corpus.ids() if id != without), key=_drawn)
    block = next(corpus.blocks(ids, most), None) if ids else None
    return None if block is None else block.sentences


def _drawn(id: str) -> bytes:
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass(frozen=True, slots=True, eq=False)
class KeptSentences:
    """The documents of an index that keeps sentences.

    Args:
        store: the index.
        where: a condition that documents have to meet, in the SQL of the store.
    """

    store: LanceStore
    where: str | None = None

    def ids(self) -> list[str]:
        """Ids of all documents that have sentences."""
        return list(self.store.select(["id"], self._condition()).column("id").to_pylist())

    def blocks(self, ids: Sequence[str] | None = None, least: int = BLOCK_SENTENCES) -> Iterator[SentenceBlock]:
        """The sentences of some documents, or of all, in blocks of so many sentences at least."""
        yield from blocks_of(self._rows(ids), least)

    def placed(self, id: str) -> PlacedDocument | None:
        """A document with its sentences; None where there is none, or none any more."""
        rows = self.store.select([*_DOCUMENT_COLUMNS, *COLUMNS], _IS_DOCUMENT, ids=[id])
        ids, vectors, places, _ = stored_sentences(rows)
        if not ids:
            return None
        (row,) = rows.to_pylist()
        return PlacedDocument.of(document_of(row), Sentences(vectors, places), row["content_hash"])

    def _rows(self, ids: Sequence[str] | None) -> Iterator[Any]:
        columns = ["id", *COLUMNS]
        if ids is None:
            state = self.store.state()
            most = _READ_PASSAGES * state.documents // max(1, state.passages)
            yield from self.store.batches(columns, self._condition(), most=max(1, min(_READ_DOCUMENTS, most)))
            return
        for start in range(0, len(ids), _BLOCK_DOCUMENTS):
            yield self.store.select(columns, self._condition(), ids=ids[start : start + _BLOCK_DOCUMENTS])

    def _condition(self) -> str:
        return _IS_DOCUMENT if self.where is None else f"{_IS_DOCUMENT} AND ({self.where})"


@dataclass(frozen=True, slots=True, eq=False)
class SentencesNow:
    """Some documents of an index that keeps no sentences, which are encoded when they are needed, and once.

    Args:
        store: the index.
        encoder: its encoder.
        paragraph: which sentences belong together.
        chosen: ids of the documents.
        known: their sentences, as far as they were encoded.
    """

    store: LanceStore
    encoder: EncodingPipeline
    paragraph: Paragraph
    chosen: Sequence[str]
    known: dict[str, Sentences] = field(default_factory=dict)

    def ids(self) -> list[str]:
        """Ids of the documents."""
        return list(self.chosen)

    def blocks(self, ids: Sequence[str] | None = None, least: int = BLOCK_SENTENCES) -> Iterator[SentenceBlock]:
        """The sentences of some documents, or of all, in blocks of so many sentences at least."""
        wanted = list(self.chosen if ids is None else ids)
        waiting: list[str] = []
        with progress_bar(None, sum(id not in self.known for id in wanted)) as bar:
            for start in range(0, len(wanted), _BLOCK_DOCUMENTS):
                some = wanted[start : start + _BLOCK_DOCUMENTS]
                self._encode([id for id in some if id not in self.known], bar)
                waiting += [id for id in some if id in self.known]
                if sum(len(self.known[id].places) for id in waiting) >= least:
                    yield self._block(waiting)
                    waiting = []
        if waiting:
            yield self._block(waiting)

    def placed(self, id: str) -> PlacedDocument | None:
        """A document with its sentences; None where there is none, or none any more."""
        rows = self.store.select(list(_DOCUMENT_COLUMNS), _IS_DOCUMENT, ids=[id]).to_pylist()
        if not rows or id not in self.known:
            return None
        return PlacedDocument.of(document_of(rows[0]), self.known[id], rows[0]["content_hash"])

    def _encode(self, ids: Sequence[str], bar: tqdm[Any]) -> None:
        rows = self.store.select(list(_DOCUMENT_COLUMNS), _IS_DOCUMENT, ids=ids).to_pylist() if ids else []
        documents = [document_of(row) for row in rows]
        encoded = encode_sentences(self.encoder, documents, self.paragraph, bar=bar)
        for document, own in zip(documents, encoded, strict=True):
            self.known[document.id] = own

    def _block(self, ids: Sequence[str]) -> SentenceBlock:
        own = [self.known[id] for id in ids]
        vectors = np.concatenate([one.vectors for one in own])
        paragraphs = np.concatenate([one.places[:, 3] for one in own])
        return SentenceBlock(list(ids), sentence_set(vectors, paragraphs, [len(one.places) for one in own]))


_IS_DOCUMENT = f"level = '{DOCUMENT}'"
