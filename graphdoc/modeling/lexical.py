r"""The lexical part of a model: the words of a text as a vector beside that of its passages.

A text with c_t occurrences of term t has the vector

.. math:: \ell = \sum_t (1 + \ln c_t) \, \mathrm{idf}_t \, v_t, \quad \mathrm{idf}_t = 1 + \ln \frac{1 + n}{1 + n_t}

where n_t of n documents have the term, and v_t is its row in the table of a truncated singular value decomposition of
such weights (latent semantic analysis, Deerwester et al. 1990), or has 1 or -1 in one random place, so that dot
products are kept in expectation (feature hashing, Weinberger et al. 2009, eq. 2). It is brought to unit length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor, nn

from ..settings.document import LexicalSettings

Vectors = npt.NDArray[np.float32]
# ``(texts, terms)`` in the form of scipy.
Counts = Any


class LexicalPart(nn.Module):
    """Turns counts of terms into lexical vectors.

    Args:
        settings: its size, and what it was learned of.

    Attributes:
        idf: ``(terms,)``, inverse document frequencies.
        components: ``(terms, numbers)``, the vectors of terms as they were learned; no rows where they are random.
    """

    idf: Tensor
    components: Tensor

    def __init__(self, settings: LexicalSettings) -> None:
        super().__init__()
        self.settings = settings
        self._rows: dict[str, int] = {}
        self.register_buffer("idf", torch.zeros(settings.terms))
        is_learned = settings.projection == "decomposition"
        self.register_buffer("components", torch.zeros(settings.terms if is_learned else 0, settings.numbers))
        self._signs = None if is_learned else random_signs(settings.terms, settings.numbers)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The terms in the order of rows; none where they are hashed."""
        return tuple(self._rows)

    @vocabulary.setter
    def vocabulary(self, terms: Sequence[str]) -> None:
        self._rows = {term: row for row, term in enumerate(terms)}

    def row_of(self, term: str) -> int | None:
        """The row of a term; None where the vocabulary does not have it."""
        if self.settings.hashed:
            row = bucket_of(term, self.settings.terms)
            return row if self.idf[row] > 0 else None
        return self._rows.get(term)

    def weights(self, counts: Counts) -> Counts:
        """The tf-idf weights of counts, ``(texts, terms)``, not brought to any length."""
        return tf_idf(counts, self.idf.cpu().numpy())

    def project(self, weights: Counts) -> Vectors:
        """Lexical vectors of weights, ``(texts, numbers)``, not brought to any length."""
        table = self.components.cpu().numpy() if self._signs is None else self._signs
        found = weights.astype(np.float32) @ table
        return np.asarray(found.toarray() if sparse.issparse(found) else found, np.float32)

    def vectors_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The vectors of some terms, ``(rows, numbers)``."""
        found = self.components.cpu().numpy()[rows] if self._signs is None else self._signs[rows].toarray()
        return np.asarray(found, np.float64)


def random_signs(terms: int, numbers: int) -> Any:
    """Vectors of terms with 1 or -1 in one place each, sparse ``(terms, numbers)``; always the same ones.

    Args:
        terms: number of terms.
        numbers: numbers of a vector.
    """
    # The finaliser of SplitMix64 (Steele et al. 2014) spreads neighbouring rows over all bits.
    mixed = (np.arange(terms, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    signs = np.where(mixed >> np.uint64(63), 1, -1).astype(np.float32)
    places = ((mixed & np.uint64(0xFFFFFFFF)) % np.uint64(numbers)).astype(np.int64)
    return sparse.csr_matrix((signs, places, np.arange(terms + 1)), (terms, numbers))


def tf_idf(counts: Counts, idf: npt.NDArray[Any]) -> Counts:
    """Weights of terms: one more than the logarithm of their counts, times ``(terms,)`` idf."""
    weights = sparse.csr_matrix(counts, dtype=np.float64, copy=True)
    weights.data = (1.0 + np.log(weights.data)) * idf[weights.indices]
    return weights


def inverse_frequencies(documents: int, frequencies: npt.NDArray[np.int64]) -> Vectors:
    """Inverse document frequencies, ``(terms,)``; 0 for terms that no document has."""
    found = np.log((1 + documents) / (1 + frequencies)) + 1.0
    return np.where(frequencies > 0, found, 0.0).astype(np.float32)


def bucket_of(term: str, buckets: int) -> int:
    """The bucket that a term is hashed into."""
    return crc32(term.encode("utf-8", "surrogatepass")) % buckets
