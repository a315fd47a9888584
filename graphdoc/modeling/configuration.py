"""Everything that inference needs to know about a document model."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

from ..graph_kinds import GRAPH_KINDS
from .heads import checked_labels

Pooling = Literal["cls", "mean"]
ReadoutKind = Literal["document_node", "mean", "attention"]
Similarity = Literal["cosine", "dot"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "pooling": get_args(Pooling),
    "graph_kind": GRAPH_KINDS,
    "readout": get_args(ReadoutKind),
    "similarity": get_args(Similarity),
}
_LEAST = {
    "projection_size": 1,
    "window": 1,
    "graph_layers": 0,
    "graph_heads": 1,
    "passage_words": 1,
    "passage_tokens": 1,
    "max_passages": 1,
}
_MAY_BE_NONE = ("projection_size", "max_passages")
_FLAGS = ("normalize_passages", "trained", "multi_label")
_DROPOUTS = ("attention_dropout", "classifier_dropout")


@strict
class DocumentConfig(PreTrainedConfig):
    """Configuration of a :class:`~graphdoc.modeling.DocumentModel`; the defaults are the Graph-RoBERTa paper's.

    Args:
        encoder_config: configuration of the passage encoder, any encoder of transformers.
        backbone: name or folder the passage encoder's pretrained weights come from.
        pooling: how token vectors become a passage vector: ``cls`` (the first token) or ``mean``.
        projection_size: width of the nodes after ``tanh(W x + b)`` (eq. 1); None leaves passage vectors as they are.
        normalize_passages: bring initial passage vectors to unit length.
        graph_kind: ``full``, ``section``, ``window`` or ``hierarchical``.
        window: reach of the ``window`` graph kind, in passages.
        graph_layers: number T of graph attention layers (eq. 3); 0 for none.
        graph_heads: attention heads of a layer, concatenated.
        attention_dropout: dropout on attention weights in training.
        readout: how nodes become the document vector: ``document_node``, ``mean`` or ``attention`` over passage nodes.
        similarity: ``cosine`` or ``dot``, how two vectors are compared.
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
    pooling: Pooling = "cls"
    projection_size: int | None = 512
    normalize_passages: bool = False
    graph_kind: str = "full"
    window: int = 2
    graph_layers: int = 2
    graph_heads: int = 2
    attention_dropout: float = 0.0
    readout: ReadoutKind = "document_node"
    similarity: Similarity = "cosine"
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
        if self.graph_layers and self.hidden_size % self.graph_heads:
            raise ValueError(
                f"node width {self.hidden_size} is not a multiple of graph_heads={self.graph_heads}; "
                "change graph_heads or projection_size"
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

    @property
    def hidden_size(self) -> int:
        """Width of nodes and of document vectors."""
        return self.projection_size or int(self.encoder_config.hidden_size)  # type: ignore[union-attr]
