"""Terms of whole documents with their counts, and how much they count in a collection."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count as numbers_from
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# How much more a term counts that a document has more often (benchmarks/results/search_default.md).
DAMPING = 0.75
# The first number that may stand between texts that are made into terms together.
_FIRST_MARK = 907331415926535

# Gives the terms of a text.
Tokenize = Callable[[str], list[str]]


class TermCounts(NamedTuple):
    """Terms of a document with their counts.

    Args:
        ids: ``(terms,)``, hashes of the terms, rising.
        counts: ``(terms,)``, how often the document has each.
    """

    ids: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]

    @classmethod
    def from_counts(cls, counts: Mapping[str, int]) -> TermCounts:
        """Counts by term."""
        ids, places = np.unique(np.array([term_id(term) for term in counts], np.uint32), return_inverse=True)
        return cls(ids, np.bincount(places, list(counts.values()), len(ids)).astype(np.uint32))

    def packed(self) -> bytes:
        """As an index keeps them, eight bytes a term."""
        return np.stack(self).tobytes()

    @classmethod
    def unpacked(cls, value: bytes | None) -> TermCounts:
        """As they were before they were packed."""
        ids, counts = np.frombuffer(value or b"", np.uint32).reshape(2, -1)
        return cls(ids, counts)


@lru_cache(maxsize=100_000)
def term_id(term: str) -> int:
    """The hash that stands for a term, of 32 bits."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def terms_of(texts: Sequence[str], tokenize: Tokenize) -> list[list[str]]:
    """The terms of many texts."""
    terms, ends = marked_terms(texts, tokenize)
    return [terms[start + 1 : end] for start, end in pairwise([-1, *ends.tolist()])]


def marked_terms(texts: Sequence[str], tokenize: Tokenize) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The terms of many texts, by one call, since a call takes longer than a short text.

    Returns:
        The terms, with a mark behind those of each text, and where the marks stand, ``(texts,)``.
    """
    # Numbers stay as they are: one that no text holds is put behind each.
    joined = " ".join(texts)
    mark = next(number for number in map(str, numbers_from(_FIRST_MARK)) if number not in joined)
    terms = tokenize("".join(f"{text} {mark} " for text in texts))
    return terms, np.array([place for place, term in enumerate(terms) if term == mark], np.int64)


class TermWeights:
    """How much terms count in a collection: tf-idf, of which documents are compared by the cosine.

    A term weighs ``count ** 0.75 * (1 + log((1 + documents) / (1 + documents with the term)))``.

    Args:
        documents: terms of the documents of the collection, or of a sample of them.
    """

    def __init__(self, documents: Sequence[TermCounts]) -> None:
        self.documents = len(documents)
        every = np.concatenate([document.ids for document in documents]) if documents else np.zeros(0, np.uint32)
        self._ids, self._frequencies = np.unique(every, return_counts=True)

    def frequencies(self, ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """How many documents have each term, ``(terms,)``."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int64)
        places = np.searchsorted(self._ids, ids).clip(max=len(self._ids) - 1)
        return np.where(self._ids[places] == ids, self._frequencies[places], 0)

    def unit(self, terms: TermCounts) -> npt.NDArray[np.float64]:
        """The weights of a document's terms, L2-normalized, ``(terms,)``."""
        rarity = 1 + np.log((1 + self.documents) / (1 + self.frequencies(terms.ids)))
        weights = terms.counts**DAMPING * rarity
        return np.asarray(weights / (np.linalg.norm(weights) or 1.0))
