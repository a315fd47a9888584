"""The words that the lexical part of a document's vectors is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class WordPart(NamedTuple):
    """A word of both documents, and what it adds to their score.

    Args:
        word: the word as the first document writes it.
        contribution: what it adds.
    """

    word: str
    contribution: float


@dataclass(frozen=True, eq=False)
class LexicalShares:
    """The terms of a document, and what each adds to the lexical part of its vectors, their last numbers.

    Args:
        words: ``(terms,)``, every term as it is first written.
        rows: ``(terms,)``, their rows in the model, rising.
        table: ``(terms, numbers)``, the vectors of the terms.
        of_document: sparse ``(passages, terms)``; with the table it gives the lexical part of the passages' terms.
        of_passages: sparse ``(passages, terms)``; with the table it gives that of the passages' own vectors.
    """

    words: tuple[str, ...]
    rows: npt.NDArray[np.int64]
    table: Floats
    of_document: Any
    of_passages: Any

    @property
    def numbers(self) -> int:
        """Numbers of a vector that are lexical, the last ones."""
        return int(self.table.shape[1])


def shared_words(
    a: LexicalShares, b: LexicalShares, shares: tuple[Any, Any], weights: Floats, parts: tuple[Floats, Floats]
) -> tuple[list[WordPart], float]:
    r"""The words that two documents share, by what they add to the score, and what all other words add.

    Lexical vectors mix words, so that a word of one document meets all words of the other. With weights w of pairs of
    passages, shares x and y of a term's vector v in these and lexical vectors :math:`\ell` of passages, a term adds

    .. math:: \frac 1 2 \sum_{ij} w_{ij} (x_{it} \, v_t \cdot \ell^b_j + y_{jt} \, v_t \cdot \ell^a_i),

    which over all terms of either document adds up to the lexical part of the score.

    Args:
        a: first document.
        b: second document.
        shares: of every document the shares of terms in the vectors that are compared, sparse ``(passages, terms)``.
        weights: ``(passages of a, passages of b)``, the weight of every pair's dot product in the score.
        parts: of every document the lexical vectors that are compared, ``(passages, numbers)``.

    Returns:
        The words of both, the greatest first; what the words that only one of them has add.
    """
    own = _halves(a, shares[0], weights @ parts[1])
    other = _halves(b, shares[1], weights.T @ parts[0])
    _, first, second = np.intersect1d(a.rows, b.rows, assume_unique=True, return_indices=True)
    both = own[first] + other[second]
    order = np.lexsort((a.rows[first], -both))
    words = [WordPart(a.words[first[place]], float(both[place])) for place in order.tolist()]
    return words, float(own.sum() + other.sum() - both.sum())


def _halves(document: LexicalShares, shares: Any, met: Floats) -> Floats:
    """Half of what every term of a document meets in the other, ``(terms,)``."""
    return np.asarray(0.5 * ((shares.T @ met) * document.table).sum(axis=1), np.float64)
