"""A document with all its vectors: what comparisons are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..segmentation.spans import SegmentedDocument, Span
from ..settings.document import SENTENCE_SETTINGS
from .chunk_attention import ChunkwiseAttention
from .lexical_shares import LexicalShares
from .sentence_sets import SentenceSet

Vectors = npt.NDArray[np.float32]
NO_SENTENCES = "sentences were not encoded; call compare(..., sentences=True)"


@dataclass(frozen=True)
class EncodedDocument:
    """Vectors of one document at every level.

    Args:
        segmented: the document and its passages.
        vector: ``(hidden,)``, the document vector.
        passages: ``(passages, node size)``, passage nodes after the graph.
        terms: ``(passages, hidden)``, the share of every passage in the document vector, summing to it.
        weights: ``(passages,)``, weight of every passage in the readout; equal without one.
        passage_mean: ``(node size,)``, the mean of passages as they are before the graph; None where unknown.
        sentences: sentences of the encoded passages, if asked for.
        sentence_vectors: ``(sentences, node size)``.
        lone_sentence_vectors: the same of sentences by themselves, without what is encoded in front of them and
            without their document, which subtopics are found by; None until these are asked for.
        paragraph_rows: ``(sentences,)``, paragraph of every sentence, from 0 in reading order.
        own_sections: ``(sections, hidden)``, section vectors that the model itself gives for the document split into
            its sections, or those with words beside them; None where they are means of passages.
        attention: chunkwise attention; None where the model has none.
        lexical: the words that the last numbers of all vectors are made of; None where the model has no lexical part.
        model: description of the model that encoded it (:meth:`~graphdoc.DocumentEncoder.describe`).
    """

    segmented: SegmentedDocument
    vector: Vectors
    passages: Vectors
    terms: Vectors
    weights: Vectors
    passage_mean: Vectors | None = None
    sentences: tuple[Span, ...] | None = None
    sentence_vectors: Vectors | None = None
    lone_sentence_vectors: Vectors | None = None
    paragraph_rows: npt.NDArray[np.int32] | None = None
    own_sections: Vectors | None = None
    attention: ChunkwiseAttention | None = None
    lexical: LexicalShares | None = field(default=None, compare=False, repr=False)
    model: Mapping[str, Any] = field(default_factory=dict)

    def differences(self, model: Mapping[str, Any]) -> list[str]:
        """Names of the settings in which the model that encoded it differs from another, as this describes itself."""
        # A model names only those of its sentences that change something.
        names = dict.fromkeys((*model, *SENTENCE_SETTINGS))
        return [name for name in names if self.model.get(name) != model.get(name)]

    @cached_property
    def section_numbers(self) -> tuple[int, ...]:
        """Sections that have encoded passages, as positions in the document, in reading order."""
        return tuple(dict.fromkeys(passage.section for passage in self.segmented.passages))

    @cached_property
    def section_rows(self) -> npt.NDArray[np.int64]:
        """Row of every passage's section among the sections with passages, ``(passages,)``."""
        row = {section: position for position, section in enumerate(self.section_numbers)}
        return np.array([row[passage.section] for passage in self.segmented.passages], dtype=np.int64)

    @cached_property
    def sentence_set(self) -> SentenceSet | None:
        """The sentences with their paragraphs; None unless they were encoded."""
        if self.sentence_vectors is None or self.paragraph_rows is None:
            return None
        return SentenceSet.of([self.sentence_vectors], [self.paragraph_rows])

    @cached_property
    def paragraphs(self) -> tuple[Span, ...]:
        """Where paragraphs with sentences lie, from the first of these to the last; none unless they were encoded."""
        if self.sentences is None or self.sentence_set is None:
            return ()
        places = pairwise(self.sentence_set.paragraphs.tolist())
        parts = [self.sentences[first:last] for first, last in places]
        return tuple(
            Span(part[0].section, part[0].start, part[-1].end, sum(one.tokens for one in part)) for part in parts
        )

    def spans(self, level: Literal["passage", "paragraph", "sentence"]) -> tuple[Span, ...]:
        """Where the parts of a level lie; none of paragraphs and sentences unless these were encoded."""
        if level == "passage":
            return tuple(self.segmented.passages)
        return self.paragraphs if level == "paragraph" else self.sentences or ()

    @cached_property
    def sections(self) -> Vectors:
        """Section vectors, ``(sections, hidden)``: the model's, or means of passages under the readout's weights."""
        if self.own_sections is not None:
            return self.own_sections
        return section_vectors(self.passages, self.weights, self.section_rows, len(self.section_numbers))


def section_vectors(passages: Vectors, weights: Vectors, rows: npt.NDArray[np.int64], sections: int) -> Vectors:
    """Average passages by section; alike where all of a section have the weight 0.

    Args:
        passages: ``(passages, hidden)``.
        weights: ``(passages,)``, not negative.
        rows: ``(passages,)``, the section of every passage.
        sections: number of sections.

    Returns:
        ``(sections, hidden)``.
    """
    scale = np.bincount(rows, weights=weights, minlength=sections)
    if not scale.all():
        # A softmax in fp32 can leave a passage nothing at all.
        weights = np.where(scale[rows] > 0, weights, 1)
        scale = np.bincount(rows, weights=weights, minlength=sections)
    own = (np.arange(sections)[:, None] == rows) * weights.astype(np.float64)
    totals: npt.NDArray[np.float64] = own @ passages
    means: Vectors = (totals / scale[:, None]).astype(np.float32)
    return means
