"""The sentences of documents in one row, with the places of their paragraphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SentenceSet:
    """The sentences of some documents, one after the other.

    Args:
        vectors: ``(sentences, width)``, of unit length; may be mapped from a file.
        paragraphs: ``(paragraphs + 1,)``, the first sentence of every paragraph, and the number of sentences.
        documents: ``(documents + 1,)``, the first paragraph of every document, and the number of paragraphs.

    Raises:
        ValueError: places do not fit together, or a paragraph or document is empty.
    """

    vectors: Vectors
    paragraphs: Rows
    documents: Rows

    def __post_init__(self) -> None:
        for name, places, end in (
            ("paragraphs", self.paragraphs, len(self.vectors)),
            ("documents", self.documents, len(self.paragraphs) - 1),
        ):
            if len(places) < 2 or places[0] != 0 or places[-1] != end or (np.diff(places) < 1).any():
                raise ValueError(f"{name} must rise from 0 to {end}, a row at least each, not {places.tolist()[:5]}")

    @classmethod
    def of(cls, vectors: Sequence[npt.ArrayLike], paragraphs: Sequence[npt.ArrayLike]) -> SentenceSet:
        """Put the sentences of documents in one row, their vectors at unit length; a vector of zeros stays so.

        Args:
            vectors: ``(sentences, width)`` of every document.
            paragraphs: ``(sentences,)`` of every document, the paragraph of every sentence, rising.
        """
        rows = np.concatenate([np.asarray(one, np.float32) for one in vectors])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        starts, documents, sentences = [], [0], 0
        for own in map(np.asarray, paragraphs):
            begins = np.flatnonzero(np.diff(own, prepend=-1))
            starts.append(begins + sentences)
            sentences += len(own)
            documents.append(documents[-1] + len(begins))
        return cls(
            (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32),
            np.append(np.concatenate(starts), sentences).astype(np.int64),
            np.array(documents, np.int64),
        )

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1

    def document(self, number: int) -> SentenceSet:
        """One document of them."""
        return self.part(number, number + 1)

    def part(self, first: int, last: int) -> SentenceSet:
        """Some documents that follow each other: the first, and one past the last."""
        documents = self.documents[first : last + 1]
        places = self.paragraphs[documents[0] : documents[-1] + 1]
        return SentenceSet(self.vectors[places[0] : places[-1]], places - places[0], documents - documents[0])

    def paragraph_means(self) -> SentenceSet:
        """Paragraphs in place of sentences: the mean of a paragraph's sentences at unit length."""
        rows = np.arange(len(self.paragraphs), dtype=np.int64)
        return SentenceSet(_means(self.vectors, self.paragraphs), rows, self.documents)

    def document_means(self) -> SentenceSet:
        """Documents in place of sentences: the mean of a document's sentences at unit length."""
        rows = np.arange(len(self.documents), dtype=np.int64)
        return SentenceSet(_means(self.vectors, self.paragraphs[self.documents]), rows, rows)

    def undivided(self) -> SentenceSet:
        """The same sentences, each document in one paragraph."""
        rows = np.arange(len(self.documents), dtype=np.int64)
        return SentenceSet(self.vectors, self.paragraphs[self.documents], rows)

    def blocks(self, sentences: int) -> Iterator[tuple[int, int]]:
        """Blocks of documents of so many sentences, or of one that has more: the first, and one past the last."""
        ends = self.paragraphs[self.documents]
        first = 0
        while first < len(self):
            last = int(np.searchsorted(ends, ends[first] + sentences, side="right")) - 1
            last = min(max(last, first + 1), len(self))
            yield first, last
            first = last


def _means(vectors: Vectors, places: Rows) -> Vectors:
    """Means of the rows between places, at unit length; ``(places - 1, width)``."""
    ones = np.ones(len(vectors))
    # A product with a sparse matrix takes a quarter of the time of add.reduceat.
    sums = csr_matrix((ones, np.arange(len(vectors)), places), (len(places) - 1, len(vectors))) @ np.asarray(vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths > 0, lengths, 1), np.float32)
