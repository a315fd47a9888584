"""The result of matching a pair: its score, and the views and subtopics that it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime.files import JsonResult, write_csv
from ..segmentation.spans import SegmentedDocument
from ..subtopics.subtopics import Subtopics

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class MatchedView:
    """A view of a pair with its score.

    Args:
        score: how well both sides match; None where views were read together.
        a: sentences of the first document in the view, in reading order.
        b: those of the second.
        cut: sentences of either that are in it in part, since it was full.
    """

    score: float | None
    a: tuple[int, ...]
    b: tuple[int, ...]
    cut: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The view as plain values."""
        score = None if self.score is None else round(self.score, 6)
        return {"score": score, "a": list(self.a), "b": list(self.b), "cut": self.cut}


@dataclass(frozen=True)
class PairMatch(JsonResult):
    """The score of two documents, and what it comes from.

    Args:
        a: the first document, cut into sentences.
        b: the second.
        score: the score of the pair: of a model that reads both together the log odds that they match, else a cosine.
        is_log_odds: which of the two it is.
        views: the views that were read.
        subtopics: the subtopics that views were drawn by, of the sentences of both receptive fields.
        beyond: sentences of either document beyond its field, which no view can hold.
        model: what it was matched with, for the record.
    """

    a: SegmentedDocument
    b: SegmentedDocument
    score: float
    is_log_odds: bool
    views: tuple[MatchedView, ...]
    subtopics: Subtopics
    beyond: tuple[int, int]
    model: Mapping[str, Any]

    def __repr__(self) -> str:
        names = f"{self.a.document.id!r} with {self.b.document.id!r}"
        return f"{type(self).__name__}({names}: {self.score:.3f}, {len(self.views)} views)"

    @property
    def probability(self) -> float | None:
        """The probability that the documents match; None for a cosine, which is none."""
        if not self.is_log_odds:
            return None
        return 1 / (1 + math.exp(-self.score)) if self.score > -700 else 0.0

    def to_frame(self) -> pd.DataFrame:
        """The sentences of all views as a table.

        Returns:
            One row per sentence in a view: ``view``, ``score`` of the view, ``document`` (``a`` or ``b``),
            ``sentence``, ``subtopic``, ``heading`` and ``text``.
        """
        import pandas as pd

        rows: list[tuple[Any, ...]] = []
        for number, view in enumerate(self.views):
            for side, one, sentences, clusters in zip(
                "ab", (self.a, self.b), (view.a, view.b), self.subtopics.sides, strict=True
            ):
                for sentence in sentences:
                    span = one.passages[sentence]
                    heading, text = one.document.sections[span.section].heading, one.text(span)
                    rows.append((number, view.score, side, sentence, int(clusters[sentence]), heading, text))
        return pd.DataFrame(rows, columns=["view", "score", "document", "sentence", "subtopic", "heading", "text"])

    def to_csv(self, path: str | Path) -> Path:
        """Write the sentences of all views as CSV, atomically (see :meth:`to_frame`)."""
        frame = self.to_frame().astype(object)
        return write_csv(path, [*map(str, frame)], frame.where(frame.notna(), None).itertuples(index=False, name=None))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, the content of the JSON file."""
        sides = zip((self.a, self.b), self.subtopics.sides, self.beyond, strict=True)
        first, second = (_document_dict(one, clusters.tolist(), beyond) for one, clusters, beyond in sides)
        return {
            "format": "graphdoc.match/1",
            "model": dict(self.model),
            "score": round(self.score, 6),
            "probability": None if self.probability is None else round(self.probability, 6),
            "views": [view.to_dict() for view in self.views],
            "subtopics": self.subtopics.number,
            "a": first,
            "b": second,
        }


def _document_dict(one: SegmentedDocument, clusters: list[int], beyond: int) -> dict[str, Any]:
    document = one.document
    return {
        "id": document.id,
        "title": document.title,
        "sentences": [
            {
                "subtopic": cluster,
                "section": span.section,
                "heading": document.sections[span.section].heading,
                "start": span.start,
                "end": span.end,
                "text": one.text(span),
            }
            for cluster, span in zip(clusters, one.passages, strict=False)
        ],
        "beyond": beyond,
    }
