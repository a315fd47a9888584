"""Everything that inference needs to know about a document model."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

from ..graphs.kinds import GRAPH_KINDS
from ..segmentation.segmenter import UNITS, Unit
from .heads import checked_labels

Pooling = Literal["cls", "mean"]
ReadoutKind = Literal["document_node", "mean", "initial_mean", "attention", "sections"]
SectionAggregation = Literal["lstm", "mean"]
Similarity = Literal["cosine", "dot"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "pooling": get_args(Pooling),
    "graph_kind": GRAPH_KINDS,
    "readout": get_args(ReadoutKind),
    "section_aggregation": get_args(SectionAggregation),
    "similarity": get_args(Similarity),
    "unit": UNITS,
}
_LEAST = {
    "projection_size": 1,
    "window": 1,
    "graph_layers": 0,
    "graph_heads": 1,
    "structural_sections": 1,
    "structural_chunks": 1,
    "chunk_attention_heads": 0,
    "section_lstm_size": 1,
    "section_projection_size": 1,
    "passage_words": 1,
    "passage_tokens": 1,
    "max_passages": 1,
}
_MAY_BE_NONE = ("projection_size", "section_projection_size", "max_passages")
_FLAGS = ("structural_embeddings", "normalize_passages", "chunk_attention_norm", "trained", "multi_label")
_DROPOUTS = ("attention_dropout", "classifier_dropout")


@strict
class DocumentConfig(PreTrainedConfig):
    """Configuration of a :class:`~graphdoc.modeling.DocumentModel`; the defaults are the Graph-RoBERTa paper's.

    CoLDE is the readout ``sections`` without a graph: ``structural_embeddings=True``, ``projection_size=None``,
    ``graph_layers=0``, ``readout="sections"``. On graph layers it is the head that compares.

    Args:
        encoder_config: configuration of the passage encoder, any encoder of transformers.
        backbone: name or folder the passage encoder's pretrained weights come from.
        structural_embeddings: add learned embeddings of section and chunk to the tokens of a passage (see
            :class:`~graphdoc.modeling.structural_embeddings.StructuralEmbeddings`).
        structural_sections: rows of the table of sections; sections beyond it share the last row.
        structural_chunks: rows of the table of chunks; chunks beyond it share the last row.
        pooling: how token vectors become a passage vector: ``cls`` (the first token) or ``mean``.
        projection_size: width of the nodes after ``tanh(W x + b)`` (eq. 1); None leaves passage vectors as they are.
        normalize_passages: bring initial passage vectors to unit length.
        graph_kind: ``full``, ``section``, ``window`` or ``hierarchical``.
        window: reach of the ``window`` graph kind, in passages.
        graph_layers: number T of graph attention layers (eq. 3); 0 for none.
        graph_heads: attention heads of a layer, concatenated.
        attention_dropout: dropout on attention weights in training.
        readout: how nodes become the document vector: ``document_node``, ``mean`` or ``attention`` over passage nodes,
            ``initial_mean`` over passages as they are before the graph, whose attention is then shown beside it, or
            ``sections`` (see :class:`~graphdoc.modeling.readouts.sections.SectionReadout`).
        chunk_attention_heads: heads of the chunkwise attention between sections, for ``sections``; 0 for none.
        chunk_attention_norm: bring chunks to mean 0 and variance 1 before it (see
            :class:`~graphdoc.modeling.readouts.chunk_attention.ChunkAttention`).
        section_aggregation: how the chunks of a section become one vector, for ``sections``: a bidirectional ``lstm``
            or their ``mean``.
        section_lstm_size: width of each direction of the LSTM.
        section_projection_size: width of section and document vectors, for ``sections``; None leaves what the
            aggregation gives.
        similarity: ``cosine`` or ``dot``, how two vectors are compared.
        unit: what documents are cut into: ``passage``, about ``passage_words`` words on sentence boundaries, or
            ``chunk``, which fills ``passage_tokens`` (CoLDE). Either is called a passage where it is a node.
        passage_words: words a passage has, about.
        passage_tokens: most tokens of a passage, special tokens included.
        max_passages: passages encoded of one document at inference; None for all.
        language: language of the sentence splitter (ISO 639-1).
        trained: whether document vectors were trained to be compared.
        labels: names of the classes that the head tells apart, on one line each; None for a model without head.
        multi_label: whether a document can have any number of the classes, or exactly one.
        classifier_dropout: dropout on document vectors in front of the head, in training.
    """

    model_type = "graphdoc"
    sub_configs_defaults: ClassVar[dict[str, Any]] = {
        "encoder_config": SubConfigSpec(config_class=AutoConfig, model_type="roberta")
    }

    encoder_config: dict[str, Any] | PreTrainedConfig | None = None
    backbone: str | None = None
    structural_embeddings: bool = False
    structural_sections: int = 8
    structural_chunks: int = 128
    pooling: Pooling = "cls"
    projection_size: int | None = 512
    normalize_passages: bool = False
    graph_kind: str = "full"
    window: int = 2
    graph_layers: int = 2
    graph_heads: int = 2
    attention_dropout: float = 0.0
    readout: ReadoutKind = "document_node"
    chunk_attention_heads: int = 4
    chunk_attention_norm: bool = False
    section_aggregation: SectionAggregation = "lstm"
    section_lstm_size: int = 256
    section_projection_size: int | None = 256
    similarity: Similarity = "cosine"
    unit: Unit = "passage"
    passage_words: int = 100
    passage_tokens: int = 256
    max_passages: int | None = 100
    language: str = "en"
    trained: bool = False
    labels: list[str] | None = None
    multi_label: bool = False
    classifier_dropout: float = 0.1

    def __post_init__(self, **kwargs: Any) -> None:
        """Resolve the encoder's configuration and check values against each other.

        Raises:
            ValueError: values do not fit together; the message names them and the fix.
        """
        super().__post_init__(**kwargs)  # type: ignore[no-untyped-call]
        self._check_values()
        heads = {"graph_heads": self.graph_layers > 0, "chunk_attention_heads": self.readout == "sections"}
        for name in (name for name, is_used in heads.items() if is_used):
            count = getattr(self, name)
            if count and self.node_size % count:
                raise ValueError(
                    f"node width {self.node_size} is not a multiple of {name}={count}; "
                    f"change {name} or projection_size"
                )

    # ``strict`` checks no types where annotations are postponed, so that settings from files are checked here.
    def _check_values(self) -> None:
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name}={value!r} is unknown; use one of {', '.join(choices)}")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            if type(value) is not int or value < least:
                none = " or None" if name in _MAY_BE_NONE else ""
                raise ValueError(f"{name}={value!r} must be a whole number of at least {least}{none}")
        language: object = self.language
        if not isinstance(language, str):
            raise ValueError(f"language={language!r} must be a code such as 'en'")
        for name in _FLAGS:
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"{name}={value!r} must be true or false")
        for name in _DROPOUTS:
            dropout = getattr(self, name)
            if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
                raise ValueError(f"{name}={dropout!r} must be a number of at least 0 and below 1")
        if self.labels is not None:
            self.labels = checked_labels(self.labels, self.multi_label)

    def describe(self) -> dict[str, Any]:
        """What vectors are made with, as plain values; settings of parts that the model does not have are left out."""
        keys = [
            *("backbone", "pooling", "projection_size", "normalize_passages", "graph_kind", "window", "graph_layers"),
            *("graph_heads", "readout", "similarity", "passage_words", "passage_tokens", "max_passages", "language"),
            "trained",
        ]
        if self.unit != "passage":
            keys.append("unit")
        if self.structural_embeddings:
            keys += ["structural_embeddings", "structural_sections", "structural_chunks"]
        if self.readout == "sections":
            keys += ["chunk_attention_heads", "section_aggregation", "section_lstm_size", "section_projection_size"]
        if self.readout == "sections" and self.chunk_attention_norm:
            keys.append("chunk_attention_norm")
        return {key: getattr(self, key) for key in keys}

    @property
    def vector_graph(self) -> tuple[str, int]:
        """Kind and window of the smallest graph on which vectors are the same: without edges that no layer reads."""
        if not self.graph_layers or self.readout == "initial_mean":
            return "window", 1
        return self.graph_kind, self.window

    @property
    def node_size(self) -> int:
        """Width of nodes, and so of passage vectors."""
        return self.projection_size or int(self.encoder_config.hidden_size)  # type: ignore[union-attr]

    @property
    def hidden_size(self) -> int:
        """Width of document vectors, and of section vectors; that of nodes but for the readout ``sections``."""
        if self.readout != "sections":
            return self.node_size
        aggregated = 2 * self.section_lstm_size if self.section_aggregation == "lstm" else self.node_size
        return self.section_projection_size or aggregated


def setting_names() -> list[str]:
    """What can be set of a model, in the order of the alphabet."""
    given_by_the_backbone = {"sub_configs_defaults", "model_type", "encoder_config", "backbone"}
    return sorted(set(DocumentConfig.__annotations__) - given_by_the_backbone)
