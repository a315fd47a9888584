"""The subtopics of a pair as a table: who has them, their leading words, and how alike both documents are in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ..segmentation.terms import TermMaker
from .subtopics import Subtopics

Term = TypeVar("Term")
Holder = Literal["both", "a", "b"]

LEADING_WORDS = 5


@dataclass(frozen=True, slots=True)
class Subtopic:
    """One subtopic of a pair, or of one document.

    Args:
        number: its number.
        a: sentences of the first document in it, in reading order.
        b: those of the second; none within one document.
        words: words that tell it from the other subtopics, best first, as they are written in the texts.
        share_a: its share of the first document's sentences.
        share_b: its share of the second's.
        similarity: mean similarity between its sentences of the one document and those of the other, within one
            document between all of them; None where there is no such pair.
    """

    number: int
    a: tuple[int, ...]
    b: tuple[int, ...]
    words: tuple[str, ...]
    share_a: float
    share_b: float
    similarity: float | None

    @property
    def holder(self) -> Holder:
        """Whether ``both`` documents have it, or only ``a`` or ``b``."""
        if self.a and self.b:
            return "both"
        return "a" if self.a else "b"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "number": self.number,
            "holder": self.holder,
            "words": list(self.words),
            "a": list(self.a),
            "b": list(self.b),
            "share_a": round(self.share_a, 6),
            "share_b": round(self.share_b, 6),
            "similarity": None if self.similarity is None else round(self.similarity, 6),
        }


@dataclass(frozen=True)
class SubtopicTable:
    """All subtopics of a pair of documents, or of one.

    Args:
        subtopics: which sentence is in which.
        rows: the subtopics, first those that both documents have, each by falling size.
        by: what they were found by, such as ``words``.
        cluster_size: sentences of a subtopic, about.
        beyond: sentences of either document beyond the receptive field, which are in none.
        is_within: whether they are of one document.
    """

    subtopics: Subtopics
    rows: tuple[Subtopic, ...]
    by: str
    cluster_size: int
    beyond: tuple[int, int] = (0, 0)
    is_within: bool = False

    @classmethod
    def from_similarity(
        cls,
        subtopics: Subtopics,
        texts: Sequence[str],
        similarity: npt.ArrayLike,
        language: str,
        *,
        by: str,
        cluster_size: int,
        beyond: tuple[int, int] = (0, 0),
        is_within: bool = False,
    ) -> SubtopicTable:
        """Describe subtopics.

        Args:
            subtopics: which sentence is in which.
            texts: all sentences, those of the first document first.
            similarity: ``(sentences, sentences)``, what sentences have in common by ``by``.
            language: language of the texts, a two-letter code.
            by: what subtopics were found by.
            cluster_size: sentences of a subtopic, about.
            beyond: sentences of either document that are not among these.
            is_within: whether all sentences are of one document.
        """
        words = leading_words(subtopics, texts, language)
        scores = np.asarray(similarity, np.float64)
        sizes = [max(len(side), 1) for side in subtopics.sides]
        rows = []
        for number in range(subtopics.number):
            members = np.flatnonzero(subtopics.clusters == number)
            first, second = members[members < subtopics.first], members[members >= subtopics.first]
            if is_within:
                pairs = scores[np.ix_(first, first)][~np.eye(len(first), dtype=bool)]
            else:
                pairs = scores[np.ix_(first, second)]
            rows.append(
                Subtopic(
                    number,
                    tuple(first.tolist()),
                    tuple((second - subtopics.first).tolist()),
                    words[number],
                    len(first) / sizes[0],
                    len(second) / sizes[1],
                    float(pairs.mean()) if pairs.size else None,
                )
            )
        order = {"both": 0, "a": 1, "b": 2}
        ranked = sorted(rows, key=lambda row: (order[row.holder], -len(row.a) - len(row.b), row.number))
        return cls(subtopics, tuple(ranked), by, cluster_size, beyond, is_within)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; ``a`` and ``b`` are the subtopic of every sentence of the field of either."""
        first, second = (side.tolist() for side in self.subtopics.sides)
        about = {"by": self.by, "cluster_size": self.cluster_size, "beyond": list(self.beyond)}
        return {**about, "rows": [row.to_dict() for row in self.rows], "a": first, "b": second}


def leading_words(
    subtopics: Subtopics, texts: Sequence[str], language: str, top_k: int = LEADING_WORDS
) -> list[tuple[str, ...]]:
    """The words that tell every subtopic from the others (see :func:`distinctive_terms`), which is taken as one text.

    A term is shown as the word that it stands for most often. Of equals the first in reading order comes first.
    """
    maker = TermMaker(language)
    counts: list[Counter[str]] = [Counter() for _ in range(subtopics.number)]
    written: dict[str, Counter[str]] = {}
    for text, number in zip(texts, subtopics.clusters.tolist(), strict=True):
        for term, word in maker.placed(text):
            # Numbers tell little, and single letters are what is left of formulas.
            if len(word) > 1 and not word.isdigit():
                counts[number][term] += 1
                written.setdefault(term, Counter())[word if word.isupper() else word.lower()] += 1
    return [tuple(written[term].most_common(1)[0][0] for term in own) for own in distinctive_terms(counts, top_k)]


def distinctive_terms(counts: Sequence[Mapping[Term, float]], top_k: int) -> list[list[Term]]:
    r"""The terms that tell every group from the others, by class-based tf-idf (as in BERTopic), best first.

    A term's weight in a group is how often it occurs there times :math:`\log(1 + \bar{n} / f)`, where :math:`\bar{n}`
    is the mean number of terms of a group and :math:`f` how often the term occurs in all of them.
    """
    totals: Counter[Term] = Counter()
    for own in counts:
        totals.update(own)
    mean = sum(totals.values()) / max(len(counts), 1)
    weights = [{term: count * float(np.log1p(mean / totals[term])) for term, count in own.items()} for own in counts]
    return [sorted(own, key=own.__getitem__, reverse=True)[:top_k] for own in weights]
