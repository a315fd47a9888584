"""Where a hit is like the query document: pairs of paragraphs and of sentences, with headings and texts."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..similarity.alignment import Alignment, ParagraphPair, SentencePair
from ..similarity.hierarchical import Direction, Normalisation
from .sentences import SentenceDocument

_SIDES = ("source", "candidate")
# What a page shows of an alignment, however long the documents are. A paragraph may be a whole document.
SHOWN_PAIRS, SHOWN_SENTENCES, _OPENING = 5, 12, 4
# The columns of the rows of an alignment.
OF_PAIRS = (
    *("direction", "contribution", "similarity"),
    *(f"{side}_{name}" for side in _SIDES for name in ("paragraph", "heading", "sentence", "text")),
)


def adding_up_to(score: float, alignment: Alignment) -> Alignment:
    """Give back in proportion what rounding took, since a product of many vectors rounds otherwise than one of few.

    Args:
        score: what contributions have to add up to.
        alignment: the pairs.
    """
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


def _ordered(pair: ParagraphPair) -> list[SentencePair]:
    """Pairs of sentences, those first that add most."""
    return sorted(pair.sentences, key=lambda part: (-part.contribution, part.source, part.candidate))


@dataclass(frozen=True)
class HitAlignment:
    """What the score of a hit by sentences is made of.

    Args:
        alignment: pairs of paragraphs and sentences; their contributions add up to the score.
        source: the query document.
        candidate: the hit.
        direction: whether the document was looked for in the hit, or also the hit in it.
        normalisation: how scores were normalised.
    """

    alignment: Alignment
    source: SentenceDocument
    candidate: SentenceDocument
    direction: Direction = "source"
    normalisation: Normalisation = "none"

    @property
    def whole(self) -> bool:
        """Whether the only pair is that of both documents as wholes."""
        return self.alignment.by == "document"

    @property
    def score(self) -> float:
        """The score by sentences, the sum of the contributions of all pairs."""
        return self.alignment.score

    @property
    def pairs(self) -> tuple[ParagraphPair, ...]:
        """Pairs of paragraphs, with their sentence pairs."""
        return self.alignment.pairs

    def best(self, most: int) -> list[tuple[ParagraphPair, SentencePair | None]]:
        """The strongest pairs of paragraphs, each with the pair of its sentences that adds most.

        A score is a mean of means: a sentence of a short paragraph adds more than one of a long paragraph, which says
        nothing about either. So paragraphs are compared with paragraphs, and sentences with those beside them.

        Args:
            most: pairs wanted.

        Returns:
            Pairs of paragraphs, with None where no sentences were compared.
        """
        return [(pair, next(iter(_ordered(pair)), None)) for pair in self.alignment.best(most)]

    def first_sentence(self, side: str, paragraph: int) -> int:
        """Number of the first sentence of a paragraph.

        Args:
            side: ``source`` or ``candidate``.
            paragraph: number of the paragraph.
        """
        return 0 if self.whole else int(self._starts[side][paragraph])

    def heading(self, side: str, paragraph: int) -> str:
        """Heading of the section that a paragraph is in; of the whole document its title.

        Args:
            side: ``source`` or ``candidate``.
            paragraph: number of the paragraph.
        """
        document = self._side(side)
        if self.whole:
            return document.title
        places = document.sentences.places
        return document.headings[int(places[self._starts[side][paragraph], 0])] if len(places) else ""

    def text(self, side: str, sentence: int) -> str:
        """A sentence of one of both documents."""
        document = self._side(side)
        section, start, end, _ = document.sentences.places[sentence].tolist()
        return str(document.texts[section][start:end])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, each pair with headings or texts of both sides."""
        content = self.alignment.to_dict()
        content |= {"direction": self.direction, "normalisation": self.normalisation}
        return {**content, "pairs": [self._pair(pair) for pair in content["pairs"]]}

    def excerpt(self) -> dict[str, Any]:
        """The strongest pairs as plain values, with a stretch of each text: what a page shows.

        Returns:
            ``by``, ``direction``, ``normalisation``, ``score``, ``whole``, ``total`` (pairs of paragraphs there are)
            and ``pairs``, those of :meth:`to_dict` with the sentence pairs that add most, ``total`` (sentence pairs
            there are), and ``source_stretch`` and ``candidate_stretch``: the sentences in these pairs and those beside
            them, each with ``sentence``, ``text`` and ``space`` before it, and None where some are left out; no
            stretches where documents were compared as wholes.
        """
        pairs = [self._shown(pair) for pair in self.alignment.best(SHOWN_PAIRS)]
        return {
            "by": self.alignment.by,
            "direction": self.direction,
            "normalisation": self.normalisation,
            "score": self.score,
            "whole": self.whole,
            "total": len(self.pairs),
            "pairs": pairs,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each pair of sentences, or of paragraphs where no sentences were compared.

        The strongest pairs of paragraphs come first, and within each the sentences that add most.
        """
        best = [(pair, part) for pair in self.alignment.best() for part in (_ordered(pair) or (None,))]
        for pair, part in best:
            row: dict[str, Any] = {"direction": pair.direction, "contribution": (part or pair).contribution}
            row["similarity"] = pair.score if part is None else part.cosine
            for side in _SIDES:
                row[f"{side}_paragraph"] = getattr(pair, side)
                row[f"{side}_heading"] = self.heading(side, getattr(pair, side))
                number = None if part is None else getattr(part, side)
                row[f"{side}_sentence"] = number
                row[f"{side}_text"] = None if number is None else self.text(side, number)
            yield row

    @cached_property
    def _starts(self) -> dict[str, Any]:
        sides = (("source", self.source), ("candidate", self.candidate))
        return {side: np.flatnonzero(np.diff(document.sentences.places[:, 3], prepend=-1)) for side, document in sides}

    def _shown(self, pair: ParagraphPair) -> dict[str, Any]:
        chosen = _ordered(pair)[:SHOWN_SENTENCES]
        stretches = {
            f"{side}_stretch": self._stretch(side, getattr(pair, side), {getattr(part, side) for part in chosen})
            for side in _SIDES
        }
        content = pair._asdict() | {"sentences": [part._asdict() for part in chosen]}
        return {**self._pair(content), "total": len(pair.sentences), **stretches}

    def _stretch(self, side: str, paragraph: int, paired: Set[int]) -> list[dict[str, Any] | None] | None:
        """The sentences of a paragraph that are in pairs, and those beside them; its first ones where none are."""
        document, starts = self._side(side), self._starts[side]
        if self.whole:
            return None
        places = document.sentences.places
        first, end = int(starts[paragraph]), int([*starts[1:], len(places)][paragraph])
        near = {number for sentence in paired for number in range(sentence - 1, sentence + 2) if first <= number < end}
        shown: list[dict[str, Any] | None] = []
        last = first - 1
        for number in sorted(near) or range(first, min(end, first + _OPENING)):
            section, start, stop, _ = places[number].tolist()
            text = document.texts[section]
            joined = number == last + 1
            if not joined:
                shown.append(None)
            space = text[int(places[last, 2]) : start] if joined and last >= first else ""
            shown.append({"sentence": number, "text": text[start:stop], "space": space})
            last = number
        return [*shown, None] if last < end - 1 else shown

    def _side(self, side: str) -> SentenceDocument:
        return self.source if side == "source" else self.candidate

    def _pair(self, pair: dict[str, Any]) -> dict[str, Any]:
        return {
            **pair,
            **{f"{side}_heading": self.heading(side, pair[side]) for side in _SIDES},
            "sentences": [
                {
                    **part,
                    **{f"{side}_text": self.text(side, part[side]) for side in _SIDES},
                    **{f"{side}_place": self._side(side).sentences.places[part[side], :3].tolist() for side in _SIDES},
                }
                for part in pair["sentences"]
            ],
        }
