"""Passages that occur in several documents of a corpus: known by their shingles, and left out of what is encoded.

A shingle is five words in a row (A. Broder, On the resemblance and containment of documents, 1997), kept as a
hash. How many of a passage's shingles are in many documents does not depend on where passages begin and end.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from ..documents.document import Document
from ..errors import OutputError
from ..runtime.files import write_atomically

Hashes = npt.NDArray[np.uint32]
# Section, first character in its text, and one past the last.
SectionSpan = tuple[int, int, int]

# A passage is repeated from this number of documents on, and from this share of all.
LEAST_DOCUMENTS = 3
LEAST_SHARE = 0.01
SHINGLE_WORDS = 5
# Share of its shingles that have to be in as many documents: a year or a name may differ, not a sentence of three.
OF_A_PASSAGE = 0.8
# Share of a document from which its repeated passages are its subject: versions of one text, a licence itself. A
# notice is a passage or two, and may be more than half of a short letter; versions of a contract share many.
OF_A_DOCUMENT = 0.75
OF_MANY_PASSAGES, MANY_PASSAGES = 0.5, 5
# Ids of documents that are listed with a passage.
_EXAMPLES = 3
# Share of the same shingles from which on two passages are listed as one.
_ALIKE = 0.5

# Hashes that are held while a corpus is counted, twice at the end, 0.9 GB; of a larger corpus a sample is counted.
_MOST_HASHES = 100_000_000
# Scripts without spaces are taken character by character.
_APART = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[{_APART}]|[^\W_{_APART}]+")
_NUMBER = crc32(b"0")
# The finalizer of MurmurHash3 (A. Appleby, public domain).
_MIX = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_BASE, _SHIFT, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(33), np.uint64(32)


def shingles_of(text: str) -> Hashes:
    """Hashes of the shingles of a text in their order; a text of fewer words is one shingle.

    All numbers are alike, and shingles of which half or more are numbers are left out:
    every table would be like another.
    """
    lower = text.lower()
    # Marks belong to the letters before them, and are no part of what Python takes for a word.
    tokens = WORD.findall(lower if lower.isascii() else lower.translate(marks()))
    words = [b"0" if word.isdecimal() else word.encode("utf-8", "replace") for word in tokens]
    if not words:
        return np.empty(0, np.uint32)
    values = np.fromiter(map(crc32, words), np.uint64, len(words))
    width = min(SHINGLE_WORDS, len(words))
    count = len(words) - width + 1
    numbers = np.concatenate([[0], np.cumsum(values == _NUMBER)])
    is_text = 2 * (numbers[width:] - numbers[:count]) < width
    # Of fewer words the number of them is part of the hash.
    mixed = np.full(count, width, np.uint64)
    for place in range(width):
        mixed = mixed * _BASE + values[place : place + count]
    for factor in _MIX:
        mixed = (mixed ^ (mixed >> _SHIFT)) * factor
    hashes: Hashes = ((mixed ^ (mixed >> _SHIFT)) >> _HALF).astype(np.uint32)[is_text]
    return hashes


@cache
def marks() -> dict[int, None]:
    """Combining marks of all scripts, as a table that removes them."""
    return {sign: None for sign in range(0x300, 0x1F000) if unicodedata.category(chr(sign)) in ("Mn", "Mc")}


class RepeatFilter(Protocol):
    """Interface of filters for repeated passages."""

    def among(self, document: Document, places: Sequence[SectionSpan]) -> tuple[list[SectionSpan], bool]:
        """Which passages repeat, and whether these are so much of the document that all of them count."""

    def describe(self) -> dict[str, Any]:
        """Description of the filter as plain values, for records."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """The shingles that are in too many documents of a corpus for passages made of them to count.

    Args:
        hashes: hashes of the shingles, sorted.
        documents: documents that were counted.
        least_documents: documents from which a shingle is repeated.
    """

    hashes: Hashes
    documents: int
    least_documents: int

    def __bool__(self) -> bool:
        """Whether there are any."""
        return len(self.hashes) > 0

    def describe(self) -> dict[str, Any]:
        """Description of the repeats as plain values, with a hash of them all; empty if there are none."""
        if not self:
            return {}
        # Not the number of documents: with more of them the same may repeat, and work goes on.
        digest = hashlib.blake2b(self.hashes.astype("<u4").tobytes(), digest_size=8).hexdigest()
        return {"shingles": len(self.hashes), "hash": digest}

    def save(self, path: Path) -> Path:
        """Write them to a file of safetensors, atomically."""
        counts = np.array([self.documents, self.least_documents], np.int64)
        content = safetensors.numpy.save({"hashes": self.hashes, "counts": counts})
        return write_atomically(path, lambda temporary: temporary.write_bytes(content))

    @classmethod
    def load(cls, path: Path) -> Repeats:
        """Read what :meth:`save` has written.

        Raises:
            OutputError: the file cannot be read, or holds something else.
        """
        try:
            # A pipe would be waited for.
            if not path.is_file():
                raise OSError("not a regular file")
            tensors = safetensors.numpy.load(path.read_bytes())
            hashes, (documents, least) = tensors["hashes"], tensors["counts"].tolist()
            if hashes.dtype != np.uint32 or hashes.ndim != 1 or (hashes[:-1] >= hashes[1:]).any():
                raise ValueError("not the hashes of shingles in their order")
        # Of numbers that numpy does not have, the library says so in its own ways.
        except (OSError, LookupError, TypeError, ValueError, AttributeError, safetensors.SafetensorError) as error:
            raise OutputError(f"{path} holds no repeated passages that can be read; move it") from error
        return cls(hashes, documents, least)

    def is_repeated(self, text: str) -> bool:
        """Whether a passage is one that repeats."""
        shingles = shingles_of(text)
        if not (self and len(shingles)):
            return False
        places = np.minimum(np.searchsorted(self.hashes, shingles), len(self.hashes) - 1)
        return float(np.mean(self.hashes[places] == shingles)) >= OF_A_PASSAGE

    def among(self, document: Document, places: Sequence[SectionSpan]) -> tuple[list[SectionSpan], bool]:
        """Which passages of a document repeat, and whether these are so much of it that all of them count."""
        texts = (document.sections[section].text[start:end] for section, start, end in places)
        repeated = [place for place, text in zip(places, texts, strict=True) if self.is_repeated(text)]
        size, whole = (sum(end - start for _, start, end in some) for some in (repeated, places))
        share = OF_A_DOCUMENT if len(repeated) < MANY_PASSAGES else OF_MANY_PASSAGES
        return repeated, size > share * whole


class RepeatCounter:
    """Counts in how many documents shingles are; the order of the documents makes no difference.

    Of a corpus of more than a million passages, about, it counts a sample of the documents, chosen by their ids.
    """

    def __init__(self, least_documents: int = LEAST_DOCUMENTS, least_share: float = LEAST_SHARE) -> None:
        self._least_documents, self._least_share = least_documents, least_share
        self._kept: list[tuple[int, Hashes]] = []
        self._hashes, self._one_in = 0, 1

    def add(self, document: Document) -> None:
        """Count a document."""
        parts = [shingles_of(section.text) for section in document.sections]
        hashes = np.unique(np.concatenate([np.empty(0, np.uint32), *parts]))
        chance = crc32(document.id.encode("utf-8", "replace"))
        if not len(hashes) or chance % self._one_in:
            return
        self._kept.append((chance, hashes))
        self._hashes += len(hashes)
        while self._hashes > _MOST_HASHES:
            self._one_in *= 2
            self._kept = [kept for kept in self._kept if kept[0] % self._one_in == 0]
            self._hashes = sum(len(hashes) for _, hashes in self._kept)

    def result(self) -> Repeats:
        """The repeats of the documents that were counted."""
        documents = len(self._kept)
        least = max(self._least_documents, int(np.ceil(self._least_share * documents - 1e-9)))
        if documents < least:
            return Repeats(np.empty(0, np.uint32), documents, least)
        hashes = np.sort(np.concatenate([hashes for _, hashes in self._kept]))
        # What is in many documents occurs as often in a row.
        first, last = hashes[: len(hashes) - least + 1], hashes[least - 1 :]
        return Repeats(np.unique(first[first == last]), documents, least)


def find_repeats(
    documents: Iterable[Document], *, least_documents: int = LEAST_DOCUMENTS, least_share: float = LEAST_SHARE
) -> Repeats:
    """Find what is repeated in a corpus, exactly or nearly: licences, boilerplate, popups.

    Args:
        documents: the corpus, read once and not held.
        least_documents: documents from which a passage is repeated.
        least_share: share of the documents from which it is; both have to be met.

    >>> licence = "Permission is granted to copy and to change this text for any purpose whatever."
    >>> found = find_repeats(Document.from_text(f"On {word}. {licence}") for word in ("rice", "tides", "rain"))
    >>> found.is_repeated(licence), found.is_repeated("Tides rise and fall twice a day, and the moon pulls them.")
    (True, False)
    """
    counter = RepeatCounter(least_documents, least_share)
    for document in documents:
        counter.add(document)
    return counter.result()


@dataclass(slots=True)
class RepeatedPassage:
    """A passage that repeats, as the first document has it.

    Args:
        text: its text there.
        documents: documents that have it, or one that is nearly the same.
        occurrences: how often they have it.
        characters: of all occurrences.
        examples: ids of the first documents that have it.
    """

    text: str
    documents: int = 0
    occurrences: int = 0
    characters: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class RepeatList:
    """The repeated passages of a corpus.

    Args:
        passages: the passages, those of most documents first.
        documents: documents that were looked at.
        with_repeats: documents that have a repeated passage.
        mostly_repeated: documents made of repeated passages for the most part, in which these count.
    """

    passages: list[RepeatedPassage] = field(default_factory=list)
    documents: int = 0
    with_repeats: int = 0
    mostly_repeated: int = 0

    @property
    def characters(self) -> int:
        """Of all occurrences of all passages."""
        return sum(passage.characters for passage in self.passages)

    @property
    def shortened(self) -> int:
        """Documents of which a passage is left out."""
        return self.with_repeats - self.mostly_repeated


class RepeatLister:
    """Lists the passages that are left out of documents that pass by; of each text one version is held.

    ``find`` gives the passages of a document that repeat, and whether they count
    (:func:`~graphdoc.segmentation.segmenter.repeats_in`).
    """

    def __init__(self, find: Callable[[Document], tuple[list[SectionSpan], bool]]) -> None:
        self._find = find
        self._list = RepeatList()
        self._group_of: dict[int, int] = {}

    def add(self, document: Document) -> list[SectionSpan]:
        """Take in a document; gives the places of what is left out of it, none where all of it counts."""
        result = self._list
        places, keeps = self._find(document)
        result.documents += 1
        result.with_repeats += bool(places)
        result.mostly_repeated += keeps
        if keeps:
            return []
        seen: set[int] = set()
        for section, start, end in places:
            group = self._group(document.sections[section].text[start:end])
            passage = result.passages[group]
            passage.occurrences += 1
            passage.characters += end - start
            if group not in seen:
                seen.add(group)
                passage.documents += 1
                if len(passage.examples) < _EXAMPLES:
                    passage.examples.append(document.id)
        return places

    def result(self) -> RepeatList:
        """The repeated passages of the documents so far."""
        passages = sorted(self._list.passages, key=lambda one: (-one.documents, -one.characters, one.text))
        return replace(self._list, passages=passages)

    def _group(self, text: str) -> int:
        shingles = shingles_of(text).tolist()
        votes = Counter(self._group_of[shingle] for shingle in shingles if shingle in self._group_of)
        group, count = votes.most_common(1)[0] if votes else (-1, 0)
        if count < _ALIKE * len(shingles):
            group = len(self._list.passages)
            self._list.passages.append(RepeatedPassage(text))
        for shingle in shingles:
            self._group_of.setdefault(shingle, group)
        return group
