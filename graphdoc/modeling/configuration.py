"""Everything that inference needs to know about a document model."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

from ..graphs import GRAPH_KINDS


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
    """

    model_type = "graphdoc"
    sub_configs_defaults: ClassVar[dict[str, Any]] = {
        "encoder_config": SubConfigSpec(config_class=AutoConfig, model_type="roberta")
    }

    encoder_config: dict[str, Any] | PreTrainedConfig | None = None
    backbone: str | None = None
    pooling: Literal["cls", "mean"] = "cls"
    projection_size: int | None = 512
    normalize_passages: bool = False
    graph_kind: str = "full"
    window: int = 2
    graph_layers: int = 2
    graph_heads: int = 2
    attention_dropout: float = 0.0
    readout: Literal["document_node", "mean", "attention"] = "document_node"
    similarity: Literal["cosine", "dot"] = "cosine"
    passage_words: int = 100
    passage_tokens: int = 256
    max_passages: int | None = 100
    language: str = "en"
    trained: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        """Resolve the encoder's configuration and check values against each other.

        Raises:
            ValueError: values do not fit together; the message names them and the fix.
        """
        super().__post_init__(**kwargs)
        if self.graph_kind not in GRAPH_KINDS:
            raise ValueError(f"graph_kind={self.graph_kind!r} is unknown; use one of {', '.join(GRAPH_KINDS)}")
        if self.graph_heads < 1 or self.graph_layers < 0 or self.window < 1:
            raise ValueError("graph_heads and window must be at least 1 and graph_layers at least 0")
        if self.graph_layers and self.hidden_size % self.graph_heads:
            raise ValueError(
                f"node width {self.hidden_size} is not a multiple of graph_heads={self.graph_heads}; "
                "change graph_heads or projection_size"
            )

    @property
    def hidden_size(self) -> int:
        """Width of nodes and of document vectors."""
        return self.projection_size or int(self.encoder_config.hidden_size)  # type: ignore[union-attr]
