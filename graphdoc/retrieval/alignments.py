"""Alignments of hits by sentences with the query document: pairs of paragraphs and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from ..similarity.alignment import Alignment, ParagraphPair, SentencePair
from ..similarity.hierarchical import Direction, Normalization

SIDES = ("source", "candidate")
# What a page shows of an alignment, however long the documents are. A paragraph may be a whole document.
SHOWN_PAIRS, SHOWN_SENTENCES = 5, 12
# Sentences of a paragraph that are shown where none is in a pair.
_OPENING = 4
# The columns of the rows of an alignment.
ALIGNMENT_COLUMNS = (
    *("direction", "contribution", "similarity"),
    *(f"{side}_{name}" for side in SIDES for name in ("paragraph", "heading", "sentence", "text")),
)


@dataclass(frozen=True, eq=False)
class SentenceDocument:
    """A document with ``(sentences, 4)``: section, first character, one past the last, and paragraph of each."""

    document: Document
    places: npt.NDArray[np.int32]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """``(paragraphs,)``, the first sentence of every paragraph."""
        return np.flatnonzero(np.diff(self.places[:, 3], prepend=-1))

    def heading(self, sentence: int) -> str:
        """Heading of the section that a sentence is in."""
        return self.document.sections[int(self.places[sentence, 0])].heading

    def text(self, sentence: int) -> str:
        """The text of a sentence."""
        section, start, end, _ = self.places[sentence].tolist()
        return str(self.document.sections[section].text[start:end])


@dataclass(frozen=True)
class HitAlignment(Alignment):
    """The parts of the score of a hit by sentences: pairs whose contributions add up to it."""

    source: SentenceDocument
    candidate: SentenceDocument
    direction: Direction = "source"
    normalization: Normalization = "none"

    @property
    def is_whole(self) -> bool:
        """Whether the only pair is that of both documents as wholes."""
        return self.by == "document"

    def best_pairs(self, top_k: int) -> list[tuple[ParagraphPair, SentencePair | None]]:
        """The strongest pairs of paragraphs, each with the pair of its sentences that adds most, if any.

        A score is a mean of means: a sentence of a short paragraph adds more than one of a long paragraph, which says
        nothing about either. So paragraphs are compared with paragraphs, and sentences with those beside them.
        """
        return [(pair, next(iter(_best_first(pair)), None)) for pair in self.best(top_k)]

    def first_sentence(self, side: str, paragraph: int) -> int:
        """Number of the first sentence of a paragraph of the ``source`` or the ``candidate``."""
        return 0 if self.is_whole else int(self._document(side).starts[paragraph])

    def heading(self, side: str, paragraph: int) -> str:
        """Heading of the section that a paragraph is in; of the whole document its title."""
        document = self._document(side)
        return document.document.title if self.is_whole else document.heading(self.first_sentence(side, paragraph))

    def text(self, side: str, sentence: int) -> str:
        """A sentence of the ``source`` or the ``candidate``."""
        return self._document(side).text(sentence)

    def describe(self) -> dict[str, Any]:
        """Score and settings as plain values."""
        settings = {name: getattr(self, name) for name in ("by", "direction", "normalization")}
        return {**settings, "score": self.score}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, each pair with headings or texts of both sides."""
        return {**self.describe(), "pairs": [self._pair(pair, pair.sentences) for pair in self.pairs]}

    def excerpt(self) -> dict[str, Any]:
        """What a page shows: the strongest pairs with the sentence pairs that add most, and a stretch of each text.

        A stretch has the sentences in these pairs and those beside them, each with ``sentence``, ``text`` and the
        ``space`` before it, and None where some are left out; ``total`` counts all pairs. Documents that were compared
        as wholes have no stretches.
        """
        pairs = []
        for pair in self.best(SHOWN_PAIRS):
            values = self._pair(pair, _best_first(pair)[:SHOWN_SENTENCES]) | {"total": len(pair.sentences)}
            for side in SIDES:
                paired = {part[side] for part in values["sentences"]}
                values[f"{side}_stretch"] = None if self.is_whole else self._stretch(side, getattr(pair, side), paired)
            pairs.append(values)
        return {**self.describe(), "is_whole": self.is_whole, "total": len(self.pairs), "pairs": pairs}

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each pair of sentences, or of paragraphs where no sentences were compared.

        The strongest pairs of paragraphs come first, and within each the sentences that add most.
        """
        for pair in self.best():
            for part in _best_first(pair) or (None,):
                row: dict[str, Any] = {"direction": pair.direction, "contribution": (part or pair).contribution}
                row["similarity"] = pair.score if part is None else part.cosine
                for side in SIDES:
                    paragraph, sentence = getattr(pair, side), None if part is None else getattr(part, side)
                    text = None if sentence is None else self.text(side, sentence)
                    row |= {f"{side}_paragraph": paragraph, f"{side}_heading": self.heading(side, paragraph)}
                    row |= {f"{side}_sentence": sentence, f"{side}_text": text}
                yield row

    def _document(self, side: str) -> SentenceDocument:
        return self.source if side == "source" else self.candidate

    def _pair(self, pair: ParagraphPair, sentences: Sequence[SentencePair]) -> dict[str, Any]:
        """A pair of paragraphs as plain values, with some of its pairs of sentences."""
        parts = []
        for part in sentences:
            values = part._asdict()
            for side in SIDES:
                sentence = getattr(part, side)
                values[f"{side}_text"] = self.text(side, sentence)
                values[f"{side}_place"] = self._document(side).places[sentence, :3].tolist()
            parts.append(values)
        headings = {f"{side}_heading": self.heading(side, getattr(pair, side)) for side in SIDES}
        return {**pair._asdict(), **headings, "sentences": parts}

    def _stretch(self, side: str, paragraph: int, paired: Set[int]) -> list[dict[str, Any] | None]:
        """The sentences of a paragraph that are in pairs, and those beside them; its first ones where none are."""
        document = self._document(side)
        places = document.places
        first, end = [*document.starts.tolist(), len(places)][paragraph : paragraph + 2]
        near = {number for sentence in paired for number in range(sentence - 1, sentence + 2) if first <= number < end}
        shown: list[dict[str, Any] | None] = []
        last = first - 1
        for number in sorted(near) or range(first, min(end, first + _OPENING)):
            space = ""
            if number > last + 1:
                shown.append(None)
            elif last >= first:
                section, start = places[number, :2].tolist()
                space = document.document.sections[section].text[int(places[last, 2]) : start]
            shown.append({"sentence": number, "text": document.text(number), "space": space})
            last = number
        return [*shown, None] if last < end - 1 else shown


def _best_first(pair: ParagraphPair) -> list[SentencePair]:
    return sorted(pair.sentences, key=lambda part: (-part.contribution, part.source, part.candidate))


def adding_up_to(score: float, alignment: Alignment) -> Alignment:
    """Spread over contributions what rounding took: a product of many vectors rounds otherwise than one of few."""
    parts = [part for pair in alignment.pairs for part in (pair.sentences or (pair,))]
    factor = (score - alignment.score) / (sum(abs(part.contribution) for part in parts) or 1.0)

    def scaled(contribution: float) -> float:
        return contribution + abs(contribution) * factor

    pairs = []
    for pair in alignment.pairs:
        sentences = tuple(part._replace(contribution=scaled(part.contribution)) for part in pair.sentences)
        whole = sum(part.contribution for part in sentences) if sentences else scaled(pair.contribution)
        pairs.append(pair._replace(contribution=whole, sentences=sentences))
    return replace(alignment, pairs=tuple(pairs))
