"""Everything that inference needs to know about a document model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

from ..errors import SettingsError
from ..graphs.kinds import GraphKind, graph_kind
from ..registry import READOUTS, load
from ..settings.document import (
    ClusteringSettings,
    DocumentFields,
    DocumentSettings,
    LexicalSettings,
    ViewSettings,
    checked_labels,
    setting_names,
)

if TYPE_CHECKING:
    from .readouts import Readout


# What training and fitting make of a model, which can be left out where it is loaded.
_LEARNED = ("centre", "lexical", "background", "trained", "multi_label", "labels", "classifier_dropout",
            "classifier_words", "views", "subtopics", "search_by")  # fmt: skip
# Default values of these settings, which need no mention.
_USUAL = {"unit": "passage", "context": "none", "sentence_context": "none"}


def configuration_names() -> list[str]:
    """Names of the settings that a model can be loaded with, in alphabetical order."""
    return sorted([*setting_names(), *_LEARNED])


class DocumentConfig(DocumentFields, PreTrainedConfig):
    """Configuration of a :class:`~graphdoc.modeling.DocumentModel`; the defaults are the Graph-RoBERTa paper's.

    Its other fields, with their bounds, are those of :class:`~graphdoc.settings.document.DocumentSettings`.

    Args:
        encoder_config: configuration of the passage encoder, any encoder of transformers.
        backbone: name or folder the passage encoder's pretrained weights come from.
        centre: corpora whose mean passage vector is taken off all initial passage vectors, which are brought to unit
            length before and after, as free text; None for a model without centre.
        lexical: what the lexical part of vectors is made with (see
            :class:`~graphdoc.settings.document.LexicalSettings`); None for a model without one.
        background: how alike unrelated documents are (see :class:`~graphdoc.similarity.background.Background`); None
            for a model that was not fitted to documents, and where settings make other vectors.
        trained: whether document vectors were trained to be compared.
        search_by: the vectors that a search compares: those of a ``passage``, or where they were trained for it those
            of a ``document``.
        multi_label: whether a document can have any number of the classes, or exactly one.
        labels: names of the classes that the head separates, on one line each; None for a model without head.
        classifier_dropout: dropout on document vectors in front of the head, in training.
        classifier_words: whether the head also reads the weights of the terms of the lexical part.
        views: how pairs of documents are matched view by view (see :class:`~graphdoc.settings.document.ViewSettings`);
            None for a model of single documents.
        subtopics: how subtopics of pairs are found that were learned (see
            :class:`~graphdoc.settings.document.ClusteringSettings`); None for a model that has learned none.
    """

    model_type = "graphdoc"
    sub_configs_defaults: ClassVar[dict[str, Any]] = {
        "encoder_config": SubConfigSpec(config_class=AutoConfig, model_type="roberta")
    }

    encoder_config: dict[str, Any] | PreTrainedConfig | None = None
    backbone: str | None = None
    centre: list[str] | None = None
    lexical: dict[str, Any] | None = None
    background: dict[str, Any] | None = None
    trained: bool = False
    search_by: Literal["passage", "document"] = "passage"
    multi_label: bool = False
    labels: list[str] | None = None
    classifier_dropout: float = 0.1
    classifier_words: bool = False
    views: dict[str, Any] | None = None
    subtopics: dict[str, Any] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)  # type: ignore[no-untyped-call]
        settings = DocumentSettings(**{name: getattr(self, name) for name in setting_names()})
        for name in setting_names():
            # Plain values, which can be saved, where those given were numbers of numpy.
            setattr(self, name, getattr(settings, name))
        if not 0 <= self.classifier_dropout < 1:
            raise ValueError(f"classifier_dropout={self.classifier_dropout} is not between 0 and 1")
        for name, kind in (("lexical", LexicalSettings), ("views", ViewSettings), ("subtopics", ClusteringSettings)):
            if (values := getattr(self, name)) is not None:
                setattr(self, name, kind(**values).as_values())
        if self.labels is not None:
            self.labels = checked_labels(self.labels, self.multi_label)
        _ = self.graph  # It checks its settings.
        try:
            # All of them, so that a model that is saved has them whatever their defaults become.
            self.readout_settings = self.own_readout_settings.as_values() or None
        except SettingsError as error:
            raise SettingsError(f"readout_settings.{error}") from error
        # transformers takes any name.
        if misplaced := kwargs.keys() & self.readout_class.settings.model_fields:
            raise SettingsError(f"{min(misplaced)} is one of readout_settings; put it there")
        heads = {"graph_heads": self.graph_heads} if self.graph_layers else {}
        heads |= {name: count for name, count in (self.readout_settings or {}).items() if name.endswith("_heads")}
        for name, count in heads.items():
            if count and self.node_size % count:
                raise ValueError(
                    f"node width {self.node_size} is not a multiple of {name}={count}; change it or projection_size"
                )
        if self.classifier_words and self.lexical is None:
            raise ValueError(
                "classifier_words=true: the head reads the lexical part, which has to stay; leave lexical as it is"
            )

    def describe(self) -> dict[str, Any]:
        """Settings that affect vectors, as plain values, without those of parts that the model does not have."""
        keys = [
            *("backbone", "pooling", "projection_size", "normalize_passages", "graph_kind", "graph_layers"),
            *("graph_heads", "readout", "similarity", "passage_words", "passage_tokens", "max_passages", "language"),
            "trained",
        ]
        keys += [key for key in ("centre", "lexical") if getattr(self, key) is not None]
        keys += ["lexical_weight"] if self.lexical is not None else []
        keys += [key for key in ("document_prompt", "query_prompt", "sentence_document") if getattr(self, key)]
        keys += [key for key in ("graph_settings", "readout_settings", "views") if getattr(self, key)]
        keys += [key for key, usual in _USUAL.items() if getattr(self, key) != usual]
        keys += ["skip"] if self.graph_layers and self.skip != "linear" else []
        if self.structural_embeddings:
            keys += ["structural_embeddings", "structural_sections", "structural_chunks"]
        return {key: getattr(self, key) for key in keys}

    @property
    def sentences_stand_alone(self) -> bool:
        """Whether the vector of a sentence depends on its own text alone, and at most on the place of its passage."""
        return self.sentence_context == "none" and not self.sentence_document

    @property
    def matching(self) -> ViewSettings | None:
        """How pairs of documents are matched view by view; None for a model of single documents."""
        return None if self.views is None else ViewSettings(**self.views)

    @property
    def clustering(self) -> ClusteringSettings | None:
        """How the subtopics of pairs are found; None for a model that has not learned them."""
        return None if self.subtopics is None else ClusteringSettings(**self.subtopics)

    @property
    def words(self) -> LexicalSettings | None:
        """Settings of the lexical part; None for a model without one."""
        return None if self.lexical is None else LexicalSettings(**self.lexical)

    @property
    def classifier_terms(self) -> int:
        """Terms of the lexical part whose weights the head reads; 0 where it reads none."""
        return self.words.terms if self.classifier_words and self.words is not None else 0

    @property
    def readout_class(self) -> type[Readout]:
        """The class of the readout."""
        return load(READOUTS[self.readout])  # type: ignore[no-any-return]

    @property
    def own_readout_settings(self) -> Any:
        """The readout's own settings."""
        return self.readout_class.settings(**(self.readout_settings or {}))

    @property
    def graph(self) -> GraphKind:
        """The kind of the graphs, with its settings."""
        return graph_kind(self.graph_kind, **(self.graph_settings or {}))

    @property
    def vector_graph(self) -> GraphKind | None:
        """The kind of the graphs that vectors depend on; None where they depend on no edges."""
        return None if not self.graph_layers or self.readout_class.reads_initial_nodes else self.graph

    @property
    def passage_size(self) -> int:
        """Width of passage vectors as the passage encoder gives them."""
        return int(self.encoder_config.hidden_size)  # type: ignore[union-attr]

    @property
    def node_size(self) -> int:
        """Width of nodes, and so of passage vectors above the projection."""
        return self.projection_size or self.passage_size

    @property
    def hidden_size(self) -> int:
        """Width of document vectors, and of section vectors."""
        return self.readout_class.width(self)
