"""The terms of texts: where words of a query stand in a passage, and which words of a document say most about it."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+")

# The first number that may stand between texts that are made into terms together: numbers stay as they are.
_FIRST_MARK = 907331415926535

# How much more a word counts that a document has more often (benchmarks/results/document_queries.md).
_DAMPING = 0.75
# More would let one word drown all others, and take long to search for.
_MOST_COPIES = 64

# Gives the terms of a text.
Tokenize = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text with the term it stands for.

    Args:
        term: the term, as the index holds it.
        start: first character.
        end: one past the last character.
    """

    term: str
    start: int
    end: int


def words_of(text: str, tokenize: Tokenize) -> list[Word]:
    """The words of a text that have a term, in their order; stop words have none.

    Args:
        text: the text.
        tokenize: gives the terms of a text.
    """
    return words_of_many([text], tokenize)[0]


def words_of_many(texts: Sequence[str], tokenize: Tokenize, only: Set[str] | None = None) -> list[list[Word]]:
    """The words of many texts, by one call: every word is made into terms once.

    Args:
        texts: the texts.
        tokenize: gives the terms of a text.
        only: the terms that are looked for; None for all.
    """
    words = list({word: None for text in texts for word in _WORD.findall(text)})
    terms = dict(zip(words, terms_of(words, tokenize), strict=True))
    if only is not None:
        # Most words of a text are none of a query's, and need not be placed.
        terms = {word: found for word, found in terms.items() if not only.isdisjoint(found)}
    return [
        [
            word
            for match in _WORD.finditer(text)
            if (found := terms.get(match[0])) is not None
            for word in _placed(match[0], match.start(), found)
            if only is None or word.term in only
        ]
        for text in texts
    ]


def _placed(text: str, start: int, terms: Sequence[str]) -> Iterator[Word]:
    """Where the terms of a word stand, from a character on."""
    if len(terms) == 1:
        yield Word(terms[0], start, start + len(text))
        return
    # Where there are no spaces between words, terms are pieces of what stands between spaces.
    lowered, own = text.lower(), 0
    for term in terms:
        place = lowered.find(term.lower(), own)
        own = place + len(term) if place >= 0 else own
        yield Word(term, start + place, start + own) if place >= 0 else Word(term, start, start + len(text))


def terms_of(texts: Iterable[str], tokenize: Tokenize) -> list[list[str]]:
    """The terms of many texts, by one call, since a call takes longer than a short text.

    Args:
        texts: the texts.
        tokenize: gives the terms of a text.
    """
    given = list(texts)
    found: list[list[str]] = [[]]
    mark = next(
        number for number in map(str, itertools.count(_FIRST_MARK)) if not any(number in text for text in given)
    )
    for term in tokenize(f" {mark} ".join(given)) if given else ():
        if term == mark:
            found.append([])
        else:
            found[-1].append(term)
    return found if given else []


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a query.

    Args:
        term: its term.
        text: the word as it first stands there.
        count: how often its term is there.
    """

    term: str
    text: str
    count: int


def unique_words(text: str, tokenize: Tokenize) -> list[QueryWord]:
    """The words of a text that differ in their term, in their order."""
    words = words_of(text, tokenize)
    counts = Counter(word.term for word in words)
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(word.term, text[word.start : word.end])
    return [QueryWord(term, shown, counts[term]) for term, shown in first.items()]


def best_words(words: Iterable[Word], text: str, frequencies: Mapping[str, int], total: int, most: int) -> list[str]:
    """The words of a document that say most about it: one for each of the terms with the highest tf-idf.

    A word is given once, twice, four times and so on, by how often its term is there: word search adds up the score
    of a word for each time that it is asked for.

    Args:
        words: the words of the document.
        text: its text.
        frequencies: passages that hold a term, by term, in a sample of the index.
        total: passages in the sample.
        most: how many terms.

    Returns:
        Words as they stand in the text, best first, copies of one side by side.
    """
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for word in words:
        counts[word.term] += 1
        first.setdefault(word.term, text[word.start : word.end])

    def weight(term: str) -> float:
        return (1 + math.log(counts[term])) * math.log((1 + total) / (1 + frequencies.get(term, 0)))

    best = sorted(counts, key=lambda term: (-weight(term), term))[:most]
    return [first[term] for term in best for _ in range(_copies(counts[term]))]


def _copies(count: int) -> int:
    """How often a word is asked for: the nearest power of two, dampened."""
    return min(int(2 ** round(_DAMPING * math.log2(count))), _MOST_COPIES)
