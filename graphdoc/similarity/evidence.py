r"""Evidence: how alike documents are by words and by vectors, measured against unrelated documents.

.. math:: S(a, b) = \frac{\cos(x_a, x_b) - \mu_x}{\sigma_x} + \frac{\cos(w_a, w_b) - \mu_w}{\sigma_w}

where x are document vectors without the mean vector, w tf-idf weights of titles, headings and encoded passages, and
the means and deviations are those of unrelated pairs. Sums of z-scores fuse rankings well (Fox and Shaw 1994). What is
shown is :math:`1 / (1 + \exp((6 - S) / 3))`. Where most words of a document are unknown, as in another language, the
vectors count twice in their place, and texts that are the same count as having the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..modeling.lexical import inverse_frequencies, row_lengths, unit_rows
from ..runtime.arrays import Floats
from .encoded_document import EncodedDocument
from .kinds import Cosine, DocumentFeatures, WordPart

# Documents whose pairs are all looked at; of more, as many that stand evenly over the collection.
MOST_COMPARED = 2_000
# A score of 6 is shown as one half; unrelated pairs lie around 0, with a deviation of 1.5 to 2.
_MIDDLE, _WIDTH = 6.0, 3.0
# Share of a document's words that have to be known for words to be compared.
_LEAST_KNOWN = 0.5
# Vectors of texts with the same words are as close where these are one text, read in batches of other lengths.
_SAME = 0.99
# Cosines that deviate by less are alike.
ALIKE = 1e-3


def shown_score(score: Any) -> Any:
    """Scores from 0 to 1, which rise with the sums of z-scores.

    >>> float(shown_score(6.0))
    0.5
    """
    return 1 / (1 + np.exp((_MIDDLE - np.asarray(score, np.float64)) / _WIDTH))


def centred_units(vectors: npt.ArrayLike, centre: npt.ArrayLike) -> Floats:
    """Vectors brought to unit length, without the centre ``(hidden,)`` and of unit length again; zeros stay."""
    rows = np.asarray(vectors, np.float64)
    rows = rows / row_lengths(rows)[:, None]
    rows = np.where(rows.any(axis=1, keepdims=True), rows - np.asarray(centre, np.float64), 0.0)
    # Vectors that are all alike leave nothing but rounding.
    rows[np.linalg.norm(rows, axis=1) < 1e-6] = 0
    return np.asarray(rows / row_lengths(rows)[:, None])


def collection_idf(counts: Any) -> Floats:
    """Inverse document frequencies of sparse counts ``(documents, terms)``; 0 for what one document alone has.

    Such a term says nothing of pairs, and would only make its document less like all others.
    """
    frequencies = np.bincount(sparse.csr_matrix(counts).indices, minlength=counts.shape[1])
    idf = inverse_frequencies(counts.shape[0], frequencies).astype(np.float64)
    return np.asarray(np.where(frequencies > 1, idf, 0.0))


def word_weights(counts: Any, idf: npt.ArrayLike) -> Any:
    """Weights of terms by sparse counts ``(documents, terms)``: square roots of these times idf, rows of length 1."""
    weights = sparse.csr_matrix(counts, dtype=np.float64, copy=True)
    weights.data = np.sqrt(weights.data) * np.asarray(idf, np.float64)[weights.indices]
    return unit_rows(weights)


class CosineStatistics(NamedTuple):
    """Mean and standard deviation of the cosines of unrelated pairs."""

    mean: float
    deviation: float

    def z_scores(self, cosines: Any) -> Any:
        """Z-scores of cosines."""
        return (cosines - self.mean) / self.deviation


@dataclass(frozen=True)
class Calibration:
    """How far cosines of vectors, and of words, lie from 0 and from each other over unrelated pairs."""

    vectors: CosineStatistics
    words: CosineStatistics

    @classmethod
    def from_vectors(cls, units: Floats, weights: Any) -> Self:
        """Learn from the pairs of a collection, or of 2,000 documents that stand evenly over it.

        Args:
            units: ``(documents, hidden)``, as :func:`centred_units` gives them.
            weights: sparse ``(documents, terms)``, as :func:`word_weights` gives them.
        """
        drawn = np.unique(np.linspace(0, len(units) - 1, min(len(units), MOST_COMPARED)).astype(np.int64))
        pairs = np.triu_indices(len(drawn), 1)
        cosines = units[drawn] @ units[drawn].T, (weights[drawn] @ weights[drawn].T).toarray()
        spreads = ((float(one[pairs].mean()), max(float(one[pairs].std()), ALIKE)) for one in cosines)
        return cls(*(CosineStatistics(*spread) for spread in spreads))

    def joined(self, units: Floats, weights: Any) -> Any:
        """Rows whose inner products are sums of z-scores less a constant, sparse ``(documents, hidden + terms)``."""
        parts = ((units, self.vectors), (weights, self.words))
        return sparse.hstack([sparse.csr_matrix(rows) / spread.deviation**0.5 for rows, spread in parts], format="csr")

    def scores(self, units: tuple[Floats, Floats], weights: tuple[Any, Any], known: Any, same: Any) -> Floats:
        """Sums of z-scores of units and weights, and whether words of pairs are known, and the same: a by b."""
        cosines = units[0] @ units[1].T
        vectors, words = self.vectors.z_scores(cosines), np.where(known, (weights[0] @ weights[1].T).toarray(), cosines)
        same = same & (cosines > _SAME)
        return np.asarray(vectors + np.where(known | same, self.words.z_scores(words), vectors))


@dataclass(frozen=True, eq=False)
class Reference:
    """Reference values that evidence measures documents by.

    Args:
        centre: ``(hidden,)``, the mean document vector.
        idf: inverse document frequencies by term; others are not looked at.
        calibration: how unrelated pairs lie.
    """

    centre: Floats
    idf: Mapping[str, float]
    calibration: Calibration

    @classmethod
    def from_documents(cls, documents: Sequence[EncodedDocument]) -> Self:
        """Learn from a collection of encoded documents."""
        words = [0 if one.lexical is None else one.lexical.size for one in documents]
        vectors = np.stack([one.vector[: len(one.vector) - size] for one, size in zip(documents, words, strict=True)])
        return cls.from_vectors(vectors, [one.term_totals for one in documents])

    @classmethod
    def from_vectors(cls, vectors: npt.ArrayLike, terms: Sequence[Mapping[str, float]]) -> Self:
        """Learn from a collection.

        Args:
            vectors: ``(documents, hidden)``.
            terms: how often each document has each term.
        """
        rows = np.asarray(vectors, np.float64)
        centre = np.asarray((rows / row_lengths(rows)[:, None]).mean(axis=0))
        counts, names = term_counts(terms)
        idf = collection_idf(counts)
        calibration = Calibration.from_vectors(centred_units(rows, centre), word_weights(counts, idf))
        return cls(centre, {term: float(value) for term, value in zip(names, idf, strict=True) if value}, calibration)

    def units(self, documents: Sequence[EncodedDocument | DocumentFeatures]) -> Floats:
        """Vectors of documents without those of words, as :func:`centred_units` gives them."""
        return centred_units(np.stack([one.vector[: len(self.centre)] for one in documents]), self.centre)

    def rows(self, vectors: npt.ArrayLike, terms: Sequence[Mapping[str, float]]) -> Any:
        """Rows whose inner products are sums of z-scores less a constant, sparse ``(documents, hidden + terms)``.

        That holds where most words of both are known: rows cannot let vectors count twice.

        Args:
            vectors: ``(documents, hidden)``.
            terms: how often each document has each term; terms that the reference does not know are passed over.
        """
        known = [{term: own[term] for term in own if term in self.idf} for own in terms]
        # The reference's terms come first, so that they have the same columns in all rows.
        counts, _ = term_counts([self.idf, *known])
        weights = word_weights(counts[1:], np.fromiter(self.idf.values(), np.float64))
        return self.calibration.joined(centred_units(vectors, self.centre), weights)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], idf: Mapping[str, float]) -> Self:
        """Read what :meth:`to_dict` gave."""
        calibration = Calibration(CosineStatistics(*values["vectors"]), CosineStatistics(*values["words"]))
        return cls(np.array(values["centre"], np.float64), idf, calibration)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which a configuration keeps, but for the frequencies of terms."""
        return {
            "vectors": [round(value, 6) for value in self.calibration.vectors],
            "words": [round(value, 6) for value in self.calibration.words],
            "centre": [round(float(value), 5) for value in self.centre],
        }


class Evidence(Cosine):
    """Words and vectors together; without a reference it is the cosine of document vectors.

    Args:
        reference: what documents are measured by.
    """

    reads_reference: ClassVar[bool] = True
    meaning: ClassVar[str] = (
        "Evidence is how far the words and the vectors of both documents are more alike than those of unrelated "
        "documents are on average, in standard deviations. Their sum is shown from 0 to 1; 6 is 0.5. Long documents "
        "share more, so that the unrelated pairs of a share are of like length. Documents of one kind are closer by "
        "themselves, so that those of a kind that the model knows are measured by their like."
    )

    def __init__(self, reference: Reference | None = None) -> None:
        self.reference = reference

    def with_reference(self, reference: Reference | None) -> Evidence:
        """The same by another reference."""
        return Evidence(reference)

    def scores(
        self, a: Sequence[EncodedDocument | DocumentFeatures], b: Sequence[EncodedDocument | DocumentFeatures]
    ) -> Floats:
        """Scores from 0 to 1."""
        if self.reference is None:
            return super().scores(a, b)
        return np.asarray(shown_score(self.sums(a, b)))

    def sums(self, a: Sequence[Any], b: Sequence[Any]) -> Floats:
        """Sums of z-scores, ``(documents of a, documents of b)``."""
        reference = self.reference
        assert reference is not None
        units = [reference.units(some) for some in (a, b)]
        totals = [one.term_totals for one in (*a, *b)]
        counts, terms = term_counts(totals)
        weights = word_weights(counts, np.array([reference.idf.get(term, 0.0) for term in terms]))
        known, texts = np.array(list(map(self._knows_words, totals))), [frozenset(own.items()) for own in totals]
        numbers = np.array(list(map({text: place for place, text in enumerate(texts)}.get, texts)))
        both = np.logical_and.outer(known[: len(a)], known[len(a) :])
        same = np.equal.outer(numbers[: len(a)], numbers[len(a) :])
        return reference.calibration.scores((units[0], units[1]), (weights[: len(a)], weights[len(a) :]), both, same)

    def lengths(self, documents: Sequence[EncodedDocument]) -> Floats:
        """Logarithms of numbers of terms, ``(documents,)``; nan where most of these are unknown."""
        if self.reference is None:
            return super().lengths(documents)
        totals = [one.term_totals for one in documents]
        return np.array([np.log(max(sum(own.values()), 1)) if self._knows_words(own) else np.nan for own in totals])

    def contributions(self, a: EncodedDocument, b: EncodedDocument) -> Floats:
        """Contribution of every pair of passages to the sum of z-scores; the offset of the means is spread evenly."""
        if self.reference is None:
            return super().contributions(a, b)
        vectors, words = self.reference.calibration.vectors, self.reference.calibration.words
        pairs = cosines = self._units(a) @ self._units(b).T
        by_vectors = (pairs - vectors.mean / pairs.size) / vectors.deviation
        if self._know_both(a, b):
            left, right = self._words(a, b)
            cosines = (left @ right.T).toarray()
        else:
            words = self._in_place_of_words(a, b, float(pairs.sum()))
        return np.asarray(by_vectors + (cosines - words.mean / pairs.size) / words.deviation)

    def score_parts(self, a: EncodedDocument, b: EncodedDocument) -> dict[str, float] | None:
        """Both cosines, their z-scores and the sum of these; of vectors alone where words are not known."""
        if self.reference is None:
            return super().score_parts(a, b)
        calibration = self.reference.calibration
        cosine = float((self._units(a) @ self._units(b).T).sum())
        score = float(calibration.vectors.z_scores(cosine))
        if not self._know_both(a, b):
            score += float(self._in_place_of_words(a, b, cosine).z_scores(cosine))
            return {"vectors_cosine": cosine, "vectors": score, "sum": score}
        words = self._words(a, b)
        found = float((words[0] @ words[1].T).sum())
        by_words = float(calibration.words.z_scores(found))
        cosines = {"vectors_cosine": cosine, "words_cosine": found}
        return {**cosines, "vectors": score, "words": by_words, "sum": score + by_words}

    def shared_words(self, a: EncodedDocument, b: EncodedDocument) -> tuple[list[WordPart], float] | None:
        """The words that both have, by what they add to the sum, most first, and what words add without any, or None.

        None where the words of a document are not known.
        """
        if self.reference is None:
            return super().shared_words(a, b)
        if not self._know_both(a, b):
            return None
        spread, (left, right) = self.reference.calibration.words, self._words(a, b)
        terms, written = a.passage_terms.terms, a.passage_terms.words
        both = np.asarray(left.sum(axis=0)).ravel() * np.asarray(right.sum(axis=0)).ravel() / spread.deviation
        order = sorted(np.flatnonzero(both).tolist(), key=lambda place: (-both[place], terms[place]))
        return [WordPart(written[place], float(both[place])) for place in order], -spread.mean / spread.deviation

    def _knows_words(self, totals: Mapping[str, float]) -> bool:
        assert self.reference is not None
        known = sum(count for term, count in totals.items() if term in self.reference.idf)
        return known >= _LEAST_KNOWN * max(sum(totals.values()), 1e-9)

    def _know_both(self, a: EncodedDocument, b: EncodedDocument) -> bool:
        return self._knows_words(a.term_totals) and self._knows_words(b.term_totals)

    def _in_place_of_words(self, a: EncodedDocument, b: EncodedDocument, cosine: float) -> CosineStatistics:
        """What the cosine of vectors is measured by once more, where words are not known."""
        assert self.reference is not None
        is_same = cosine > _SAME and a.term_totals == b.term_totals
        return self.reference.calibration.words if is_same else self.reference.calibration.vectors

    def _units(self, document: EncodedDocument) -> Floats:
        """The shares of passages in the centred document vector, ``(passages, hidden)``."""
        assert self.reference is not None
        size, count = len(self.reference.centre), len(document.passage_attributions)
        whole = document.vector[None, :size].astype(np.float64)
        length = float(row_lengths(whole)[0])
        shares = document.passage_attributions[:, :size] / length - self.reference.centre / count
        total = float(np.linalg.norm(whole / length - self.reference.centre))
        return np.asarray(shares / total if whole.any() and total > 1e-6 else np.zeros_like(shares))

    def _words(self, a: EncodedDocument, b: EncodedDocument) -> tuple[Any, Any]:
        """The shares of passages in the weights of terms, sparse ``(passages, terms of a)`` each."""
        assert self.reference is not None
        idf, column = self.reference.idf, {term: place for place, term in enumerate(a.passage_terms.terms)}
        sides = []
        for document in (a, b):
            found = document.passage_terms
            totals = np.maximum(np.asarray(found.counts.sum(axis=0)).ravel(), 1e-12)
            weights = np.sqrt(totals) * np.array([idf.get(term, 0.0) for term in found.terms])
            length = float(np.linalg.norm(weights)) or 1.0
            shares = (found.counts @ sparse.diags(weights / totals / length)).tocoo()
            columns = np.array([column.get(term, -1) for term in found.terms], np.int64)[shares.col]
            known = columns >= 0
            shape = shares.shape[0], len(column)
            sides.append(sparse.csr_matrix((shares.data[known], (shares.row[known], columns[known])), shape))
        return sides[0], sides[1]


def term_counts(documents: Sequence[Mapping[str, float]]) -> tuple[Any, list[str]]:
    """Counts of terms of documents, sparse ``(documents, terms)``, and the terms."""
    column: dict[str, int] = {}
    columns = [column.setdefault(term, len(column)) for document in documents for term in document]
    values = [value for document in documents for value in document.values()]
    ends = np.cumsum([0, *map(len, documents)])
    return sparse.csr_matrix((np.array(values, np.float64), columns, ends), (len(documents), len(column))), [*column]
