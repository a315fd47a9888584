"""What can be set of a document model: names, defaults, bounds and choices, in one place."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from ..registry import GRAPH_KINDS, POOLINGS, READOUTS, SIMILARITIES
from ..runtime.text import class_name
from .base import Settings, known_name
from .clustering import ClusteringSettings
from .lexical import LexicalSettings
from .mistakes import Refused
from .views import ViewSettings

SectionAggregation = Literal["lstm", "mean"]
Similarity = Literal["cosine", "dot"]
Skip = Literal["identity", "linear"]
Unit = Literal["passage", "chunk", "sentence"]
Context = Literal["none", "title", "heading", "both"]
# What vectors of sentences are made with, and no others.
SENTENCE_SETTINGS = ("sentence_context", "sentence_document")
Paragraph = Literal["section", "blank_line", "passage"]


Pooling = Annotated[str, known_name(POOLINGS), Field(json_schema_extra={"enum": list(POOLINGS)})]
HowCompared = Annotated[str, known_name(SIMILARITIES), Field(json_schema_extra={"enum": list(SIMILARITIES)})]
GraphKind = Annotated[str, known_name(GRAPH_KINDS), Field(json_schema_extra={"enum": list(GRAPH_KINDS)})]
Readout = Annotated[str, known_name(READOUTS), Field(json_schema_extra={"enum": list(READOUTS)})]
# More is a slip of the pen, and would fill any memory before anything runs.
Size = Annotated[int, Field(ge=1, le=65_536)]
Rows = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Heads = Annotated[int, Field(ge=1, le=1024)]
Dropout = Annotated[float, Field(ge=0, lt=1)]

_MOST_NAMED = 3


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
        pooling: how token vectors become a passage vector: ``cls`` (the first token) or ``mean``.
        projection_size: width of the nodes after ``tanh(W x + b)`` (eq. 1); None leaves passage vectors as they are.
        normalize_passages: bring initial passage vectors to unit length.
        centre: corpora whose mean passage vector is taken off all initial passage vectors, which are brought to unit
            length before and after, as free text; None for a model without centre.
        lexical: what the lexical part of vectors is made with (see
            :class:`~graphdoc.settings.lexical.LexicalSettings`); None for a model without one.
        lexical_weight: length of the lexical part of a vector, beside vectors of passages of the length 1.
        graph_kind: ``full``, ``section``, ``window`` or ``hierarchical`` (see :mod:`graphdoc.graphs.kinds`).
        graph_settings: settings of the graph kind itself, by name, such as ``{"window": 2}``; None for its defaults.
        graph_layers: number T of graph attention layers (eq. 3); 0 for none.
        graph_heads: attention heads of a layer, concatenated.
        skip: skip connection of a graph layer: ``identity`` (the default of new models on a backbone) or ``linear``, a
            learned matrix, which a checkpoint without this field has.
        attention_dropout: dropout on attention weights in training.
        readout: how nodes become the document vector: ``document_node``, ``mean`` or ``attention`` over passage nodes,
            ``initial_mean`` over passages as they are before the graph, whose attention is then shown beside it, or
            ``sections`` (see :mod:`graphdoc.modeling.readouts`).
        chunk_attention_heads: heads of the chunkwise attention between sections, for ``sections``; 0 for none.
        chunk_attention_norm: bring chunks to mean 0 and variance 1 before it (see
            :class:`~graphdoc.modeling.section_readout.ChunkAttention`).
        section_aggregation: how the chunks of a section become one vector, for ``sections``: a bidirectional ``lstm``
            or their ``mean``.
        section_lstm_size: width of each direction of the LSTM.
        section_projection_size: width of section and document vectors, for ``sections``; None leaves what the
            aggregation gives.
        similarity: how two documents are compared: by the ``cosine`` or the ``dot`` product of their vectors, or
            passage by passage (``maxsim``, see :class:`~graphdoc.similarity.kinds.MaxSim`); all else then by cosine.
        unit: what documents are cut into: ``passage``, about ``passage_words`` words on sentence boundaries,
            ``chunk``, which fills ``passage_tokens`` (CoLDE), or ``sentence`` (SDR). Each is called a passage where it
            is a node.
        paragraph: the sentences that belong together where documents are taken sentence by sentence (SDR): those of a
            ``section``, of what stands between two lines that are blank (``blank_line``), or of a ``passage``.
        context: what is encoded in front of the text of every passage: the ``title`` of the document, the ``heading``
            of its section, ``both``, or ``none``; counted within ``passage_tokens``, never part of a passage's text.
        sentence_context: the same in front of every sentence, where documents are encoded sentence by sentence:
            ``title``, ``heading``, ``both`` or ``none``.
        sentence_document: how much of the mean of its document's passages is added to the vector of every sentence,
            both of unit length before, where documents are encoded sentence by sentence; 0 for nothing.
        passage_words: words a passage has, about.
        passage_tokens: most tokens of a passage, special tokens included.
        max_passages: passages encoded of one document at inference; None for all.
        language: language of the sentence splitter (ISO 639-1), such as ``en``.
        trained: whether document vectors were trained to be compared.
        multi_label: whether a document can have any number of the classes, or exactly one.
        labels: names of the classes that the head separates, on one line each; None for a model without head.
        classifier_dropout: dropout on document vectors in front of the head, in training.
        classifier_words: whether the head also reads the weights of the terms of the lexical part.
        views: how pairs of documents are matched view by view (see :class:`~graphdoc.settings.views.ViewSettings`);
            None for a model of single documents.
        subtopics: how subtopics of pairs are found that were learned (see
            :class:`~graphdoc.settings.clustering.ClusteringSettings`); None for a model that has learned none.
    """

    structural_embeddings: bool = False
    structural_sections: Rows = 8
    structural_chunks: Rows = 128
    pooling: Pooling = "cls"
    projection_size: Size | None = 512
    normalize_passages: bool = False
    centre: list[str] | None = None
    lexical: dict[str, Any] | None = None
    lexical_weight: Annotated[float, Field(gt=0, le=100)] = 0.7
    graph_kind: GraphKind = "full"
    graph_settings: dict[str, Any] | None = None
    graph_layers: Annotated[int, Field(ge=0, le=100)] = 2
    graph_heads: Heads = 2
    skip: Skip = "linear"
    attention_dropout: Dropout = 0.0
    readout: Readout = "document_node"
    chunk_attention_heads: Annotated[int, Field(ge=0, le=1024)] = 4
    chunk_attention_norm: bool = False
    section_aggregation: SectionAggregation = "lstm"
    section_lstm_size: Size = 256
    section_projection_size: Size | None = 256
    similarity: HowCompared = "cosine"
    unit: Unit = "passage"
    paragraph: Paragraph = "section"
    context: Context = "none"
    sentence_context: Context = "none"
    sentence_document: Annotated[float, Field(ge=0, le=10)] = 0.0
    passage_words: Count = 100
    passage_tokens: Count = 256
    max_passages: Count | None = 100
    language: str = "en"
    trained: bool = False
    multi_label: bool = False
    labels: list[str] | None = None
    classifier_dropout: Dropout = 0.1
    classifier_words: bool = False
    views: dict[str, Any] | None = None
    subtopics: dict[str, Any] | None = None


def _explain(schema: dict[str, Any]) -> None:
    """Put what the docstring says of every field into a JSON Schema."""
    explained = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(DocumentFields) or "", re.MULTILINE)
    for name, words in explained:
        schema["properties"][name]["description"] = " ".join(words.split())


class DocumentSettings(DocumentFields, Settings):
    """Settings of a document model, checked one by one; what has to fit a passage encoder is checked with it."""

    model_config = ConfigDict(json_schema_extra=_explain)

    @field_validator("views")
    @classmethod
    def _check_views(cls, views: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if views is None else ViewSettings(**views).as_values()

    @field_validator("subtopics")
    @classmethod
    def _check_subtopics(cls, subtopics: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if subtopics is None else ClusteringSettings(**subtopics).as_values()

    @field_validator("lexical")
    @classmethod
    def _check_lexical(cls, lexical: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if lexical is None else LexicalSettings(**lexical).as_values()

    @field_validator("labels", mode="before")
    @classmethod
    def _check_labels(cls, labels: Any, info: ValidationInfo) -> list[str] | None:
        try:
            return None if labels is None else checked_labels(labels, bool(info.data.get("multi_label")))
        except Refused as error:
            raise ValueError(error.reason) from error


def setting_names() -> list[str]:
    """What can be set of a model, in the order of the alphabet."""
    return sorted(DocumentSettings.model_fields)


def checked_labels(labels: Sequence[Any], multi_label: bool) -> list[str]:
    """The names of classes, each on one line (see :func:`~graphdoc.runtime.text.class_name`).

    Args:
        labels: the names, in the order of the logits.
        multi_label: whether a document can have any number of them, or exactly one.

    Raises:
        SettingsError: they are no list of names, too few, or two are the same.
    """
    if isinstance(labels, str) or not isinstance(labels, Sequence) or not all(isinstance(one, str) for one in labels):
        raise Refused("labels", labels, "must be a list of names, or null for a model without head")
    names = [class_name(label) for label in labels]
    if "" in names:
        raise Refused("labels", labels, f"has a blank name at place {names.index('')}; give every class a name")
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        more = ", ..." if len(doubled) > _MOST_NAMED else ""
        raise Refused(
            "labels",
            labels,
            f"names {', '.join(map(repr, doubled[:_MOST_NAMED]))}{more} twice (white space aside); give every class a "
            "name of its own",
        )
    if not names or (len(names) < 2 and not multi_label):
        raise Refused("labels", labels, "has too few names; give two, or with multi_label at least one")
    return names
