"""What can be set of a document model: names, defaults, bounds and choices, in one place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ..errors import SettingsError
from ..registry import GRAPH_KINDS, POOLINGS, READOUTS, SIMILARITIES, SUBTOPICS, VIEW_READERS, VIEW_SAMPLINGS
from ..runtime.text import class_name
from .base import Count, FileName, Settings, known_name, shown


class ClusterSettings(Settings):
    """How large subtopics are."""

    cluster_size: Annotated[int, Field(ge=1, le=10_000)] = 6
    """sentences of a subtopic, about; those of a pair over it, and at least 2, are the subtopics that it can have"""


class SubtopicSettings(ClusterSettings):
    """How the sentences of a pair become a graph and subtopics (SST, section 3.2)."""

    neighbours: Annotated[int, Field(ge=1, le=10_000)] | None = 10
    """similar sentences that a sentence keeps in the graph of its pair; null for all"""


class ClusteringSettings(SubtopicSettings):
    """Settings of learned subtopics: of the graphs of pairs and of the head (SST, section 3.2)."""

    columns: Annotated[int, Field(ge=1, le=4096)]
    """most subtopics of a pair, the width of the head"""
    receptive_field: Count = 40
    """sentences of a document that it was trained on, its first ones"""


Terms = Annotated[int, Field(ge=1, le=10_000_000)]
VectorSize = Annotated[int, Field(ge=1, le=4096)]
# Length of a lexical vector learned from few documents, next to passages of unit length, and its size.
LEARNED_WEIGHT = 0.85
LEARNED_SIZE = 256

Projection = Literal["decomposition", "random"]


class LexicalSettings(Settings):
    """Settings of the lexical part of a model (see :mod:`graphdoc.modeling.lexical`)."""

    terms: Terms
    """rows of its table, terms of the vocabulary"""
    size: VectorSize = 200
    """length of a lexical vector"""
    language: str = "en"
    """language of stems and stop words"""
    projection: Projection = "decomposition"
    """where the vectors of terms are from: a decomposition of documents, or random ones that every model has alike"""
    vocabulary: str = ""
    """hash of the vocabulary"""
    corpora: list[str] = Field(default_factory=list)
    """what it was learned of, as free text"""


class LexicalFit(Settings):
    """How a lexical part is learned of documents."""

    size: VectorSize | None = None
    """length of a lexical vector, fewer where the documents do not have as many; null for 256, or 512 random ones"""
    least_documents: Annotated[int, Field(ge=1, le=1_000_000)] = 2
    """documents that a term occurs in at least"""
    projection: Projection = "decomposition"
    """learn vectors of terms from documents, or draw random ones, which keep cosines of tf-idf vectors about as they
    are in any corpus"""

    @property
    def target_size(self) -> int:
        """Size of a lexical vector, as far as the documents have as many."""
        return self.size or (512 if self.projection == "random" else LEARNED_SIZE)


# The model whose sentence vectors find subtopics by default.
DEFAULT_SUBTOPIC_MODEL = "mini"

Aggregation = Literal["max", "mean"]
SubtopicsName = Annotated[str, known_name(SUBTOPICS)]
ReaderName = Annotated[str, known_name(VIEW_READERS)]
SamplingName = Annotated[str, known_name(VIEW_SAMPLINGS)]


class ViewSettings(ClusterSettings):
    """How the views of a pair of documents are made and read; the defaults are the SST paper's for pairs of news."""

    encoder: ReaderName = "cross"
    """cross reads both views in one passage, dual each in a separate passage and compares their vectors"""
    subtopics: SubtopicsName = "words"
    """what makes sentences alike, by which subtopics are found: the words that they share, their vectors, or what a
    model has learned of it (adaptive)"""
    subtopic_model: FileName | None = None
    """model of these vectors, which is not trained: mini, a folder or a hub id, null being mini; for adaptive the
    model of graphdoc finetune subtopics; it goes into the checkpoint"""
    receptive_field: Count | None = 40
    """sentences of a document that views are drawn from, its first ones; the rest is counted; null for all"""
    receptive_fields: list[Count] = Field(default_factory=list)
    """first sentences of a document that the views of a pair are drawn from in turn, within the receptive field:
    with 20 and 100 every other view is of the first 20; empty for all of the receptive field"""
    sampling: SamplingName = "soft"
    """how the sentences of a view are chosen: soft, hard or uniform by subtopics (eq. 7-9); random is a run of
    sentences, negative takes the smaller subtopics alone and truncated the first sentences"""
    view_tokens: Annotated[int, Field(ge=8, le=65_536)] = 256
    """tokens of a view of one document, its share of the special tokens included"""
    views: Annotated[int, Field(ge=1, le=1000)] = 3
    """views of a pair that are read where it is matched"""
    aggregation: Aggregation | None = None
    """how the scores of its views become that of a pair: max or mean; null is max for cross and mean for dual"""
    joint: bool = False
    """read all views of a pair at once, in one graph whose readout pools them, and not one by one"""


Skip = Literal["identity", "linear"]
Unit = Literal["passage", "chunk", "sentence"]
Context = Literal["none", "title", "heading", "both"]
# What vectors of sentences are made with, and no others.
SENTENCE_SETTINGS = ("sentence_context", "sentence_document")
Paragraph = Literal["section", "blank_line", "passage"]

Pooling = Annotated[str, known_name(POOLINGS)]
SimilarityName = Annotated[str, known_name(SIMILARITIES)]
GraphKindName = Annotated[str, known_name(GRAPH_KINDS)]
ReadoutName = Annotated[str, known_name(READOUTS)]
# More is a slip of the pen, and would fill any memory before anything runs.
Size = Annotated[int, Field(ge=1, le=65_536)]
EmbeddingRows = Annotated[int, Field(ge=1, le=1_000_000)]
Heads = Annotated[int, Field(ge=1, le=1024)]


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class DocumentFields:
    """The fields that settings and the configuration of a model share.

    CoLDE is the readout ``sections`` without a graph: ``structural_embeddings=True``, ``projection_size=None``,
    ``graph_layers=0``, ``readout="sections"``. On graph layers it is the head that compares.

    Args:
        structural_embeddings: add learned embeddings of section and chunk to the tokens of a passage (see
            :class:`~graphdoc.modeling.passage_encoder.StructuralEmbeddings`).
        structural_sections: rows of the table of sections; sections beyond it share the last row.
        structural_chunks: rows of the table of chunks; chunks beyond it share the last row.
        pooling: how token vectors become a passage vector: ``cls`` (the first token), ``mean``, or ``last`` (the last
            token).
        projection_size: width of the nodes after ``tanh(W x + b)`` (eq. 1); None leaves passage vectors as they are.
        normalize_passages: bring initial passage vectors to unit length.
        lexical_weight: length of the lexical part of a vector, next to vectors of passages of the length 1.
        graph_kind: ``full``, ``section``, ``window`` or ``hierarchical`` (see :mod:`graphdoc.graphs.kinds`).
        graph_settings: settings of the graph kind itself, by name, such as ``{"window": 2}``; None for its defaults.
        graph_layers: number T of graph attention layers (eq. 3); 0 for none.
        graph_heads: attention heads of a layer, concatenated.
        skip: skip connection of a graph layer: ``identity`` (the default of new models on a backbone) or ``linear``, a
            learned matrix, which a checkpoint without this field has.
        readout: how nodes become the document vector: ``document_node``, ``mean`` or ``attention`` over passage nodes,
            ``initial_mean`` over passages as they are before the graph, whose attention is then shown with it, or
            ``sections`` (see :mod:`graphdoc.modeling.readouts`).
        readout_settings: settings of the readout itself, by name, such as ``{"section_aggregation": "mean"}``; None for
            its defaults.
        similarity: how two documents are compared: by the ``cosine`` or the ``dot`` product of their vectors, or
            passage by passage (``maxsim``, see :class:`~graphdoc.similarity.kinds.MaxSim`); all else then by cosine;
            by ``evidence`` of words and vectors, measured against unrelated documents (see
            :class:`~graphdoc.similarity.evidence.Evidence`).
        unit: what documents are cut into: ``passage``, about ``passage_words`` words on sentence boundaries,
            ``chunk``, which fills ``passage_tokens`` (CoLDE), or ``sentence`` (SDR). Each is called a passage where it
            is a node.
        paragraph: the sentences that belong together where documents are taken sentence by sentence (SDR): those of a
            ``section``, of what stands between two lines that are blank (``blank_line``), or of a ``passage``.
        context: what is encoded in front of the text of every passage: the ``title`` of the document, the ``heading``
            of its section, ``both``, or ``none``; counted within ``passage_tokens``, never part of a passage's text.
        document_prompt: text in front of every passage and sentence, such as ``passage: ``, where an embedding model
            was trained with one.
        query_prompt: the same in front of every query, such as ``query: ``.
        sentence_context: the same in front of every sentence, where documents are encoded sentence by sentence:
            ``title``, ``heading``, ``both`` or ``none``.
        sentence_document: how much of the mean of its document's passages is added to the vector of every sentence,
            both of unit length before, where documents are encoded sentence by sentence; 0 for nothing.
        passage_words: words a passage has, about.
        passage_tokens: most tokens of a passage, special tokens included.
        max_passages: passages encoded of one document at inference; None for all.
        language: language of the sentence splitter (ISO 639-1), such as ``en``.
    """

    structural_embeddings: bool = False
    structural_sections: EmbeddingRows = 8
    structural_chunks: EmbeddingRows = 128
    pooling: Pooling = "cls"
    projection_size: Size | None = 512
    normalize_passages: bool = False
    lexical_weight: Annotated[float, Field(gt=0, le=100)] = 0.7
    graph_kind: GraphKindName = "full"
    graph_settings: dict[str, Any] | None = None
    graph_layers: Annotated[int, Field(ge=0, le=100)] = 2
    graph_heads: Heads = 2
    skip: Skip = "linear"
    readout: ReadoutName = "document_node"
    readout_settings: dict[str, Any] | None = None
    similarity: SimilarityName = "cosine"
    unit: Unit = "passage"
    paragraph: Paragraph = "section"
    context: Context = "none"
    document_prompt: str = ""
    query_prompt: str = ""
    sentence_context: Context = "none"
    sentence_document: Annotated[float, Field(ge=0, le=10)] = 0.0
    passage_words: Count = 100
    passage_tokens: Count = 256
    max_passages: Count | None = 100
    language: str = "en"


def _explain(schema: dict[str, Any]) -> None:
    """Put what the docstring says of every field into a JSON Schema."""
    explained = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(DocumentFields) or "", re.MULTILINE)
    for name, words in explained:
        schema["properties"][name]["description"] = " ".join(words.split())


class DocumentSettings(DocumentFields, Settings):
    """Settings of a document model, checked one by one; what has to fit a passage encoder is checked with it."""

    model_config = ConfigDict(json_schema_extra=_explain)


def setting_names() -> list[str]:
    """Names of the settings of a model, in alphabetical order."""
    return sorted(DocumentSettings.model_fields)


def checked_labels(labels: Sequence[Any], multi_label: bool) -> list[str]:
    """The names of classes, each on one line (see :func:`~graphdoc.runtime.text.class_name`).

    Raises:
        SettingsError: they are no list of names, too few, or two are the same.
    """
    is_list = isinstance(labels, Sequence) and not isinstance(labels, str)
    names = [class_name(label) for label in labels if isinstance(label, str)] if is_list else []
    if len({*names} - {""}) < max(len(labels), 1 if multi_label else 2):
        least = "one" if multi_label else "two"
        raise SettingsError(f"labels={shown(labels)} must be {least} or more names, none of them blank or given twice")
    return names
