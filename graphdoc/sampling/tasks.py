"""Tasks: documents, and how training examples are drawn from them, as :class:`~graphdoc.Trainer` takes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

# A file of two ids and 1 or 0 in a line with tabs between, or such triples.
PairSource = str | Sequence[tuple[str, str, int]]


def _setting(name: str, default: Any) -> Any:
    """A field of a task that settings name otherwise."""
    return field(default=default, metadata={"setting": name})


@dataclass(frozen=True)
class Task:
    """Documents to train on.

    Args:
        documents: an iterable of documents, a ``datasets.Dataset`` with the usual columns, or a path.
    """

    # The recipe that it is for, as in graphdoc.registry.RECIPES.
    recipe: ClassVar[str]

    documents: Any

    def values(self, named: Collection[str] = ()) -> dict[str, Any]:
        """The settings that describe the task, such as ``labels.multi_label``; its defaults leave those named alone."""
        usual = {each.metadata.get("setting"): each.default for each in fields(self)}
        return {key: own for key, own in self._fields_of("setting").items() if key not in named or own != usual[key]}

    def files(self) -> dict[str, Any]:
        """Rows that the recipe reads from a file, or the path of one, by the name of its setting."""
        return self._fields_of("file")

    def _fields_of(self, kind: str) -> dict[str, Any]:
        return {each.metadata[kind]: getattr(self, each.name) for each in fields(self) if kind in each.metadata}


@dataclass(frozen=True)
class SubDocuments(Task):
    """Every document split into two sub-documents, in every epoch (Graph-RoBERTa, sections 2.2 and 3.2-3.3).

    Args:
        split: random halves, or one passage and the rest of its document.
    """

    recipe: ClassVar[str] = "pretrain"
    split: Literal["half", "one_passage"] = _setting("split", "half")


@dataclass(frozen=True)
class SentencePairs(Task):
    """Sentences of one paragraph, and of different documents (SDR, section 3.2).

    Args:
        pairs_per_epoch: pairs of an epoch; None passes over all sentences that have a neighbour.
        contrast_on: whether sentences are compared with masked tokens, in one pass, or clean, in a second.
    """

    recipe: ClassVar[str] = "pretrain sentence_pairs"
    pairs_per_epoch: int | None = _setting("pairs_per_epoch", None)
    contrast_on: Literal["masked", "clean"] = _setting("loss.contrast_on", "masked")


@dataclass(frozen=True)
class Classes(Task):
    """Documents with their labels (Graph-RoBERTa, section 3.2).

    Args:
        multi_label: whether a document can have any number of labels.
        class_weights: ``balanced`` lets every class count as much as any other.
    """

    recipe: ClassVar[str] = "finetune classify"
    multi_label: bool = _setting("labels.multi_label", False)
    class_weights: Literal["none", "balanced"] = _setting("labels.class_weights", "none")


@dataclass(frozen=True)
class Groups(Task):
    """Documents that belong together by a label or by pairs, split into sections (CoLDE, section 3).

    Args:
        pairs: labelled pairs that make groups, or are trained on themselves; None takes labels.
        star_size: make groups of this many documents at most, one and its partners; None joins whatever pairs connect.
        sections: most sections of a document, for models that read sections; 1 leaves documents whole.
    """

    recipe: ClassVar[str] = "finetune compare"
    pairs: PairSource | None = field(default=None, metadata={"file": "groups.file"})
    star_size: int | None = None
    sections: int = _setting("sections.number", 1)

    def values(self, named: Collection[str] = ()) -> dict[str, Any]:
        """The values of :meth:`Task.values`, with those of pairs and stars."""
        by = {} if self.pairs is None else {"groups.by": "pairs"}
        stars = {} if self.star_size is None else {"groups.joining": "stars", "groups.star_size": self.star_size}
        return {**super().values(named), **by, **stars}


@dataclass(frozen=True)
class Queries(Task):
    """Queries, documents that answer them, and others (Graph-RoBERTa, section 3.3).

    Args:
        queries: a folder in BEIR's layout, a file of the text of a query and the id of a document with a tab between,
            or such pairs; None makes queries of the documents.
        made_from: what queries are made of, where none are given: titles, headings, first sentences.
        negatives_per_query: further documents that are drawn for every query.
    """

    recipe: ClassVar[str] = "finetune retrieve"
    queries: str | Sequence[tuple[str, str]] | None = field(default=None, metadata={"file": "queries.source"})
    made_from: Sequence[str] = ("titles", "headings")
    negatives_per_query: int = _setting("negatives.per_query", 0)

    def values(self, named: Collection[str] = ()) -> dict[str, Any]:
        """See :meth:`Task.values`."""
        key, is_default = "queries.made_from", self.made_from == type(self).made_from
        made_from = {} if self.queries is not None or (key in named and is_default) else {key: list(self.made_from)}
        return {**super().values(named), **made_from}


@dataclass(frozen=True)
class PairViews(Task):
    """Pairs of long documents that match or not, view by view (SST, section 3.4).

    Args:
        pairs: labelled pairs.
        views: how views are made and read (:class:`~graphdoc.settings.document.ViewSettings`), by name.
    """

    recipe: ClassVar[str] = "finetune views"
    pairs: PairSource = field(default=(), metadata={"file": "pairs.file"})
    views: Mapping[str, Any] = field(default_factory=dict)

    def values(self, named: Collection[str] = ()) -> dict[str, Any]:
        """See :meth:`Task.values`."""
        return {f"views.{name}": value for name, value in self.views.items()}


@dataclass(frozen=True)
class SubtopicPairs(Task):
    """Pairs of documents as graphs of similar sentences, in which subtopics are found (SST, section 3.2).

    Args:
        pairs: labelled pairs.
        cluster_size: sentences of a subtopic, about.
        neighbours: similar sentences that a sentence keeps in the graph of its pair; None for all.
    """

    recipe: ClassVar[str] = "finetune subtopics"
    pairs: PairSource = field(default=(), metadata={"file": "pairs.file"})
    cluster_size: int = _setting("subtopics.cluster_size", 6)
    neighbours: int | None = _setting("subtopics.neighbours", 10)
