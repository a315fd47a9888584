"""Comparison of two documents, or of each with the other, level by level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, overload

import numpy as np

from ..errors import SettingsError
from ..runtime.arrays import Floats
from ..runtime.files import JsonResult, write_csv, write_text
from ..runtime.text import require_one_of, require_whole
from ..segmentation.spans import Span
from ..subtopics.table import SubtopicTable
from .alignment import Alignment, align
from .background import Background
from .encoded_document import NO_SENTENCES, EncodedDocument
from .evidence import Reference
from .hierarchical import SENTENCE_SCORINGS, Direction, SentenceScoring, paragraph_scores, score_documents
from .kinds import Similarity, WordPart, similarity_matrix, similarity_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


ComparedLevel = Literal["section", "passage", "paragraph", "sentence"]
COMPARED_LEVELS: tuple[ComparedLevel, ...] = get_args(ComparedLevel)


class Match(NamedTuple):
    """A pair of parts, one of each document.

    Args:
        a: row in the first document.
        b: row in the second document.
        score: similarity of the two.
        contribution: what the pair adds to the document score; None for paragraphs and sentences.
    """

    a: int
    b: int
    score: float
    contribution: float | None

    def to_dict(self) -> dict[str, Any]:
        """The match as plain values."""
        contribution = None if self.contribution is None else round(self.contribution, 9)
        return {"a": self.a, "b": self.b, "score": round(self.score, 6), "contribution": contribution}


@dataclass(frozen=True)
class Comparison(JsonResult):
    """Two documents compared at every level, or one document within itself.

    Contributions split the document score. The document vectors are sums of one part per passage (see
    :func:`~graphdoc.modeling.attribution.passage_attributions`), so their dot product is a sum over pairs of passages;
    each pair's share of it, divided like the score itself, is the pair's contribution. Those of passage pairs add up to
    those of section pairs, and these to the document score.

    Models with chunkwise attention (CoLDE) also show which passages look at which: between consecutive sections of a
    document, and from each document to the other as if that were its next section (CoLDE, figures 4 and 5).

    Args:
        a: first document.
        b: second document.
        model: what the vectors were made with, for the record.
        similarity: how documents are compared, a name of :data:`graphdoc.registry.SIMILARITIES`.
        is_within: whether this is one document compared with itself.
        subtopics: the subtopics of their sentences; None unless they were asked for.
        background: how alike unrelated documents are; None where that is not known.
        evidence: what ``evidence`` measures documents by; None where it is another similarity, or that is not known.
    """

    a: EncodedDocument
    b: EncodedDocument
    model: Mapping[str, Any]
    similarity: str = "cosine"
    is_within: bool = False
    subtopics: SubtopicTable | None = None
    background: Background | None = None
    evidence: Reference | None = None

    def __repr__(self) -> str:
        other = "within itself" if self.is_within else f"with {self.b.segmented.document.id!r}"
        names = f"{self.a.segmented.document.id!r} {other}"
        sections, passages = (" x ".join(map(str, matrix.shape)) for matrix in (self.sections, self.passages))
        sizes = f"{sections} sections, {passages} passages"
        return f"{type(self).__name__}({names}: {self.document:.3f}, {sizes}, model {self.model.get('name')})"

    @cached_property
    def document(self) -> float:
        """Similarity of the two documents."""
        return float(self.kind.scores([self.a], [self.b])[0, 0])

    @property
    def share(self) -> float | None:
        """The share of unrelated pairs of documents that are less alike, 0 to 1; None where it is not known."""
        if self.background is None or self.is_within:
            return None
        return self.background.share(self.document, float(self.kind.lengths([self.a, self.b]).mean()))

    @property
    def unrelated_passages(self) -> float | None:
        """The cosine that one in a hundred pairs of passages of unrelated documents exceeds; None where unknown."""
        return None if self.background is None or self.kind.vector_similarity != "cosine" else self.background.passages

    @property
    def kind(self) -> Similarity:
        """How the documents are compared."""
        return similarity_of(self.similarity).with_reference(self.evidence)

    @cached_property
    def parts(self) -> dict[str, float] | None:
        """Cosines and z-scores of vectors and of words, and their sum, which contributions add up to, or None."""
        return self.kind.score_parts(self.a, self.b)

    @cached_property
    def total(self) -> float:
        """The sum of all contributions: the score, or the sum of z-scores that it shows."""
        return self.document if self.parts is None else self.parts["sum"]

    @cached_property
    def sections(self) -> Floats:
        """Similarity of sections, ``(sections of a, sections of b)``."""
        return similarity_matrix(self.a.sections, self.b.sections, self.kind.vector_similarity)

    @cached_property
    def passages(self) -> Floats:
        """Similarity of passages, ``(passages of a, passages of b)``."""
        return similarity_matrix(self.a.passages, self.b.passages, self.kind.vector_similarity)

    @cached_property
    def sentences(self) -> Floats | None:
        """Similarity of sentences, ``(sentences of a, sentences of b)``; None unless they were encoded."""
        if self.a.sentence_vectors is None or self.b.sentence_vectors is None:
            return None
        return similarity_matrix(self.a.sentence_vectors, self.b.sentence_vectors, self.kind.vector_similarity)

    @cached_property
    def paragraphs(self) -> Floats | None:
        """How well paragraphs of A are found in B (SDR, eq. 4-5), ``(paragraphs of a, paragraphs of b)``, or None."""
        a, b = self.a.sentence_set, self.b.sentence_set
        return None if a is None or b is None else paragraph_scores(a, b).forward

    @cached_property
    def sentence_scores(self) -> dict[SentenceScoring, float] | None:
        """Similarity by sentences in every way there is, in both directions; None unless these were encoded."""
        a, b = self.a.sentence_set, self.b.sentence_set
        if a is None or b is None:
            return None
        return {by: float(score_documents(a, b, by=by, direction="both")[0]) for by in SENTENCE_SCORINGS}

    def alignment(self, by: SentenceScoring = "sentences", *, direction: Direction = "both") -> Alignment:
        """Take the similarity of the documents by their sentences apart: which paragraphs and sentences it is due to.

        Args:
            by: how they are scored (see :func:`~graphdoc.similarity.hierarchical.score_documents`).
            direction: ``source`` looks for A in B alone, ``both`` also for B in A.
        """
        a, b = self.a.sentence_set, self.b.sentence_set
        if a is None or b is None:
            raise SettingsError(NO_SENTENCES)
        return align(a, b, by=by, direction=direction)

    @cached_property
    def passage_contributions(self) -> Floats:
        """Contribution of every pair of passages to the document score, ``(passages of a, passages of b)``."""
        return self.kind.contributions(self.a, self.b)

    @cached_property
    def section_contributions(self) -> Floats:
        """Contribution of every pair of sections to the document score, ``(sections of a, sections of b)``."""
        totals = np.zeros((len(self.a.section_numbers), len(self.b.section_numbers)))
        np.add.at(totals, (self.a.section_rows[:, None], self.b.section_rows[None, :]), self.passage_contributions)
        return totals

    @cached_property
    def lexical(self) -> float | None:
        """How much of the document score is lexical, the words that both share; None without a lexical part."""
        if self.parts is not None:
            return self.parts.get("words")
        words = self._words
        return None if words is None else sum(word.contribution for word in words[0]) + words[1]

    def shared_words(self, top_k: int | None = 20) -> list[WordPart]:
        """The words that both documents have, those that add most to the document score first.

        They add up to :attr:`lexical`, but for what words of only one document add, which are like words of the other
        to the lexical part, and for the mean that it subtracts (see
        :meth:`~graphdoc.similarity.kinds.Similarity.shared_words`).

        Raises:
            SettingsError: the model has no lexical part.
        """
        require_whole("top_k", top_k, least=0)
        if self._words is None:
            raise SettingsError(
                f"model {self.model.get('name')} has no lexical part; fit one to documents of yours "
                "(encoder.fit(documents, lexical=True), or graphdoc fit --lexical)"
            )
        return self._words[0][:top_k]

    @cached_property
    def _words(self) -> tuple[list[WordPart], float] | None:
        return self.kind.shared_words(self.a, self.b)

    @cached_property
    def attention_to_b(self) -> Floats | None:
        """Chunkwise attention of A's passages to B's, ``(heads, passages of a, passages of b)``; rows sum to 1."""
        a, b = self.a.attention, self.b.attention
        return None if a is None or b is None else a.to(b)

    @cached_property
    def attention_to_a(self) -> Floats | None:
        """Chunkwise attention of B's passages to A's, ``(heads, passages of b, passages of a)``; rows sum to 1."""
        a, b = self.a.attention, self.b.attention
        return None if a is None or b is None else b.to(a)

    def scores(self, level: ComparedLevel) -> Floats:
        """The matrix of a level; a SettingsError says that sentences were not encoded."""
        require_one_of("level", level, COMPARED_LEVELS)
        scores: Floats | None = getattr(self, f"{level}s")
        if scores is None:
            raise SettingsError(NO_SENTENCES)
        return scores

    def contributions(self, level: ComparedLevel) -> Floats | None:
        """Contributions at a level; None for paragraphs and sentences, which the document vector is not made of."""
        return {"section": self.section_contributions, "passage": self.passage_contributions}.get(level)

    def matches(self, level: ComparedLevel = "passage", top_k: int | None = 20) -> list[Match]:
        """The strongest pairs of a level: for every part of either document its best partner, best pairs first.

        Within one document no part is matched with itself, and each pair is given once. ``top_k`` of None: all.
        """
        require_whole("top_k", top_k, least=0)
        scores = self.scores(level)
        contributions = self.contributions(level)
        usable = scores
        if self.is_within:
            above = np.triu(scores, k=1)
            usable = above + above.T
            np.fill_diagonal(usable, -np.inf)
        rows, columns = np.arange(scores.shape[0]), np.arange(scores.shape[1])
        pairs = set(zip(rows.tolist(), usable.argmax(axis=1).tolist(), strict=True))
        pairs |= set(zip(usable.argmax(axis=0).tolist(), columns.tolist(), strict=True))
        if self.is_within:
            pairs = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
        ranked = sorted(pairs, key=lambda pair: (-scores[pair], pair))[:top_k]
        return [
            Match(a, b, float(scores[a, b]), None if contributions is None else float(contributions[a, b]))
            for a, b in ranked
        ]

    def to_frame(self, level: ComparedLevel = "passage") -> pd.DataFrame:
        """Every pair of a level as a table, with headings, texts and spans.

        Returns:
            One row per pair: ``a``, ``b``, ``score``, ``contribution`` (of sections and passages), ``heading_a``,
            ``heading_b``, and but for sections ``text_a``, ``start_a``, ``end_a`` and the same of b. For
            passages of a model with chunkwise attention also ``attention_to_b`` and ``attention_to_a``, means over
            heads of what the passages of the pair give each other.
        """
        import pandas as pd

        scores = self.scores(level)
        a, b = (index.ravel() for index in np.indices(scores.shape))
        columns: dict[str, Any] = {"a": a, "b": b, "score": scores.ravel()}
        contributions = self.contributions(level)
        if contributions is not None:
            columns["contribution"] = contributions.ravel()
        if level == "passage" and self.attention_to_b is not None and self.attention_to_a is not None:
            columns["attention_to_b"] = self.attention_to_b.mean(axis=0).ravel()
            columns["attention_to_a"] = self.attention_to_a.mean(axis=0).T.ravel()
        for side, rows, encoded in (("a", a, self.a), ("b", b, self.b)):
            for name, values in _part_columns(encoded, level).items():
                columns[f"{name}_{side}"] = pd.Categorical(values)[rows] if name == "text" else np.array(values)[rows]
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, the content of the JSON file: scores and matrices by level, and explanations.

        ``unrelated_passages``, ``attention``, ``subtopics``, ``lexical``, ``sentences``, ``paragraphs``,
        ``sentence_scores`` and ``alignment`` are None where a comparison has them not. ``a`` and ``b`` are the
        documents: sections with headings, passages with text and span in their section's text.
        """
        by_section, by_passage = self.section_contributions, self.passage_contributions
        levels = COMPARED_LEVELS if self.sentences is not None else COMPARED_LEVELS[:2]
        lexical = None
        if self.lexical is not None:
            words = [{"word": one.word, "contribution": round(one.contribution, 9)} for one in self.shared_words(100)]
            lexical = {"score": round(self.lexical, 9), "words": words}
        attention = None
        if (a := self.a.attention) is not None:
            weights = {"a": a.within()}
            if not self.is_within and (b := self.b.attention) is not None:
                weights |= {"b": b.within(), "a_to_b": a.to(b), "b_to_a": b.to(a)}
            attention = {"heads": a.heads} | {name: np.round(one, 6).tolist() for name, one in weights.items()}
        return {
            "format": "graphdoc.comparison/1",
            "model": dict(self.model),
            "self": self.is_within,
            "document": round(self.document, 6),
            "share": self.share,
            "share_of": None if self.share is None or self.background is None else self.background.pairs,
            "unrelated_passages": self.unrelated_passages,
            "evidence": self.parts and {name: round(value, 9) for name, value in self.parts.items()},
            **{f"{level}s": _rounded(getattr(self, f"{level}s")) for level in COMPARED_LEVELS},
            "sentence_scores": self.sentence_scores,
            "alignment": None if self.sentences is None else self.alignment().to_dict(),
            "subtopics": None if self.subtopics is None else self.subtopics.to_dict(),
            "lexical": lexical,
            "contributions": {"sections": _rounded(by_section, 9), "passages": _rounded(by_passage, 9)},
            "attention": attention,
            "matches": {f"{level}s": [match.to_dict() for match in self.matches(level)] for level in levels},
            "a": _document_dict(self.a, by_section.sum(1), by_passage.sum(1)),
            "b": _document_dict(self.b, by_section.sum(0), by_passage.sum(0)),
            "coverage": {"a": self.a.segmented.coverage.to_dict(), "b": self.b.segmented.coverage.to_dict()},
        }

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path) -> Path: ...
    def to_html(self, path: str | Path | None = None) -> str | Path:
        """Write the self-contained report, which needs no network, atomically; without a path its HTML is returned."""
        from ..analysis.report.page import render_report

        page = render_report(self.to_dict())
        return page if path is None else write_text(path, page)

    def plot(self, path: str | Path | None = None, level: ComparedLevel = "section") -> Figure:
        """Draw the matrix of a level as a heat map; a path takes it as PNG, SVG or PDF, by its suffix."""
        from ..analysis.figures.comparison import plot_comparison

        return plot_comparison(self, path, level)

    def to_csv(self, path: str | Path, level: ComparedLevel = "passage") -> Path:
        """Write every pair of a level as CSV, atomically (see :meth:`to_frame`)."""
        frame = self.to_frame(level)
        return write_csv(path, [*map(str, frame)], frame.itertuples(index=False, name=None))


def _part_columns(encoded: EncodedDocument, level: ComparedLevel) -> dict[str, list[Any]]:
    segmented = encoded.segmented
    headings = [section.heading for section in segmented.document.sections]
    if level == "section":
        return {"heading": [headings[number] for number in encoded.section_numbers]}
    spans = encoded.spans(level)
    return {
        "heading": [headings[span.section] for span in spans],
        "text": [segmented.text(span) for span in spans],
        "start": [span.start for span in spans],
        "end": [span.end for span in spans],
    }


def _document_dict(encoded: EncodedDocument, by_section: Floats, by_passage: Floats) -> dict[str, Any]:
    document, rows = encoded.segmented.document, encoded.section_rows
    row_of = {number: row for row, number in enumerate(encoded.section_numbers)}

    def place(span: Span) -> dict[str, Any]:
        part = {"text": encoded.segmented.text(span), "start": span.start, "end": span.end}
        return {**part, "section": row_of[span.section]}

    result: dict[str, Any] = {"id": document.id, "title": document.title}
    result["sections"] = [
        {
            "number": number,
            "heading": document.sections[number].heading,
            "level": document.sections[number].level,
            "path": list(document.sections[number].path),
            "passages": np.flatnonzero(rows == row).tolist(),
            "contribution": round(float(by_section[row]), 9),
        }
        for row, number in enumerate(encoded.section_numbers)
    ]
    result["passages"] = [
        {**place(span), "tokens": span.tokens, "contribution": round(float(added), 9)}
        for span, added in zip(encoded.segmented.passages, by_passage, strict=True)
    ]
    if encoded.sentences is not None:
        result["sentences"] = [place(span) for span in encoded.sentences]
    if encoded.sentence_set is not None:
        places = pairwise(encoded.sentence_set.paragraphs.tolist())
        result["paragraphs"] = [
            {
                "section": row_of[span.section],
                "heading": document.sections[span.section].heading,
                "start": span.start,
                "end": span.end,
                "sentences": list(sentences),
            }
            for span, sentences in zip(encoded.paragraphs, places, strict=True)
        ]
    return result


def _rounded(matrix: Floats | None, decimals: int = 6) -> list[list[float]] | None:
    return None if matrix is None else [[round(value, decimals) for value in row] for row in matrix.tolist()]
