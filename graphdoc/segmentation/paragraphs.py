"""Which sentences of a document belong together: its paragraphs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..settings.document import Paragraph
from .segmenter import Segmenter
from .spans import SegmentedDocument, Span

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")


def paragraph_numbers(
    sentences: SegmentedDocument, paragraph: Paragraph, segmenter: Segmenter
) -> npt.NDArray[np.int32]:
    """Find the paragraph of every sentence.

    A sentence belongs to the paragraph that it begins in. Paragraphs without a sentence have no number. The paragraphs
    of figure 3 of the SDR paper are sections.

    Args:
        sentences: a document that was cut into sentences.
        paragraph: what a paragraph is (see :class:`~graphdoc.settings.document.DocumentSettings`).
        segmenter: cuts documents into passages, where these are the paragraphs.

    Returns:
        ``(sentences,)``, from 0, in reading order and without gaps.
    """
    starts = _STARTS[paragraph](sentences, segmenter)
    found = [(span.section, bisect_right(starts[span.section], span.start)) for span in sentences.passages]
    number_of = {place: number for number, place in enumerate(dict.fromkeys(found))}
    return np.array([number_of[place] for place in found], np.int32)


def _of_sections(sentences: SegmentedDocument, segmenter: Segmenter) -> list[list[int]]:
    return [[] for _ in sentences.document.sections]


def _of_blank_lines(sentences: SegmentedDocument, segmenter: Segmenter) -> list[list[int]]:
    return [[match.end() for match in _BLANK_LINES.finditer(section.text)] for section in sentences.document.sections]


def _of_passages(sentences: SegmentedDocument, segmenter: Segmenter) -> list[list[int]]:
    cut = Segmenter(segmenter.tokenizer, replace(segmenter.config, unit="passage", max_passages=None))
    passages: Sequence[Span] = cut.segment(sentences.document).passages
    starts: list[list[int]] = [[] for _ in sentences.document.sections]
    for passage in passages:
        starts[passage.section].append(passage.start)
    return starts


# Where paragraphs begin in the text of every section; what stands before the first of these places is one too.
_STARTS: dict[Paragraph, Callable[[SegmentedDocument, Segmenter], list[list[int]]]] = {
    "section": _of_sections,
    "blank_line": _of_blank_lines,
    "passage": _of_passages,
}
