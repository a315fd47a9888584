"""Whole documents compared by their words: counts of terms that an index keeps, and the cosine of their weights."""

from __future__ import annotations

import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .lance import DOCUMENT, LanceStore
from .results import TermPart

TERMS = "terms"
# How much more a term counts that a document has more often: its logarithm ranked worse, and its count
# (benchmarks/results/search_default.md).
_DAMPING = 0.75
_SAMPLED = 2_000
WORD = re.compile(r"[^\W_]+")
# The first number that may stand between texts that are made into terms together.
_FIRST_MARK = 907331415926535
_MOST_WORDS = 500_000

# Gives the terms of a text.
Tokenize = Callable[[str], list[str]]

_Floats = npt.NDArray[np.float64]


class TermCounts(NamedTuple):
    """Terms of a document with their counts.

    Args:
        ids: ``(terms,)``, hashes of the terms, rising.
        counts: ``(terms,)``, how often the document has each.
    """

    ids: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> TermCounts:
        """Counts by the hash of a term (:func:`term_id`)."""
        ids = np.fromiter(counts, np.uint32, len(counts))
        order = np.argsort(ids)
        return cls(ids[order], np.fromiter(counts.values(), np.uint32, len(counts))[order])

    def packed(self) -> bytes:
        """As an index keeps them, eight bytes a term."""
        return np.stack(self).tobytes()

    @classmethod
    def unpacked(cls, value: bytes | None) -> TermCounts:
        """As they were before they were packed."""
        ids, counts = np.frombuffer(value or b"", np.uint32).reshape(2, -1)
        return cls(ids, counts)


def term_id(term: str) -> int:
    """The hash that stands for a term, of 32 bits."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def terms_of(texts: Sequence[str], tokenize: Tokenize) -> list[list[str]]:
    """The terms of many texts, by one call, since a call takes longer than a short text."""
    if not texts:
        return []
    # Numbers stay as they are: one that no text holds is put between them.
    numbers = map(str, itertools.count(_FIRST_MARK))
    mark = next(number for number in numbers if not any(number in text for text in texts))
    terms: list[list[str]] = [[]]
    for term in tokenize(f" {mark} ".join(texts)):
        if term == mark:
            terms.append([])
        else:
            terms[-1].append(term)
    return terms


class TermCounter:
    """Counts terms of documents, each word of which is made into a term once.

    Args:
        tokenize: gives the terms of a text.
    """

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._ids: dict[str, tuple[int, ...]] = {}

    def count(self, text: str) -> TermCounts:
        """The terms of a text with their counts."""
        words = Counter(WORD.findall(text))
        if len(self._ids) > _MOST_WORDS:
            self._ids.clear()
        new = [word for word in words if word not in self._ids]
        for word, terms in zip(new, terms_of(new, self._tokenize), strict=True):
            self._ids[word] = tuple(map(term_id, terms))
        counts: dict[int, int] = {}
        for word, count in words.items():
            for id in self._ids[word]:
                counts[id] = counts.get(id, 0) + count
        return TermCounts.of(counts)


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

    @classmethod
    def of_index(cls, store: LanceStore) -> TermWeights:
        """Weights of terms in an index, by at most about 2,000 documents that stand evenly over it."""
        rows = store.sample([TERMS], DOCUMENT, _SAMPLED)
        return cls([TermCounts.unpacked(value) for value in rows.column(TERMS).to_pylist()])

    def frequencies(self, ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """How many documents have each term, ``(terms,)``."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int64)
        places = np.searchsorted(self._ids, ids).clip(max=len(self._ids) - 1)
        return np.where(self._ids[places] == ids, self._frequencies[places], 0)

    def unit(self, terms: TermCounts) -> _Floats:
        """The weights of a document's terms, L2-normalised, ``(terms,)``."""
        rarity = 1 + np.log((1 + self.documents) / (1 + self.frequencies(terms.ids)))
        weights = terms.counts**_DAMPING * rarity
        return np.asarray(weights / (np.linalg.norm(weights) or 1.0))


class QueryTerms:
    """The terms of a query document, compared with those of other documents.

    Args:
        words: terms of its text, each with the word as it stands there and its count.
        weights: how much terms count.
    """

    def __init__(self, words: Sequence[tuple[str, str, int]], weights: TermWeights) -> None:
        self._words = {term_id(term): word for term, word, _ in words}
        self._terms = TermCounts.of({term_id(term): count for term, _, count in words})
        self._weights, self._unit = weights, weights.unit(self._terms)

    def cosine(self, document: TermCounts) -> float:
        """The cosine of the weights of both documents."""
        return float(self._parts(document)[1].sum())

    def explain(self, document: TermCounts, documents: int) -> tuple[TermPart, ...]:
        """What every term that both documents have adds to their cosine, largest first.

        Args:
            document: terms of the other document.
            documents: documents of the collection, of which the weights may have seen a sample.
        """
        places, parts = self._parts(document)
        ids, scale = document.ids[places], documents / max(1, self._weights.documents)
        found = zip(ids.tolist(), document.counts[places].tolist(), self._weights.frequencies(ids), parts, strict=True)
        terms = [TermPart(self._words[id], count, round(scale * df), float(part)) for id, count, df, part in found]
        return tuple(sorted(terms, key=lambda part: (-part.part, part.term)))

    def _parts(self, document: TermCounts) -> tuple[npt.NDArray[np.int64], _Floats]:
        """Where the terms that both have stand in the document, and what each adds to the cosine."""
        _, here, there = np.intersect1d(self._terms.ids, document.ids, True, return_indices=True)
        return there, self._unit[here] * self._weights.unit(document)[there]
