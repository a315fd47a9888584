"""Digests of documents, kept while a collection is read: title, words, and first lines."""

from __future__ import annotations

import re
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..documents.document import Document
from ..runtime.text import one_line
from ..segmentation.repeats import WORD, RepeatList, RepeatLister, SectionSpan
from ..segmentation.terms import TermMaker, language_of

# What is kept of a document; a book shall take no more memory than a letter.
TERMS = 200
OPENING_CHARACTERS = 280
# Groups are named by the first characters of their documents.
_BEGINNING_CHARACTERS = 1_500
# Looked at for words; what comes behind changes which are frequent no more.
_WORD_CHARACTERS = 60_000
_DATES = ("date", "published", "publication_date", "created", "year", "issued", "modified", "updated")
_DATE = re.compile(r"(?<!\d)(1[0-9]{3}|20[0-9]{2})(?:-(0[1-9]|1[0-2])(?:-([0-2][0-9]|3[01]))?)?(?!\d)")
# Odd numbers without a pattern, one for each word of a run, and how many runs a sketch keeps at most.
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93], np.uint64)
BINS, EMPTY = 64, np.uint32(2**32 - 1)
# Longer ones are texts, and no values that documents share.
_LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True)
class Digest:
    """What is kept of a document; what it has none of is empty.

    ``title`` is its title or else its id, on one line, and both where others have this title; ``label`` its labels,
    with commas; ``date`` a year, or year and month, or day, as ISO writes it; ``sketch`` the least hashes of its text
    (:func:`sketch_of`), by which copies are known; ``values`` short values of its metadata, by name.
    """

    id: str
    title: str
    words: int
    label: str
    date: str
    opening: str
    sketch: bytes
    values: Mapping[str, str]

    @property
    def folder(self) -> str:
        """What stands before the last slash of its id; empty without one."""
        return self.id.rpartition("/")[0]


class Digests:
    """The digests of a collection, made as its documents pass by; words are reduced to stems by their language.

    Args:
        language: a two-letter code, of documents that show no other.
        repeats: lists what was left out of the documents as repeated; None where nothing was.
    """

    def __init__(self, language: str = "en", repeats: RepeatLister | None = None) -> None:
        self.language = language
        self._makers: dict[str, TermMaker] = {}
        self._repeats = repeats
        self._vocabulary: dict[str, int] = {}
        self._written: list[Counter[str]] = []
        self._ends = array("i", [0])
        self._terms, self._counts = array("i"), array("i")
        self.by_id: dict[str, int] = {}
        self.digests: list[Digest] = []
        self._beginnings: list[str] = []

    def passing(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Give documents on as they come, and keep a digest of each."""
        for document in documents:
            self.add(document)
            yield document

    def add(self, document: Document) -> None:
        """Keep a digest of a document; of one that was there before, nothing."""
        if document.id in self.by_id:
            return
        text = counted = document.text
        if self._repeats is not None and (left_out := self._repeats.add(document)):
            # What a licence says is not what its documents are about.
            counted = _without(document, left_out)
        self._count_words(f"{document.title}\n{counted[:_WORD_CHARACTERS]}")
        self._beginnings.append(f"{document.title}\n\n{counted[:_BEGINNING_CHARACTERS]}")
        label = document.label if isinstance(document.label, tuple) else (document.label,)
        self._keep(
            Digest(
                document.id,
                one_line(document.title) or document.id,
                document.words,
                ", ".join(str(name) for name in label if name is not None),
                next((found for name in _DATES if (found := date_of(document.metadata.get(name)))), ""),
                one_line(text[: 3 * OPENING_CHARACTERS], OPENING_CHARACTERS),
                sketch_of(text),
                {name: shown for name, value in document.metadata.items() if (shown := _shown(value))},
            )
        )

    def add_unread(self, id: str) -> None:
        """Keep the place of a document of which nothing but its id is known."""
        self._count_words(words := re.sub(r"[\W_]+", " ", id))
        self._beginnings.append(words)
        self._keep(Digest(id, one_line(id), 0, "", "", "", b"", {}))

    def _keep(self, digest: Digest) -> None:
        self.by_id[digest.id] = len(self.digests)
        self.digests.append(digest)

    def chosen(self, ids: Iterable[str]) -> tuple[list[Digest], WordCounts]:
        """The digests and words of some documents, in their order."""
        rows = [self.by_id[id] for id in ids]
        parts = (np.array(part, np.int32) for part in (self._counts, self._terms, self._ends))
        counts = csr_array(tuple(parts), shape=(len(self.digests), len(self._vocabulary)))
        written = [own.most_common(1)[0][0] for own in self._written]
        chosen = [self.digests[row] for row in rows]
        times = Counter(one.title for one in chosen)
        chosen = [replace(one, title=f"{one.title} ({one.id})") if times[one.title] > 1 else one for one in chosen]
        return chosen, WordCounts(counts[rows], written)

    def beginnings(self, ids: Iterable[str]) -> list[str]:
        """Titles and first lines of some documents, without what repeats, in their order."""
        return [self._beginnings[self.by_id[id]] for id in ids]

    def repeats(self) -> RepeatList:
        """What was left out of the documents as repeated."""
        return RepeatList() if self._repeats is None else self._repeats.result()

    def _count_words(self, text: str) -> None:
        language = language_of(text, self.language)
        maker = self._makers.setdefault(language, TermMaker(language))
        counts: Counter[str] = Counter()
        words: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for term, word in maker.placed(text):
            # Numbers tell little, and single letters are what is left of formulas.
            if 1 < len(word) <= 40 and (word.isalpha() or (not any(map(str.isdigit, word)) and "_" not in word)):
                counts[term] += 1
                written = word if word.isupper() and len(word) < 7 else word.lower()
                words[term][written] += 1
        for term, count in counts.most_common(TERMS):
            number = self._vocabulary.setdefault(term, len(self._vocabulary))
            if number == len(self._written):
                self._written.append(Counter())
            self._written[number].update(words[term])
            self._terms.append(number)
            self._counts.append(count)
        self._ends.append(len(self._terms))


def sketch_of(text: str) -> bytes:
    """The least hash of all runs of four words that fall into each of 64 bins (Li, Owen and Zhang 2012).

    Two texts have about as many bins alike as their runs of words are the same (Jaccard).

    >>> sketch_of("The tides rise  twice a day.") == sketch_of("the tides rise twice a day")
    True
    """
    words = [zlib.crc32(word.encode("utf-8", "replace")) for word in WORD.findall(text.casefold())]
    hashed = np.array([*words, *[0] * (len(_FACTORS) - len(words))], np.uint64)
    runs = np.lib.stride_tricks.sliding_window_view(hashed, len(_FACTORS)) @ _FACTORS
    mixed = ((runs ^ (runs >> np.uint64(29))) * _FACTORS[0]) >> np.uint64(32)
    sketch = np.full(BINS, EMPTY)
    np.minimum.at(sketch, (mixed % np.uint64(BINS)).astype(np.int64), mixed.astype(np.uint32))
    return sketch.tobytes()


@dataclass(frozen=True, slots=True)
class WordCounts:
    """How often the most frequent words occur, sparse ``(documents, terms)``, and how each is mostly written."""

    counts: Any
    written: list[str]


def date_of(value: object) -> str:
    """The first date or year in a value, as ISO writes it; empty where there is none."""
    found = _DATE.search(str(value)) if isinstance(value, str | int) or hasattr(value, "isoformat") else None
    return found[0] if found else ""


def _without(document: Document, places: Iterable[SectionSpan]) -> str:
    spans: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in places:
        spans.setdefault(number, []).append((start, end))
    parts: list[str] = []
    for number, section in enumerate(document.sections):
        position = 0
        for start, end in sorted(spans.get(number, ())):
            parts.append(section.text[position:start])
            position = max(position, end)
        parts.append(section.text[position:])
    return "\n".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        value = ", ".join(map(str, value)) if all(isinstance(one, str | int) for one in value) else None
    if not isinstance(value, str | int | float):
        return ""
    shown = one_line(str(value))
    return shown if len(shown) <= _LONGEST_VALUE else ""
