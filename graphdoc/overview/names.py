"""Names of groups: the phrases that set a group apart from the rest of its collection, and names that people give."""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import DocumentError
from ..runtime.files import safe_cell, write_csv
from ..runtime.text import one_line
from ..segmentation.terms import UNSPACED, TermMaker, language_of

if TYPE_CHECKING:
    from ..runtime.arrays import Rows

logger = logging.getLogger("graphdoc")

COLUMNS = ["group", "typical", "name"]
PHRASES = 3
_NAME_CHARACTERS = 80
_LONGEST = 3
# Documents that a group is named by, spread over it, and those that it is told apart from.
READ, _REST = 100, 1_000
# Documents of a group that have a phrase, at least: their share, and how many.
_LEAST_SHARE, _LEAST = 0.1, 2
# A phrase says more than one of its words, and is rarer; a stop word within ("head of state") says less.
_LONGER = {1: 1.0, 2: 1.9, 3: 2.2}
_STOP_WITHIN = 0.75
# Words of running text: no parts of paths, addresses and calls, and no numbers.
_WORD = re.compile(r"(?<![\w/\\.@<&=$-])[^\W\d_]+(?:['\u2019-][^\W\d_]+)*(?![\w/\\@=(<>-]|\.\w)")
# What may stand between the words of a phrase.
_GAP = re.compile(r"[ \t]+|[ \t]*\n[ \t]*")

# Stands for a run of letters without spaces, among which no words are found.
_STOP = "\u3002"

# Stems, and stop words in brackets; pairs of characters of a word without spaces.
Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Documents that are close to each other, numbered from 1, the largest group first.

    ``name`` has phrases that set it apart, or is what people call it; ``words`` tell it from the others, the most
    distinctive first; ``typical`` documents are closest to its mean.
    """

    number: int
    name: str
    words: tuple[str, ...]
    rows: Rows
    typical: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EditedName:
    """What people call a group: of the document ``typical``, or where that is empty of the number ``group``."""

    group: str
    typical: str
    name: str


def name_groups(
    beginnings: Sequence[str], groups: Sequence[Rows], words: Sequence[Sequence[str]], language: str
) -> list[tuple[str, ...]]:
    """Phrases of one to three words that set every group apart from all documents, most distinctive first.

    A phrase has the weight ``p * log(p / q)**2``, where ``p`` is the share of the group's documents that have it and
    ``q`` that of all documents: a rare phrase says more than a common one. Longer phrases weigh more. It has one of the
    group's words at least and a stop word at neither end, and no two of a group share a word.

    Args:
        beginnings: first lines of every document.
        groups: rows of the documents of every group.
        words: distinctive words of every group.
        language: a two-letter code, of documents that show no other.
    """
    read = [spread(rows, READ) for rows in groups]
    drawn = set(spread(np.arange(len(beginnings)), _REST).tolist())
    # Every text is read once, for its group and for the collection.
    group_of = {row: place for place, rows in enumerate(read) for row in rows.tolist()}
    languages = {row: language_of(beginnings[row], language) for row in sorted(drawn | group_of.keys())}
    readers = {code: _Reader(code) for code in languages.values()}
    # How every phrase with one of the group's words is written, once a document.
    forms: list[dict[Phrase, Counter[str]]] = [defaultdict(Counter) for _ in groups]
    unspaced = {word: tuple(map("".join, pairwise(word))) for own in words for word in own if UNSPACED.match(word)}
    stems = [
        {stem for word in own for stem in unspaced.get(word) or {one.stem(word) for one in readers.values()}} - {""}
        for own in words
    ]
    every = frozenset().union(*stems)
    held: Counter[Phrase] = Counter()
    for row, code in languages.items():
        phrases = readers[code].phrases(beginnings[row])
        phrases |= {pairs: word for word, pairs in unspaced.items() if word in beginnings[row]}
        if row in drawn:
            held.update(phrase for phrase in phrases if not every.isdisjoint(phrase))
        if (place := group_of.get(row)) is not None:
            for phrase, written in phrases.items():
                if not stems[place].isdisjoint(phrase):
                    forms[place][phrase][written] += 1
    shares = {phrase: documents / len(drawn) for phrase, documents in held.items()}
    return [_distinctive(own, len(rows), shares, 1 / len(drawn)) for own, rows in zip(forms, read, strict=True)]


def spread(rows: npt.NDArray[Any], most: int) -> npt.NDArray[Any]:
    """So many rows at most, spread over all."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64))]


def _distinctive(
    forms: Mapping[Phrase, Counter[str]], size: int, shares: Mapping[Phrase, float], rare: float
) -> tuple[str, ...]:
    weights: dict[Phrase, float] = {}
    for phrase, written in forms.items():
        if (documents := written.total()) >= max(_LEAST, _LEAST_SHARE * size):
            lift = documents / size / shares.get(phrase, rare)
            weights[phrase] = documents / size * float(np.log(max(lift, 1))) ** 2 * _LONGER[min(len(phrase), _LONGEST)]
            weights[phrase] *= _STOP_WITHIN if phrase[len(phrase) // 2].startswith("(") else 1
    chosen: list[Phrase] = []
    for phrase in sorted(weights, key=lambda one: (-weights[one], one)):
        if weights[phrase] > 0 and not any(set(phrase) & set(other) for other in chosen):
            chosen.append(phrase)
        if len(chosen) == PHRASES:
            break
    return tuple(_as_written(forms[phrase]) for phrase in chosen)


def _as_written(forms: Counter[str]) -> str:
    """The most frequent form of a phrase; in small letters where it stands so often enough within sentences."""
    small = Counter({form: count for form, count in forms.items() if form == form.lower()})
    frequent = small if 4 * small.total() >= forms.total() else forms
    return max(frequent, key=lambda form: (frequent[form], form))


def write_names(path: str | Path, groups: Sequence[Group], ids: Sequence[str]) -> Path:
    """Write a table of names to edit: number, most typical document and name; ``ids`` are of all documents."""
    return write_csv(path, COLUMNS, [(one.number, ids[one.typical[0]], one.name) for one in groups])


def read_names(path: str | Path) -> list[EditedName]:
    """Read a table of names; it has the column ``name``, and ``typical`` or ``group``.

    Raises:
        DocumentError: it is no such table.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DocumentError(f"{path} cannot be read as names of groups: {error}") from error
    if any(row.get("name") is None or (row.get("typical") or row.get("group")) is None for row in rows):
        raise DocumentError(f"{path} has no names of groups; its columns are {', '.join(COLUMNS)}")
    return [EditedName(*((row.get(column) or "").strip() for column in COLUMNS)) for row in rows]


def apply_edited_names(groups: Sequence[Group], ids: Sequence[str], names: Iterable[EditedName]) -> list[Group]:
    """Groups with their given names; those without one keep theirs, and names of groups that are gone are reported."""
    number_of = {safe_cell(ids[row]): str(group.number) for group in groups for row in group.rows.tolist()}
    given: dict[str, str] = {}
    gone = []
    for one in names:
        number = number_of.get(one.typical, "") if one.typical else one.group
        if number in set(number_of.values()):
            given.setdefault(number, one_line(one.name, _NAME_CHARACTERS))
        else:
            gone.append(one.name)
    if gone:
        logger.warning("no group has the document or number of these names any more: %s", ", ".join(gone))
    return [replace(group, name=given.get(str(group.number)) or group.name) for group in groups]


class _Reader:
    """Reads the phrases of texts, each once a text, as tuples of stems."""

    def __init__(self, language: str) -> None:
        maker = TermMaker(language)

        @lru_cache(100_000)
        def stem(word: str) -> str:
            placed = maker.placed(word)
            return placed[0].term if placed and (len(word) > 2 or word.isupper()) else ""

        self.stem = stem

    def phrases(self, text: str) -> dict[Phrase, str]:
        """The phrases of a text, as they are written first."""
        phrases: dict[Phrase, str] = {}
        text = UNSPACED.sub(_STOP, text)
        matches = list(_WORD.finditer(text))
        stems = [self.stem(match[0]) for match in matches]
        joins = [_GAP.fullmatch(text, first.end(), second.start()) is not None for first, second in pairwise(matches)]
        for first, stem in enumerate(stems):
            if not stem:
                continue
            for last in range(first, min(first + _LONGEST, len(stems))):
                if last > first and not joins[last - 1]:
                    break
                if stems[last]:
                    words = [match[0] for match in matches[first : last + 1]]
                    both = zip(stems[first : last + 1], words, strict=True)
                    phrase = tuple(stem or f"({word.lower()})" for stem, word in both)
                    phrases.setdefault(phrase, " ".join(words))
        return phrases
