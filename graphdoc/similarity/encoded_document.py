"""A document with the vectors that a comparison reads, and how its parts are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import SettingsError
from ..modeling.lexical import LexicalShares, PassageTerms
from ..runtime.arrays import Floats, Vectors
from ..runtime.text import require_whole
from ..segmentation.spans import SegmentedDocument, Span
from ..settings.document import SENTENCE_SETTINGS
from ..subtopics.subtopics import SubtopicFinder
from ..subtopics.table import SubtopicTable
from .hierarchical import SentenceSet
from .kinds import similarity_matrix

NO_SENTENCES = "sentences were not encoded; call compare(..., sentences=True)"


@dataclass(frozen=True)
class EncodedDocument:
    """Vectors of one document at every level.

    Args:
        segmented: the document and its passages.
        vector: ``(hidden,)``, the document vector.
        passages: ``(passages, node size)``, passage nodes after the graph.
        passage_attributions: ``(passages, hidden)``, the share of every passage in the document vector, summing to it.
        weights: ``(passages,)``, weight of every passage in the readout; equal without one.
        passage_mean: ``(node size,)``, the mean of passages as they are before the graph; None where unknown.
        sentences: sentences of the encoded passages, if asked for.
        sentence_vectors: ``(sentences, node size)``.
        context_free_sentence_vectors: the same of sentences by themselves, without what is encoded in front of them
            and without their document, which subtopics are found by; None until these are asked for.
        paragraph_rows: ``(sentences,)``, paragraph of every sentence, from 0 in reading order.
        own_sections: ``(sections, hidden)``, section vectors that the model itself gives for the document split into
            its sections, or those with words appended; None where they are means of passages.
        attention: chunkwise attention; None where the model has none.
        lexical: the words that the last numbers of all vectors are made of; None where the model has no lexical part.
        model: description of the model that encoded it (:meth:`~graphdoc.DocumentEncoder.describe`).
    """

    segmented: SegmentedDocument
    vector: Vectors = field(repr=False)
    passages: Vectors = field(repr=False)
    passage_attributions: Vectors = field(repr=False)
    weights: Vectors = field(repr=False)
    passage_mean: Vectors | None = field(default=None, repr=False)
    sentences: tuple[Span, ...] | None = field(default=None, repr=False)
    sentence_vectors: Vectors | None = field(default=None, repr=False)
    context_free_sentence_vectors: Vectors | None = field(default=None, repr=False)
    paragraph_rows: npt.NDArray[np.int32] | None = field(default=None, repr=False)
    own_sections: Vectors | None = field(default=None, repr=False)
    attention: ChunkwiseAttention | None = field(default=None, repr=False)
    lexical: LexicalShares | None = field(default=None, compare=False, repr=False)
    model: Mapping[str, Any] = field(default_factory=dict)

    def differences(self, model: Mapping[str, Any]) -> list[str]:
        """Names of the settings in which the model that encoded it differs from another, as this describes itself."""
        # A model names only those of its sentences that change something; how much was read makes no other vectors.
        names = dict.fromkeys((*model, *SENTENCE_SETTINGS))
        return [name for name in names if self.model.get(name) != model.get(name) and name != "max_passages"]

    @cached_property
    def passage_terms(self) -> PassageTerms:
        """The terms of the passages, with those of title and headings in equal parts."""
        return PassageTerms.from_segmented(self.segmented, str(self.model.get("language", "en")))

    @property
    def term_totals(self) -> Mapping[str, float]:
        """How often the document has each term."""
        return self.passage_terms.totals()

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
        return SentenceSet.from_vectors([self.sentence_vectors], [self.paragraph_rows])

    @cached_property
    def paragraphs(self) -> tuple[Span, ...]:
        """Where paragraphs with sentences lie, from the first of these to the last; none unless they were encoded."""
        if self.sentences is None or self.sentence_set is None:
            return ()
        parts = [self.sentences[first:last] for first, last in pairwise(self.sentence_set.paragraphs.tolist())]
        return tuple(Span(own[0].section, own[0].start, own[-1].end, sum(one.tokens for one in own)) for own in parts)

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
    """Average passages by section, ``(sections, hidden)``; alike where all of a section have the weight 0.

    Args:
        passages: ``(passages, hidden)``.
        weights: ``(passages,)``, not negative.
        rows: ``(passages,)``, the section of every passage.
        sections: number of sections.
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


@dataclass(frozen=True)
class ChunkwiseAttention:
    """Learned chunkwise attention of one document (CoLDE, section 3.2).

    Args:
        pairs: ``(2, pairs)``, passages that are looked at, above those that look: from every section of the document
            to the next, from the last to the first; within the only one.
        weights: ``(pairs, heads)``, summing to 1 over the pairs of one passage that looks.
        queries: ``(passages, heads, width)``, attention queries of the passages of the unsplit document.
        keys: ``(passages, heads, width)``, their attention keys.
    """

    pairs: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    queries: npt.NDArray[np.float32]
    keys: npt.NDArray[np.float32]

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.queries.shape[1])

    def within(self) -> Floats:
        """Attention between consecutive sections, ``(heads, passages that look, passages looked at)``, else 0."""
        count = len(self.queries)
        matrix = np.zeros((self.heads, count, count))
        matrix[:, self.pairs[1], self.pairs[0]] = self.weights.T
        return matrix

    def to(self, other: ChunkwiseAttention) -> Floats:
        """Attention to another document as if that were the next section, ``(heads, own passages, its passages)``."""
        queries, keys = (one.astype(np.float64) for one in (self.queries, other.keys))
        scores = np.einsum("qhw,khw->hqk", queries, keys) / queries.shape[-1] ** 0.5
        exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(exponents / exponents.sum(axis=-1, keepdims=True))


CLUSTER_SIZE = 6


def pair_subtopics(
    a: EncodedDocument,
    b: EncodedDocument | None,
    language: str,
    finder: SubtopicFinder,
    *,
    by: str = "words",
    cluster_size: int = CLUSTER_SIZE,
    receptive_field: int | None = None,
    least: float | None = None,
    seed: int = 0,
) -> SubtopicTable:
    """Find the subtopics of the sentences of two documents, or of one (SST, section 3.2).

    Args:
        a: first document, with its sentences.
        b: second document, with its sentences; None for the subtopics of the first alone.
        language: language of the documents, a two-letter code.
        finder: finds the subtopics.
        by: name of the method, for the record: ``words``, ``vectors`` or ``adaptive``.
        cluster_size: sentences of a subtopic, about.
        receptive_field: sentences of a document that are looked at, its first ones; None for all.
        least: mean cosine below which sentences of both are no subtopic of both; None for any.
        seed: seed of the clustering.

    Returns:
        The subtopics; how alike both documents are in one is the mean cosine between their sentences.
    """
    require_whole("cluster_size", cluster_size, may_be_none=False)
    require_whole("receptive_field", receptive_field)
    texts: list[list[str]] = []
    vectors: list[Vectors] = []
    beyond = []
    for one in [a] if b is None else [a, b]:
        if one.sentences is None or one.context_free_sentence_vectors is None:
            raise SettingsError(NO_SENTENCES)
        texts.append([one.segmented.text(span) for span in one.sentences[:receptive_field]])
        vectors.append(one.context_free_sentence_vectors[:receptive_field])
        beyond.append(len(one.sentences) - len(texts[-1]))
    if b is None:
        texts, vectors, beyond = [*texts, []], [*vectors, vectors[0][:0]], [*beyond, 0]
    first, second = map(finder.features, texts, vectors)
    # What is random in finding subtopics depends on the order of sentences.
    if b is not None and a.segmented.document.id > b.segmented.document.id:
        subtopics = finder.find(second, first, cluster_size=cluster_size, seed=seed).turned()
    else:
        subtopics = finder.find(first, second, cluster_size=cluster_size, seed=seed)
    rows = np.concatenate(vectors)
    cosines = similarity_matrix(rows, rows)
    return SubtopicTable.from_similarity(
        subtopics if least is None else subtopics.parted(cosines, least),
        [*texts[0], *texts[1]],
        cosines,
        language,
        by=by,
        cluster_size=cluster_size,
        beyond=(beyond[0], beyond[1]),
        is_within=b is None,
    )
