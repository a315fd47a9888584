"""Why a document was found: its score as a sum over terms, passages and rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .fusion import Part


@dataclass(frozen=True, slots=True)
class TermPart:
    """What a term adds to the score of word search.

    Args:
        term: the word as the query has it.
        frequency: how often the passages (or the document) that were scored hold it.
        document_frequency: passages (or documents) of the index that hold it.
        part: its part of the score.
    """

    term: str
    frequency: int
    document_frequency: int
    part: float


@dataclass(frozen=True, slots=True)
class PassagePart:
    """What a passage adds to the score of vector search.

    Args:
        number: the passage.
        heading: heading of its section.
        part: its part of the score.
    """

    number: int
    heading: str
    part: float


# How a pair is told from the best one for a paragraph of the document that was asked with.
FROM_THE_HIT = "best match of the hit's paragraph"


@dataclass(frozen=True, slots=True)
class PairPart:
    """What a pair of paragraphs adds to the score by sentences.

    Args:
        source: paragraph of the document that was asked with.
        candidate: paragraph of the hit.
        source_heading: heading of its section.
        candidate_heading: heading of its section.
        part: its part of the score.
        direction: whether the paragraph of the ``source`` was looked for, or that of the ``candidate``.
    """

    source: int
    candidate: int
    source_heading: str
    candidate_heading: str
    part: float
    direction: Literal["source", "candidate"] = "source"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The score of a document, taken apart.

    Args:
        id: the document.
        score: its score, the sum of the shares of ``parts``.
        parts: rank, score and share of each ranking that found it.
        words: what terms add to the score of word search, largest first; they add up to it.
        vectors: what passages add to the score of vector search, largest first; they add up to it.
        sentences: what pairs of paragraphs add to the score by sentences, largest first; they add up to it.
    """

    id: str
    score: float
    parts: Mapping[str, Part]
    words: tuple[TermPart, ...]
    vectors: tuple[PassagePart, ...]
    sentences: tuple[PairPart, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Terms, passages and pairs of paragraphs as plain values."""
        return {name: [asdict(one) for one in getattr(self, name)] for name in ("words", "vectors", "sentences")}

    def __str__(self) -> str:
        lines = [f"{self.id}: {self.score:.4f}"]
        for name, part in self.parts.items():
            lines.append(f"  {name}: rank {part.rank}, score {part.score:.3f}, share {part.share:.4f}")
            own: Sequence[TermPart | PassagePart | PairPart] = getattr(self, name, self.sentences)
            lines += [f"    {_named(one)}: {one.part:+.3f}" for one in own]
        return "\n".join(lines)


def _named(one: TermPart | PassagePart | PairPart) -> str:
    if isinstance(one, PairPart):
        sides = ((one.source, one.source_heading), (one.candidate, one.candidate_heading))
        pair = " with ".join(f"paragraph {number + 1}" + (f" ({name})" if name else "") for number, name in sides)
        return pair + (f", {FROM_THE_HIT}" if one.direction == "candidate" else "")
    if isinstance(one, TermPart):
        times = "once" if one.frequency == 1 else f"{one.frequency} times"
        return f"{one.term} ({times}; in {one.document_frequency:,})"
    return f"passage {one.number + 1}" + (f" ({one.heading})" if one.heading else "")
