"""The terms of texts, and a query as words and as a vector."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from ..documents.section import clean_text, normalised
from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..runtime.text import described
from .lance import PASSAGE, LanceStore
from .table import whole_text

Vector = npt.NDArray[np.float32]

MOST_QUERY_WORDS = 1_000
# A whole document as a query of words takes long, and most of its words say little.
DOCUMENT_WORDS = 60
_SAMPLED_PASSAGES = 4_000
_WORD = re.compile(r"[^\W_]+")
# The first number that may stand between texts that are made into terms together.
_FIRST_MARK = 907331415926535
# How much more a word counts that a document has more often (benchmarks/results/document_queries.md).
_DAMPING = 0.75
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

# Gives the terms of a text.
Tokenize = Callable[[str], list[str]]


def word_settings(language: str) -> dict[str, Any]:
    """How texts in a language, given as a two-letter code, become terms of word search; BM25 as in Lucene.

    >>> word_settings("de")["language"], word_settings("ja")["tokenizer"]
    ('German', 'icu')
    """
    code = language.partition("-")[0].lower()
    name = _STEMMED.get(code, "")
    return {
        "language": name,
        "stem": bool(name),
        "stop_words": not name,
        "tokenizer": "icu" if code in _WITHOUT_SPACES else "simple",
        "formula": "bm25 k1=1.2 b=0.75",
    }


class Word(NamedTuple):
    """A word of a text, from its first character to one past its last, with the term that it stands for."""

    term: str
    start: int
    end: int


def words_of(texts: Sequence[str], tokenize: Tokenize, only: Set[str] | None = None) -> list[list[Word]]:
    """The words of texts that have a term, in their order; stop words have none. ``only`` are the terms looked for."""
    words = list({word: None for text in texts for word in _WORD.findall(text)})
    terms = dict(zip(words, terms_of(words, tokenize), strict=True))
    if only is not None:
        # Most words of a text are none of a query's, and need not be placed.
        terms = {word: of_word for word, of_word in terms.items() if not only.isdisjoint(of_word)}
    return [
        [
            word
            for match in _WORD.finditer(text)
            for word in _placed(match[0], match.start(), terms.get(match[0], ()))
            if only is None or word.term in only
        ]
        for text in texts
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


def counted_words(text: str, tokenize: Tokenize) -> list[tuple[str, str, int]]:
    """The terms of a text in their order, each with the word as it first stands there and its count."""
    (words,) = words_of([text], tokenize)
    counts = Counter(word.term for word in words)
    first = {word.term: text[word.start : word.end] for word in reversed(words)}
    return [(term, first[term], count) for term, count in counts.items()]


def best_words(text: str, tokenize: Tokenize, frequencies: Mapping[str, int], total: int, most: int) -> list[str]:
    """The words of a document that say most about it: one for each of ``most`` terms with the highest tf-idf.

    A word is given once, twice, four times and so on, by how often its term is there: word search adds up the score
    of a word for each time that it is asked for, and few different weights are quick to search for.

    Args:
        text: the text of the document.
        tokenize: gives the terms of a text.
        frequencies: passages that hold a term, by term, in a sample of the index.
        total: passages in the sample.
        most: how many terms.
    """

    def weight(term: str, count: int) -> float:
        return (1 + math.log(count)) * math.log((1 + total) / (1 + frequencies.get(term, 0)))

    best = sorted(counted_words(text, tokenize), key=lambda word: (-weight(word[0], word[2]), word[0]))[:most]
    copies = (min(int(2 ** round(_DAMPING * math.log2(count))), _MOST_COPIES) for _, _, count in best)
    return [word for (_, word, _), number in zip(best, copies, strict=True) for _ in range(number)]


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for.

    Args:
        text: the words of the query; of a document the words that say most about it.
        shown: the query as people read it.
        vector: computes the vector ``(hidden,)`` when it is needed.
        id: id of the query document; None for a text.
        title: its title.
        warnings: what was left out.
    """

    text: str
    shown: str
    vector: Callable[[], Vector]
    id: str | None = None
    title: str = ""
    warnings: tuple[str, ...] = ()


class Queries:
    """Makes the queries of an index, whose encoder is loaded when a vector is needed."""

    def __init__(self, store: LanceStore, encoder: Callable[[], DocumentEncoder]) -> None:
        self._store, self._encoder = store, encoder
        # Of one version of the index.
        self._version, self._sampled, self._frequencies = -1, 0, Counter[str]()

    def query(self, value: object) -> Query:
        """A query of a text or a document."""
        if isinstance(value, Document):
            self._count()
            text, tokens = whole_text(value)[0], self._store.tokens
            best = best_words(text, tokens, self._frequencies, self._sampled, DOCUMENT_WORDS)
            return Query(
                " ".join(best), value.text, lambda: self._encoder().encode_levels(value).vector, value.id, value.title
            )
        if not isinstance(value, str):
            raise SettingsError(f"the query is {described(value)}; give a text or a Document")
        words = normalised(clean_text(value)).split()
        if not words:
            raise SettingsError("the query is empty; give some words, or a document")
        text, left_out = " ".join(words), len(words) - MOST_QUERY_WORDS
        warning = f"word search takes the first {MOST_QUERY_WORDS:,} words of a query, {left_out:,} were left out"
        return Query(
            " ".join(words[:MOST_QUERY_WORDS]),
            text,
            lambda: np.asarray(self._encoder().encode_query(text), np.float32),
            warnings=(warning,) if left_out > 0 else (),
        )

    def _count(self) -> None:
        """Count in a sample of the index how many passages hold a term, once for each version."""
        state = self._store.state()
        if state.version == self._version:
            return
        texts: list[str] = []
        every, seen = max(1, state.passages // _SAMPLED_PASSAGES), 0
        for batch in self._store.batches(["text"], f"level = '{PASSAGE}'"):
            texts += batch.column("text").take(list(range(-seen % every, len(batch), every))).to_pylist()
            seen += len(batch)
        self._frequencies = Counter(term for terms in terms_of(texts, self._store.tokens) for term in set(terms))
        self._sampled, self._version = len(texts), state.version
