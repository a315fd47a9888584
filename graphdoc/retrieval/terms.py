"""Words of texts, and the terms that they stand for."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

from ..segmentation.term_weights import DAMPING

# Gives the terms of a text, and those of each of many words.
Tokenize = Callable[[str], list[str]]
WordTerms = Callable[[Sequence[str]], list[list[str]]]

_WORD = re.compile(r"[^\W_]+")
# The first number that may stand between texts that are made into terms together.
_FIRST_MARK = 907331415926535
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


def words_of(texts: Sequence[str], terms_of_words: WordTerms, only: Set[str] | None = None) -> list[list[Word]]:
    """The words of texts that have a term, in their order; stop words have none. ``only`` are the terms looked for."""
    words = list({word: None for text in texts for word in _WORD.findall(text)})
    terms = {word: of_word for word, of_word in zip(words, terms_of_words(words), strict=True) if of_word}
    if only is not None:
        # Most words of a text are none of a query's, and need not be placed.
        terms = {word: of_word for word, of_word in terms.items() if not only.isdisjoint(of_word)}
    return [
        [
            word
            for match in _WORD.finditer(text)
            if match[0] in terms
            for word in _placed(match[0], match.start(), terms[match[0]])
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
    joined = " ".join(texts)
    mark = next(number for number in map(str, itertools.count(_FIRST_MARK)) if number not in joined)
    terms: list[list[str]] = []
    tokens, start = tokenize(f" {mark} ".join(texts)), 0
    for _ in range(len(texts) - 1):
        end = tokens.index(mark, start)
        terms.append(tokens[start:end])
        start = end + 1
    return [*terms, tokens[start:]]


def counted_words(text: str, terms_of_words: WordTerms) -> list[tuple[str, str, int]]:
    """The terms of a text in their order, each with the word as it first stands there and its count."""
    (words,) = words_of([text], terms_of_words)
    counts = Counter(word.term for word in words)
    first = {word.term: text[word.start : word.end] for word in reversed(words)}
    return [(term, first[term], count) for term, count in counts.items()]


def best_words(words: Sequence[tuple[str, str, int]], frequencies: Sequence[int], total: int, most: int) -> list[str]:
    """The words of a document that say most about it: one for each of ``most`` terms with the highest tf-idf.

    A word is given once, twice, four times and so on, by how often its term is there: word search adds up the score
    of a word for each time that it is asked for, and few different weights are quick to search for. ``frequencies``
    count, of ``total`` documents in a sample of the index, those that have each term.
    """
    weights = [
        (1 + math.log(count)) * math.log((1 + total) / (1 + frequency))
        for (_, _, count), frequency in zip(words, frequencies, strict=True)
    ]
    best = [word for _, word in sorted(zip(weights, words, strict=True), key=lambda one: (-one[0], one[1]))[:most]]
    copies = (min(int(2 ** round(DAMPING * math.log2(count))), _MOST_COPIES) for _, _, count in best)
    return [word for (_, word, _), number in zip(best, copies, strict=True) for _ in range(number)]
