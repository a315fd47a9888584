"""The terms of texts, and a query as words and as vectors."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from ..documents.document import Document
from ..documents.section import clean_text, normalized
from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..inference.vectors import encode_queries, segment_queries
from ..runtime.text import described
from ..segmentation.repeats import marks
from ..segmentation.term_weights import DAMPING, TermCounts, TermWeights, term_id
from ..similarity.encoded_document import EncodedDocument
from .lance import DOCUMENT, PASSAGE, LanceStore
from .results import TermContribution
from .table import TERMS, vectors_of, whole_text

# Gives the terms of each of many words.
WordTerms = Callable[[Sequence[str]], list[list[str]]]

# Marks, such as vowel signs, belong to words, and are no part of what Python takes for one.
# What no mark begins with is looked at first: after most words that is a space, and the list of marks is long.
_WORD = re.compile(rf"[^\W_]+(?:(?=[^\x00-\x7f])[{''.join(map(chr, marks()))}]+[^\W_]*)*")
# Where a dictionary cuts words, signs within them and within numbers stay (Unicode, annex 29).
_JOINED = re.compile(rf"_*{_WORD.pattern}(?:[.,:;'’·_]+{_WORD.pattern})*_*")
# More would let one word drown all others, and take long to search for.
_MOST_COPIES = 64

# Languages that LanceDB can reduce to stems, by the two-letter codes that documents are cut with.
_STEMMED = {
    "ar": "Arabic", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "fi": "Finnish",
    "fr": "French", "hu": "Hungarian", "it": "Italian", "nl": "Dutch", "no": "Norwegian", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "ta": "Tamil", "tr": "Turkish",
}  # fmt: skip
# Scripts without spaces between words are cut by a dictionary.
_WITHOUT_SPACES = ("ja", "km", "lo", "my", "th", "zh")


def word_settings(language: str) -> dict[str, Any]:
    """How texts in a language, given as a two-letter code, become terms of word search; BM25 as in Lucene.

    >>> word_settings("de")["language"], word_settings("ja")["tokenizer"]
    ('German', 'icu')
    """
    code = language.partition("-")[0].lower()
    name = _STEMMED.get(code, "")
    tokenizer = "icu" if code in _WITHOUT_SPACES else "simple"
    rules = {"language": name, "stem": bool(name), "stop_words": not name}
    return {**rules, "tokenizer": tokenizer, "formula": "bm25 k1=1.2 b=0.75"}


class Word(NamedTuple):
    """A word of a text, from its first character to one past its last, with the term that it stands for."""

    term: str
    start: int
    end: int


def words_of(texts: Sequence[str], terms_of_words: WordTerms, only: Set[str] | None = None) -> list[list[Word]]:
    """The words of texts that have a term, in their order; stop words have none. ``only`` are the terms looked for."""
    pattern = _JOINED if terms_of_words(["3.14"]) == [["3.14"]] else _WORD
    found = [[(match[0], match.start()) for match in pattern.finditer(text)] for text in texts]
    words = list({word: None for text in found for word, _ in text})
    terms = {word: of_word for word, of_word in zip(words, terms_of_words(words), strict=True) if of_word}
    if only is not None:
        # Most words of a text are none of a query's, and need not be placed.
        terms = {word: of_word for word, of_word in terms.items() if not only.isdisjoint(of_word)}
    return [
        [
            placed
            for word, start in text
            if word in terms
            for placed in _placed(word, start, terms[word])
            if only is None or placed.term in only
        ]
        for text in found
    ]


def _placed(text: str, start: int, terms: Sequence[str]) -> list[Word]:
    """Where the terms of a word stand, from a character on."""
    if len(terms) == 1:
        return [Word(terms[0], start, start + len(text))]
    # Where there are no spaces between words, terms are pieces of what stands between spaces.
    words, lowered, end = [], text.lower(), 0
    for term in terms:
        place = lowered.find(term.lower(), end)
        end = place + len(term) if place >= 0 else end
        words.append(Word(term, start + max(place, 0), start + (end if place >= 0 else len(text))))
    return words


def counted_words(text: str, terms_of_words: WordTerms) -> list[tuple[str, str, int]]:
    """The terms of a text in their order, each with the word as it first stands there and its count."""
    (words,) = words_of([text], terms_of_words)
    counts = Counter(word.term for word in words)
    first = {word.term: text[word.start : word.end] for word in reversed(words)}
    return [(term, first[term], count) for term, count in counts.items()]


def best_words(words: Sequence[tuple[str, str, int]], frequencies: Sequence[int], total: int, top_k: int) -> list[str]:
    """The words of a document that say most about it: one for each of ``top_k`` terms with the highest tf-idf.

    A word is given once, twice, four times and so on, by how often its term is there: word search adds up the score
    of a word for each time that it is asked for, and few different weights are quick to search for. ``frequencies``
    count, of ``total`` documents in a sample of the index, those that have each term.
    """
    weights = [
        (1 + math.log(count)) * math.log((1 + total) / (1 + frequency))
        for (_, _, count), frequency in zip(words, frequencies, strict=True)
    ]
    best = [word for _, word in sorted(zip(weights, words, strict=True), key=lambda one: (-one[0], one[1]))[:top_k]]
    copies = (min(int(2 ** round(DAMPING * math.log2(count))), _MOST_COPIES) for _, _, count in best)
    return [word for (_, word, _), number in zip(best, copies, strict=True) for _ in range(number)]


Vector = npt.NDArray[np.float32]

# A longer text is a document: its words are weighed, and all of its passages are encoded.
MOST_QUERY_WORDS = 64
# A whole document as a query of words takes long, and most of its words say little.
DOCUMENT_WORDS = 60
_SAMPLED_VECTORS = 1_000
# Documents that say how many have a term.
_SAMPLED_DOCUMENTS = 2_000
_RANDOM_QUERIES = 32
# Shorter entries of a vocabulary are mostly pieces of words.
_LEAST_LETTERS = 4


class QueryTerms:
    """The terms of a query document, compared with those of other documents.

    Args:
        words: terms of its text, each with the word as it stands there and its count.
        weights: how much terms count.
    """

    def __init__(self, words: Sequence[tuple[str, str, int]], weights: TermWeights) -> None:
        self._words = {term_id(term): word for term, word, _ in words}
        self._terms = TermCounts.from_counts({term: count for term, _, count in words})
        self._weights, self._unit = weights, weights.unit(self._terms)

    def cosine(self, document: TermCounts) -> float:
        """The cosine of the weights of both documents."""
        return float(self._parts(document)[1].sum())

    def explain(self, document: TermCounts, documents: int) -> tuple[TermContribution, ...]:
        """What every term that both documents have adds to their cosine, largest first.

        Args:
            document: terms of the other document.
            documents: documents of the collection, of which the weights may have seen a sample.
        """
        places, parts = self._parts(document)
        ids, scale = document.ids[places], documents / max(1, self._weights.documents)
        found = zip(ids.tolist(), document.counts[places].tolist(), self._weights.frequencies(ids), parts, strict=True)
        terms = [TermContribution(self._words[id], own, round(scale * df), float(part)) for id, own, df, part in found]
        return tuple(sorted(terms, key=lambda part: (-part.contribution, part.term)))

    def _parts(self, document: TermCounts) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Where the terms that both have stand in the document, and what each adds to the cosine."""
        _, here, there = np.intersect1d(self._terms.ids, document.ids, True, return_indices=True)
        return there, self._unit[here] * self._weights.unit(document)[there]


def random_queries(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Queries that nothing answers: three words each, drawn from the vocabulary of a model, the same each time."""
    drawn = random.Random(0)
    words: list[str] = []
    for _ in range(100 * 3 * _RANDOM_QUERIES):
        word = str(tokenizer.decode([drawn.randrange(len(tokenizer))])).strip()
        if word.isalpha() and len(word) >= _LEAST_LETTERS:
            words.append(word)
        if len(words) == 3 * _RANDOM_QUERIES:
            break
    return [" ".join(words[start : start + 3]) for start in range(0, len(words), 3)]


class QueryDocument(NamedTuple):
    """A document as a query: ``vector`` ``(hidden,)`` and ``passages`` ``(passages, node)``.

    The means of both in the index are what is usual there, which vectors are compared without.
    """

    vector: Vector
    passages: Vector
    usual_vector: Vector
    usual_passage: Vector


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for: its words, of a document those that say most about it, and as people read it.

    ``vector``, ``(hidden,)``, and ``document``, None for a short text as ``terms`` is, are computed when needed.
    """

    text: str
    shown: str
    vector: Callable[[], Vector]
    id: str | None = None
    title: str = ""
    document: Callable[[], QueryDocument] | None = None
    terms: QueryTerms | None = None


class QueryFactory:
    """Makes the queries of an index, whose encoder is loaded when a vector is needed."""

    def __init__(
        self, store: LanceStore, encoder: Callable[[], DocumentEncoder], encoded: Callable[[Document], EncodedDocument]
    ) -> None:
        self._store, self._encoder, self._encoded = store, encoder, encoded
        # Of one version of the index.
        self._version, self._weights = -1, TermWeights(())
        self._usual: list[Vector] | None = None

    def query(self, value: object) -> Query:
        """A query of a text or a document; a long text is searched for as a document is."""
        if isinstance(value, Document):
            return self._of_document(value, value.text, value.id)
        if not isinstance(value, str):
            raise SettingsError(f"the query is {described(value)}; give a text or a Document")
        words = normalized(clean_text(value)).split()
        if not words:
            raise SettingsError("the query is empty; give some words, or a document")
        text = " ".join(words)
        if len(words) > MOST_QUERY_WORDS:
            return self._of_document(Document.from_text(text), text, None)
        return Query(text, text, cache(lambda: self._vector_of(text)))

    def _vector_of(self, text: str) -> Vector:
        encoder = self._encoder()
        return np.asarray(encode_queries(encoder, segment_queries(encoder, [text]))[0].numpy(), np.float32)

    def _of_document(self, document: Document, shown: str, id: str | None) -> Query:
        self._see_version()
        words = counted_words(whole_text(document)[0], self._store.terms)
        hashes = np.array([term_id(term) for term, _, _ in words], np.uint32)
        best = best_words(words, self._weights.frequencies(hashes).tolist(), self._weights.documents, DOCUMENT_WORDS)

        @cache
        def encoded() -> EncodedDocument:
            return self._encoded(document)

        def compared() -> QueryDocument:
            return QueryDocument(encoded().vector, encoded().passages, *self._usual_vectors())

        vector, terms = (lambda: encoded().vector), QueryTerms(words, self._weights)
        return Query(" ".join(best), shown, vector, id, document.title, compared, terms)

    def _see_version(self) -> None:
        version = self._store.state().version
        if version != self._version:
            # A sample of the index, since all of its documents would take long.
            rows = self._store.sample([TERMS], DOCUMENT, _SAMPLED_DOCUMENTS)
            weights = TermWeights([TermCounts.unpacked(value) for value in rows.column(TERMS).to_pylist()])
            self._weights, self._version, self._usual = weights, version, None

    def _usual_vectors(self) -> list[Vector]:
        """The mean vector of documents, and that of passages, in a sample of the index."""
        if self._usual is None:
            self._usual = []
            for column, level in (("document_vector", DOCUMENT), ("passage_vector", PASSAGE)):
                vectors = vectors_of(self._store.sample([column], level, _SAMPLED_VECTORS), column)
                self._usual.append(vectors.sum(0, dtype=np.float32) / max(1, len(vectors)))
        return self._usual
