"""A comparison as plain values: the content of its JSON file."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..segmentation.spans import Span
from .attention_tables import attention_dict
from .cosine import Floats
from .encoded_document import EncodedDocument

if TYPE_CHECKING:
    from .comparison import Comparison, Level, Match

FORMAT = "graphdoc.comparison/1"
MOST_WORDS = 100


def comparison_dict(comparison: Comparison) -> dict[str, Any]:
    """Everything about a comparison as plain values (see :meth:`~graphdoc.similarity.Comparison.to_dict`)."""
    by_section, by_passage = comparison.section_contributions, comparison.passage_contributions
    levels: list[Level] = ["section", "passage"]
    if comparison.sentences is not None:
        levels += ["paragraph", "sentence"]
    return {
        "format": FORMAT,
        "model": dict(comparison.model),
        "self": comparison.within,
        "document": round(comparison.document, 6),
        "sections": _rounded(comparison.sections),
        "passages": _rounded(comparison.passages),
        "paragraphs": None if comparison.paragraphs is None else _rounded(comparison.paragraphs),
        "sentences": None if comparison.sentences is None else _rounded(comparison.sentences),
        "sentence_scores": comparison.sentence_scores,
        "alignment": None if comparison.sentences is None else comparison.alignment().to_dict(),
        "subtopics": None if comparison.subtopics is None else comparison.subtopics.to_dict(),
        "lexical": _lexical_dict(comparison),
        "contributions": {
            "sections": _rounded(by_section, 9),
            "passages": _rounded(by_passage, 9),
        },
        "attention": attention_dict(comparison.a, None if comparison.within else comparison.b),
        "matches": {f"{level}s": [_match_dict(match) for match in comparison.matches(level)] for level in levels},
        "a": _document_dict(comparison.a, by_section.sum(1), by_passage.sum(1)),
        "b": _document_dict(comparison.b, by_section.sum(0), by_passage.sum(0)),
        "coverage": {
            "a": comparison.a.segmented.coverage.to_dict(),
            "b": comparison.b.segmented.coverage.to_dict(),
        },
    }


def _lexical_dict(comparison: Comparison) -> dict[str, Any] | None:
    """How much of the score is lexical, and the words that both share; None without a lexical part."""
    if comparison.lexical is None:
        return None
    words = [
        {"word": one.word, "contribution": round(one.contribution, 9)} for one in comparison.shared_words(MOST_WORDS)
    ]
    return {"score": round(comparison.lexical, 9), "words": words}


def _document_dict(encoded: EncodedDocument, by_section: Floats, by_passage: Floats) -> dict[str, Any]:
    segmented = encoded.segmented
    document = segmented.document
    members: list[list[int]] = [[] for _ in encoded.section_numbers]
    for passage, row in enumerate(encoded.section_rows.tolist()):
        members[row].append(passage)
    sections = [
        {
            "number": number,
            "heading": document.sections[number].heading,
            "level": document.sections[number].level,
            "path": list(document.sections[number].path),
            "passages": members[row],
            "contribution": round(float(by_section[row]), 9),
        }
        for row, number in enumerate(encoded.section_numbers)
    ]
    passages = [
        {
            **_span_dict(encoded, span),
            "section": int(encoded.section_rows[row]),
            "tokens": span.tokens,
            "contribution": round(float(by_passage[row]), 9),
        }
        for row, span in enumerate(segmented.passages)
    ]
    result = {"id": document.id, "title": document.title, "sections": sections, "passages": passages}
    row_of = {number: row for row, number in enumerate(encoded.section_numbers)}
    if encoded.sentences is not None:
        result["sentences"] = [
            {**_span_dict(encoded, span), "section": row_of[span.section]} for span in encoded.sentences
        ]
    if encoded.sentence_set is not None:
        places = pairwise(encoded.sentence_set.paragraphs.tolist())
        result["paragraphs"] = [
            {
                "section": row_of[span.section],
                "heading": document.sections[span.section].heading,
                "start": span.start,
                "end": span.end,
                "sentences": list(place),
            }
            for span, place in zip(encoded.paragraphs, places, strict=True)
        ]
    return result


def _match_dict(match: Match) -> dict[str, Any]:
    contribution = None if match.contribution is None else round(match.contribution, 9)
    return {"a": match.a, "b": match.b, "score": round(match.score, 6), "contribution": contribution}


def _span_dict(encoded: EncodedDocument, span: Span) -> dict[str, Any]:
    return {"text": encoded.segmented.text(span), "start": span.start, "end": span.end}


def _rounded(matrix: Floats, decimals: int = 6) -> list[list[float]]:
    return [[round(value, decimals) for value in row] for row in matrix.tolist()]
