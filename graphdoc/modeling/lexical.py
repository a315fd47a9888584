r"""The lexical part of a model: the words of a text as a vector next to that of its passages.

A text with c_t occurrences of term t has the vector

.. math:: \ell = \sum_t (1 + \ln c_t) \, \mathrm{idf}_t \, v_t, \quad \mathrm{idf}_t = 1 + \ln \frac{1 + n}{1 + n_t}

where n_t of n documents have the term, and v_t is its row in the table of a truncated singular value decomposition of
such weights (latent semantic analysis, Deerwester et al. 1990), or has 1 or -1 in one random place, so that dot
products are kept in expectation (feature hashing, Weinberger et al. 2009, eq. 2). It is brought to unit length. Where
vectors of terms are learned, the mean of all documents is then subtracted, and the rest brought to unit length again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..runtime.arrays import Floats, Vectors
from ..segmentation.spans import SegmentedDocument
from ..segmentation.terms import TermMaker
from ..settings.document import LexicalSettings

# ``(texts, terms)`` in the form of scipy.
Counts = Any

# The row of the mean that is subtracted, among those of terms.
MEAN_ROW = -1


class LexicalPart(nn.Module):
    """Turns counts of terms into lexical vectors.

    Attributes:
        idf: ``(terms,)``, inverse document frequencies.
        components: ``(terms, size)``, the vectors of terms as they were learned; no rows where they are random.
        mean: ``(size,)``, the mean of documents' vectors of unit length; zeros where vectors of terms are random.
    """

    idf: Tensor
    components: Tensor
    mean: Tensor

    def __init__(self, settings: LexicalSettings) -> None:
        super().__init__()
        self.settings = settings
        self.rows: dict[str, int] = {}
        self.register_buffer("idf", torch.zeros(settings.terms))
        is_learned = settings.projection == "decomposition"
        self.register_buffer("components", torch.zeros(settings.terms if is_learned else 0, settings.size))
        self.register_buffer("mean", torch.zeros(settings.size if is_learned else 0))
        self._signs = None if is_learned else random_signs(settings.terms, settings.size)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The terms in the order of rows."""
        return tuple(self.rows)

    @vocabulary.setter
    def vocabulary(self, terms: Sequence[str]) -> None:
        self.rows = {term: row for row, term in enumerate(terms)}

    @property
    def has_mean(self) -> bool:
        """Whether a mean is subtracted."""
        return self._signs is None

    @property
    def table(self) -> Any:
        """The vectors of terms, ``(terms, size)``; sparse where they are random."""
        return self.components.cpu().numpy() if self._signs is None else self._signs

    def weights(self, counts: Counts) -> Counts:
        """The tf-idf weights of counts, ``(texts, terms)``, not brought to any length."""
        return tf_idf(counts, self.idf.cpu().numpy())

    def project(self, weights: Counts) -> Vectors:
        """Lexical vectors of weights, ``(texts, size)``, neither centred nor brought to any length."""
        return np.asarray(_dense(weights.astype(np.float32) @ self.table), np.float32)

    def centred(self, vectors: npt.NDArray[Any]) -> Floats:
        """Vectors brought to unit length, without the mean and brought to unit length again; zeros stay zeros."""
        unit = vectors.astype(np.float64) / row_lengths(vectors)[:, None]
        if self.has_mean:
            unit -= self.mean.cpu().numpy() * unit.any(axis=1, keepdims=True)
            unit /= row_lengths(unit)[:, None]
        return unit


def random_signs(terms: int, size: int) -> Any:
    """Vectors of terms with 1 or -1 in one place each, sparse ``(terms, size)``; always the same ones."""
    # The finalizer of SplitMix64 (Steele et al. 2014) spreads neighbouring rows over all bits.
    mixed = (np.arange(terms, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    signs = np.where(mixed >> np.uint64(63), 1, -1).astype(np.float32)
    places = ((mixed & np.uint64(0xFFFFFFFF)) % np.uint64(size)).astype(np.int64)
    return sparse.csr_matrix((signs, places, np.arange(terms + 1)), (terms, size))


def tf_idf(counts: Counts, idf: npt.NDArray[Any]) -> Counts:
    """Weights of terms: one more than the logarithm of their counts, times ``(terms,)`` idf."""
    weights = sparse.csr_matrix(counts, dtype=np.float64, copy=True)
    weights.data = (1.0 + np.log(weights.data)) * idf[weights.indices]
    return weights


def unit_rows(weights: Counts) -> Counts:
    """Sparse rows brought to the length 1; rows of zeros stay so."""
    lengths = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
    return (sparse.diags(1 / np.where(lengths > 0, lengths, 1.0)) @ weights).tocsr()


def inverse_frequencies(documents: int, frequencies: npt.NDArray[np.int64]) -> Vectors:
    """Inverse document frequencies, ``(terms,)``; 0 for terms that no document has."""
    idf = np.log((1 + documents) / (1 + frequencies)) + 1.0
    return np.where(frequencies > 0, idf, 0.0).astype(np.float32)


@dataclass(frozen=True, eq=False)
class LexicalShares:
    """The terms of a document, and what each adds to the lexical part of its vectors, their last numbers.

    Args:
        words: ``(terms,)``, every term as it is first written.
        rows: ``(terms,)``, their rows in the model, rising; :data:`MEAN_ROW` stands first for the mean that a model
            subtracts, if it does, as if it were a term.
        table: ``(terms, size)``, the vectors of the terms.
        of_document: sparse ``(passages, terms)``; with the table it gives the lexical part of the passages' terms.
        of_passages: sparse ``(passages, terms)``; with the table it gives that of the passages' own vectors.
    """

    words: tuple[str, ...]
    rows: npt.NDArray[np.int64]
    table: Floats
    of_document: Any
    of_passages: Any

    @property
    def size(self) -> int:
        """Numbers of a vector that are lexical, the last ones."""
        return int(self.table.shape[1])


class LexicalReader:
    """Reads the words of texts for a model; ``weight`` is the length of its lexical vectors."""

    def __init__(self, part: LexicalPart, weight: float) -> None:
        self.part, self.weight = part, weight
        self._maker = TermMaker(part.settings.language)

    @property
    def size(self) -> int:
        """Size of a lexical vector."""
        return self.part.settings.size

    def counts(self, texts: Iterable[str]) -> Counts:
        """How often texts have every term, sparse ``(texts, terms)``."""
        columns: list[int] = []
        ends = [0]
        for text in texts:
            columns += [row for row in map(self.part.rows.get, self._maker.occurrences(text)) if row is not None]
            ends.append(len(columns))
        shape = len(ends) - 1, self.part.settings.terms
        counts = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape, np.float32)
        counts.sum_duplicates()
        return counts

    def vectors(self, counts: Counts) -> Vectors:
        """Lexical vectors of the length ``weight``, ``(texts, size)``; zeros for a text without a known word."""
        return np.asarray(self.part.centred(self.part.project(self.part.weights(counts))) * self.weight, np.float32)

    def unit_weights(self, counts: Counts) -> Counts:
        """The L2-normalized tf-idf weights of terms, sparse ``(texts, terms)``, which heads read."""
        return unit_rows(self.part.weights(counts))

    def of_documents(self, documents: Sequence[SegmentedDocument]) -> Counts:
        """The unit tf-idf weights of whole documents, sparse ``(documents, terms)``."""
        counts = self.counts(text for document in documents for text in document.texts)
        return self.unit_weights(summed(counts, passage_numbers(documents), len(documents)))

    def append_to(self, vectors: Tensor, counts: Counts) -> Tensor:
        """Vectors ``(rows, hidden)`` L2-normalized, followed by the lexical vectors of their texts.

        Args:
            vectors: ``(rows, hidden)``.
            counts: sparse ``(rows, terms)``.

        Returns:
            ``(rows, hidden + size)``.
        """
        lexical = torch.from_numpy(self.vectors(counts)).to(vectors.device)
        return torch.cat([normalize(vectors.float(), dim=-1), lexical], dim=-1)

    def split(self, segmented: SegmentedDocument, counts: Counts) -> tuple[Floats, LexicalShares]:
        """The lexical vector of a document, split by passages and terms in proportion to ``(passages, terms)`` counts.

        Returns:
            ``(passages, size)``, which adds up to the lexical vector of the document; its terms.
        """
        rows, of_document = self._split_weights(counts)
        table = np.asarray(_dense(self.part.table[rows]), np.float64)
        of_passages = self.part.weights(counts)[:, rows]
        words = self.surface_forms(segmented.texts, rows)
        # The mean is shared by the passages that have words, in equal parts.
        has_words = np.diff(of_passages.indptr) > 0
        of_document = self._scaled(of_document, table, has_words / max(has_words.sum(), 1), together=True)
        of_passages = self._scaled(of_passages, table, has_words.astype(np.float64), together=False)
        if self.part.has_mean:
            words, rows = ("", *words), np.append(MEAN_ROW, rows)
            table = np.vstack([self.part.mean.cpu().numpy(), table])
        return np.asarray(of_document @ table, np.float64), LexicalShares(words, rows, table, of_document, of_passages)

    def _scaled(self, weights: Counts, table: Floats, of_mean: Floats, *, together: bool) -> Counts:
        """Weights of terms ``(passages, terms)`` that with their table give centred vectors of the length of the part.

        ``of_mean`` says how often the mean is subtracted from each; ``together`` whether they add up to one vector.
        """

        def of_unit_length(weights: Counts, table: Floats) -> Counts:
            vectors = weights @ table
            lengths = row_lengths(vectors.sum(axis=0, keepdims=True) if together else vectors)
            return weights.multiply(1 / lengths[:, None]).tocsr()

        weights = of_unit_length(weights, table)
        if self.part.has_mean:
            weights = sparse.hstack([sparse.csr_matrix(-of_mean[:, None]), weights], format="csr")
            weights = of_unit_length(weights, np.vstack([self.part.mean.cpu().numpy(), table]))
        return weights * self.weight

    def unit_shares(self, counts: Counts) -> tuple[npt.NDArray[np.int64], Counts]:
        """The tf-idf weights of a document, of the length 1, split by passages as its lexical vector is.

        Returns:
            ``(terms,)``, the rows of its terms; their weights, sparse ``(passages, terms)``.
        """
        rows, weights = self._split_weights(counts)
        return rows, weights / float(row_lengths(weights.sum(axis=0))[0])

    def surface_forms(self, texts: Iterable[str], rows: npt.NDArray[np.int64]) -> tuple[str, ...]:
        """Terms that occur in texts, by their rows, each as it is first written there."""
        wanted, words = set(rows.tolist()), dict[int, str]()
        for text in texts:
            for term, word in self._maker.placed(text):
                if (row := self.part.rows.get(term)) is not None and row in wanted:
                    words.setdefault(row, word)
        return tuple(words[row] for row in rows.tolist())

    def _split_weights(self, counts: Counts) -> tuple[npt.NDArray[np.int64], Counts]:
        """The rows of the terms of a document, and their tf-idf weights in it, sparse ``(passages, terms)``."""
        rows = np.unique(counts.indices).astype(np.int64)
        counts = counts[:, rows].astype(np.float64)
        totals = np.maximum(np.asarray(counts.sum(axis=0)).ravel(), 1)
        weights = (1 + np.log(totals)) * self.part.idf.cpu().numpy()[rows]
        return rows, counts.multiply((weights / totals)[None]).tocsr()


@dataclass(frozen=True, eq=False)
class PassageTerms:
    """The terms of a document, with those of its title and headings in equal parts over its passages.

    Args:
        terms: ``(terms,)``.
        words: ``(terms,)``, every term as it is first written.
        counts: how often passages have each, sparse ``(passages, terms)``.
    """

    terms: tuple[str, ...]
    words: tuple[str, ...]
    counts: Any

    @classmethod
    def from_segmented(cls, segmented: SegmentedDocument, language: str) -> PassageTerms:
        """Read a document."""
        document, maker = segmented.document, TermMaker(language)
        sections = dict.fromkeys(passage.section for passage in segmented.passages)
        above = [document.title, *(document.sections[section].heading for section in sections)]
        written: dict[str, str] = {}
        row_of: dict[str, int] = {}
        columns: list[int] = []
        ends = [0]
        for text in ("\n".join(filter(None, above)), *segmented.texts):
            for term, word in maker.placed(text):
                written.setdefault(term, word)
                columns.append(row_of.setdefault(term, len(row_of)))
            ends.append(len(columns))
        found: Any = sparse.csr_matrix((np.ones(len(columns)), columns, ends), (len(ends) - 1, len(row_of)))
        found.sum_duplicates()
        shared = sparse.csr_matrix(np.full((len(ends) - 2, 1), 1 / max(len(ends) - 2, 1))) @ found[:1]
        return cls(tuple(row_of), tuple(written[term] for term in row_of), (found[1:] + shared).tocsr())

    def totals(self, kept: npt.NDArray[np.bool_] | None = None) -> dict[str, float]:
        """How often the document has each term, or those of its passages that are ``kept``."""
        counts = self.counts if kept is None else self.counts[np.flatnonzero(kept)]
        sums = np.asarray(counts.sum(axis=0)).ravel()
        return {term: count for term, count in zip(self.terms, sums.tolist(), strict=True) if count > 1e-9}


def passage_numbers(documents: Sequence[SegmentedDocument]) -> npt.NDArray[np.int64]:
    """The document of every passage, ``(passages,)``."""
    return np.repeat(np.arange(len(documents)), [len(document.passages) for document in documents])


def summed(counts: Counts, group_of: npt.NDArray[np.int64], groups: int) -> Counts:
    """Counts ``(texts, terms)`` added up by group, sparse ``(groups, terms)``; ``group_of`` is ``(texts,)``."""
    members: Any = sparse.csr_matrix(
        (np.ones(len(group_of), np.float32), (group_of, np.arange(len(group_of)))), (groups, len(group_of))
    )
    return (members @ counts).tocsr()


def _dense(table: Any) -> Any:
    return table.toarray() if sparse.issparse(table) else table


def row_lengths(vectors: npt.NDArray[Any]) -> Floats:
    """The lengths of rows, ``(rows,)``; 1 for those of zeros."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return np.asarray(np.where(lengths > 0, lengths, 1.0))
