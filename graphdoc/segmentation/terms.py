"""Terms of texts: word stems without stop words.

The English stop words are those of scikit-learn 1.9 (of the Glasgow Information Retrieval Group). They are copied,
since saved vocabularies depend on them and importing scikit-learn takes half a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import Stemmer
import stop_words

ENGLISH_STOP_WORDS = frozenset(Path(__file__).with_name("english_stop_words.txt").read_text(encoding="utf-8").split())

# Letters of scripts that put no spaces between words, as passages count them.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
UNSPACED = re.compile(f"[{_UNSPACED}]+")
_WORD = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W_{_UNSPACED}]+(?:['\u2019][^\W_{_UNSPACED}]+)*")
_CHARACTERS_PER_WORD = 2
# Characters whose words tell a language, and how many more stop words it has to have than the usual one.
_READ, _LEAST, _TIMES = 1_000, 4, 1.5

# Snowball's names of the languages that documents are cut with, and those of the lists of stop words.
_STEMMED = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french",
    "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian",
    "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
    "yi": "yiddish",
}  # fmt: skip
_LANGUAGES = {*_STEMMED, *stop_words.LANGUAGE_MAPPING} - {"nb"}


class PlacedTerm(NamedTuple):
    """A term where it stands in a text: the stem, or the pair of characters, and the word as it is written."""

    term: str
    word: str


@dataclass(frozen=True, slots=True)
class SentenceTerms:
    """The distinct terms of a sentence, and its length in words, stop words included."""

    terms: frozenset[str]
    words: int


class TermMaker:
    """Makes terms of texts in a language, which is a two-letter code.

    Words are reduced to their stems by Snowball; without a stemmer for the language they count as they are, in small
    letters. Stop words are those of scikit-learn in English and of the package stop-words in other languages it knows.
    Where a script has no spaces between words, terms are pairs of characters that follow each other.

    >>> TermMaker("en").terms("The matched documents match.").terms == {"match", "document"}
    True
    """

    def __init__(self, language: str) -> None:
        self.language = language.partition("-")[0].lower()
        self._stop_words = _stop_words(self.language)
        self._stemmer: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A stemmer cannot be given to another process, so that each makes its own.
        return TermMaker, (self.language,)

    def terms(self, sentence: str) -> SentenceTerms:
        """What a sentence is compared by."""
        placed, words = self._read(sentence)
        return SentenceTerms(frozenset(term for term, _ in placed), words)

    def occurrences(self, text: str) -> list[str]:
        """All terms of a text in their order, as often as they occur."""
        return [term for term, _ in self._read(text)[0]]

    def placed(self, text: str) -> list[PlacedTerm]:
        """All terms of a text in their order, as often as they occur, with the words they stand for."""
        return [PlacedTerm(*pair) for pair in self._read(text)[0]]

    def _read(self, text: str) -> tuple[list[tuple[str, str]], int]:
        """The terms of a text without stop words, each with its word as it is written; and the length in words."""
        written: list[str] = []
        places: list[int] = []
        lowered: list[str] = []
        words = unspaced = 0
        for match in _WORD.finditer(text):
            if run := match["unspaced"]:
                unspaced += len(run)
                pairs = [run[place : place + 2] for place in range(len(run) - 1)] or [run]
                written += [pair for pair in pairs if pair not in self._stop_words]
                continue
            words += 1
            if (word := match[0].lower()) not in self._stop_words:
                places.append(len(written))
                lowered.append(word)
                written.append(match[0])
        if self._stemmer is None:
            name = _STEMMED.get(self.language)
            self._stemmer = Stemmer.Stemmer(name).stemWords if name else list
        terms = list(written)
        for place, stem in zip(places, self._stemmer(lowered), strict=True):
            terms[place] = stem
        return list(zip(terms, written, strict=True)), words + unspaced // _CHARACTERS_PER_WORD


def language_of(text: str, usual: str) -> str:
    """The language that most of a text's stop words are from; the usual one unless another has far more."""
    words = _all_stop_words().intersection(text[:_READ].lower().split())
    least = max(_LEAST, _TIMES * len(words & _stop_words(usual)))
    if len(words) < least:
        return usual
    count, likely = max((len(words & _stop_words(code)), code) for code in _LANGUAGES)
    return likely if count >= least else usual


@lru_cache(maxsize=1)
def _all_stop_words() -> frozenset[str]:
    return frozenset(word for code in _LANGUAGES for word in _stop_words(code) if len(word) > 1)


@lru_cache(maxsize=64)
def _stop_words(language: str) -> frozenset[str]:
    if language == "en":
        return ENGLISH_STOP_WORDS
    language = "nb" if language == "no" else language
    if language not in stop_words.LANGUAGE_MAPPING:
        return frozenset()
    return frozenset(word.lower() for word in stop_words.get_stop_words(language))
