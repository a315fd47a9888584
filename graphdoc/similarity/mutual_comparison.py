"""Several documents compared with each other and within themselves, at every level at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..runtime.arrays import Floats
from ..runtime.files import JsonResult, write_csv, write_text
from ..segmentation.spans import Coverage
from .background import FEWEST_DOCUMENTS, Background, unrelated_passages
from .comparison import Comparison
from .encoded_document import EncodedDocument
from .evidence import ALIKE, Reference
from .kinds import Similarity, similarity_matrix, similarity_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MutualComparison(JsonResult):
    """Several documents, every part with every other, within documents and across (CoLDE, figures 4 and 5).

    Args:
        documents: the documents, in the order of rows and columns.
        model: what the vectors were made with, for the record.
        similarity: how documents are compared, a name of :data:`graphdoc.registry.SIMILARITIES`.
        model_background: how alike unrelated documents are, for collections too small to say it themselves, or None.
        evidence: what ``evidence`` measures documents by in such collections; larger ones are measured by themselves.
    """

    documents: Sequence[EncodedDocument] = field(repr=False)
    model: Mapping[str, Any]
    similarity: str = "cosine"
    model_background: Background | None = field(default=None, repr=False)
    evidence: Reference | None = field(default=None, repr=False)

    @cached_property
    def background(self) -> Background | None:
        """How alike the pairs of these documents are, or of fewer than 50 those of the model; None where unknown."""
        scores = self.document_scores
        if len(scores) < FEWEST_DOCUMENTS or np.ptp(scores) < ALIKE:
            return self.model_background
        passages, pairs = unrelated_passages([one.passages for one in self.documents]), np.triu_indices(len(scores), 1)
        return Background.from_scores(scores[pairs], len(scores), passages, self._lengths[np.array(pairs)].mean(axis=0))

    @cached_property
    def _lengths(self) -> Floats:
        return self.kind.lengths(self.documents)

    def share(self, first: int, second: int) -> float | None:
        """The share of unrelated pairs that are less alike than two of the documents; None where it is not known."""
        score, length = float(self.document_scores[first, second]), float(self._lengths[[first, second]].mean())
        background = self.background_of(first, second)
        return None if background is None else background.share(score, length)

    def background_of(self, first: int, second: int) -> Background | None:
        """How alike unrelated documents are, of the genre of two of the documents where the model knows it."""
        if self.background is None or not self.background.genres or self._measure is None:
            return self.background
        return self.background.of(self._measure.units([self.documents[first], self.documents[second]]))

    @property
    def kind(self) -> Similarity:
        """How the documents are compared."""
        return similarity_of(self.similarity).with_reference(self._measure)

    @cached_property
    def _measure(self) -> Reference | None:
        if not similarity_of(self.similarity).reads_reference or len(self.documents) < FEWEST_DOCUMENTS:
            return self.evidence
        found = Reference.from_documents(self.documents)
        return self.evidence if found.calibration.vectors.deviation <= ALIKE else found

    def compare(self, first: int, second: int) -> Comparison:
        """Compare two of the documents at every level, with the score that they have here."""
        a, b, background = self.documents[first], self.documents[second], self.background_of(first, second)
        return Comparison(a, b, self.model, self.similarity, first == second, None, background, self._measure)

    @cached_property
    def document_scores(self) -> Floats:
        """Similarity of documents, ``(documents, documents)``."""
        return self.kind.scores(self.documents, self.documents)

    def pairs(self, top_k: int | None = None) -> list[tuple[int, int, float]]:
        """Pairs of different documents and their similarity, highest first, those of equal one in their order."""
        scores = self.document_scores
        first, second = np.triu_indices(len(scores), 1)
        values = scores[first, second]
        order = np.argsort(-np.round(values, 9), kind="stable")[:top_k]
        return [(int(first[at]), int(second[at]), float(values[at])) for at in order]

    def sections_of(self, first: int, second: int) -> Floats:
        """Similarity of the sections of two documents, ``(sections of the first, sections of the second)``."""
        a, b = self.documents[first].sections, self.documents[second].sections
        return similarity_matrix(a, b, self.kind.vector_similarity)

    def to_dict(self) -> dict[str, Any]:
        """Documents, the matrix of their similarities and all pairs, as plain values for JSON."""
        return {
            "format": "graphdoc.comparisons/1",
            "model": dict(self.model),
            "similarity": self.similarity,
            "not_whole": sum((one.segmented.coverage for one in self.documents), Coverage()).describe(),
            "documents": [
                {"id": one.segmented.document.id, "title": one.segmented.document.title} for one in self.documents
            ],
            "scores": [[round(float(score), 6) for score in row] for row in self.document_scores],
            "pairs": [self._pair(*pair) for pair in self.pairs()],
        }

    def _pair(self, a: int, b: int, score: float) -> dict[str, Any]:
        share, background = self.share(a, b), self.background_of(a, b)
        share_of = None if share is None or background is None else background.pairs
        return {"a": a, "b": b, "score": round(score, 6), "share": share, "share_of": share_of}

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw documents, sections and passages as matrices, and the texts of the strongest pairs of passages."""
        from ..analysis.figures.comparison import plot_mutual_comparison

        return plot_mutual_comparison(self, path)

    def plot_documents(self, path: str | Path | None = None) -> Figure:
        """Draw the similarities of any number of documents as one matrix, those that are alike next to each other."""
        from ..analysis.figures.comparison import plot_matrix

        names = [document.title or document.id for document in (one.segmented.document for one in self.documents)]
        model = str(self.model.get("name"))
        return plot_matrix(self.document_scores, names, self.similarity, model, path, self.background)

    @overload
    def to_html(self, path: None = None, *, links: Mapping[tuple[int, int], str] | None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path, *, links: Mapping[tuple[int, int], str] | None = None) -> Path: ...
    def to_html(
        self, path: str | Path | None = None, *, links: Mapping[tuple[int, int], str] | None = None
    ) -> str | Path:
        """Write the page of scores, one file that needs no network, atomically; without a path its HTML is returned.

        Args:
            path: file to write.
            links: by the rows of a pair, where its report is, relative to the page.
        """
        from ..analysis.pages.matrix import render_matrix

        page = render_matrix(self.to_dict(), links or {})
        return page if path is None else write_text(path, page)

    def to_csv(self, path: str | Path) -> Path:
        """Write the matrix of documents as CSV, atomically, with ids as heads of rows and columns."""
        ids = [encoded.segmented.document.id for encoded in self.documents]
        rows = ([id, *map(float, row)] for id, row in zip(ids, self.document_scores, strict=True))
        return write_csv(path, ["id", *ids], rows)

    @cached_property
    def sections(self) -> Floats:
        """Similarity of sections, ``(sections of all documents, sections of all documents)``."""
        vectors = np.concatenate([encoded.sections for encoded in self.documents])
        return similarity_matrix(vectors, vectors, self.kind.vector_similarity)

    @cached_property
    def passages(self) -> Floats:
        """Similarity of passages, ``(passages of all documents, passages of all documents)``."""
        vectors = np.concatenate([encoded.passages for encoded in self.documents])
        return similarity_matrix(vectors, vectors, self.kind.vector_similarity)

    @cached_property
    def attention(self) -> Floats | None:
        """Chunkwise attention, ``(heads, passages that look, passages looked at)``; None for models without it.

        Within a document it is that between consecutive sections, with 0 where there is no pair; from one document to
        another it is as if the other were the next section. A row sums to 1 within each document looked at.
        """
        parts = [encoded.attention for encoded in self.documents if encoded.attention is not None]
        if len(parts) < len(self.documents):
            return None
        rows = [[one.within() if one is other else one.to(other) for other in parts] for one in parts]
        return np.concatenate([np.concatenate(row, axis=2) for row in rows], axis=1)

    @cached_property
    def first_passages(self) -> tuple[int, ...]:
        """Row of every document's first passage, and the number of passages of all."""
        return tuple(accumulate((len(encoded.passages) for encoded in self.documents), initial=0))

    @cached_property
    def first_sections(self) -> tuple[int, ...]:
        """Row of every document's first section, and the number of sections of all."""
        return tuple(accumulate((len(encoded.section_numbers) for encoded in self.documents), initial=0))
