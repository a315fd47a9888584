"""The settings of training a model to find documents by queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .base import Count, FileName, Settings, Share
from .document import Similarity
from .run import LabelledRunSettings
from .sub_documents import Temperature
from .training import TrainingSettings

MadeFrom = Literal["titles", "headings", "first_sentences"]
NegativeKind = Literal["random", "judged", "lists"]
Unit = Literal["document", "passage"]
Best = Literal["ndcg@10", "map", "mrr@10", "recall@100"]

# What makes lists of negatives, where it is no file of them.
LIST_MAKERS = ("words", "vectors", "both")
TEXT_COLUMN = "text"


class QuerySettings(Settings):
    """Which queries are trained on, and which documents answer them."""

    source: FileName | None = None
    """a folder in BEIR's layout (queries.jsonl and qrels.tsv or qrels/train.tsv), or a file of pairs: the text of a
    query and the id of a document with a tab between"""
    split: str | None = None
    """of a folder with qrels/ the file of that name, otherwise the queries whose field split is this; null for all"""
    only: list[str] = Field(default_factory=list)
    """conditions on fields of the queries, such as kind=specific"""
    text_column: str = TEXT_COLUMN
    """the field that holds the text of a query"""
    own_grade: Annotated[int, Field(ge=1)] | None = None
    """documents of this grade are those that queries were made of: neither answers nor negatives, and not measured"""
    made_from: list[MadeFrom] = Field(default_factory=list)
    """makes queries of the documents themselves, instead of source: of their titles, the headings of their sections,
    their first sentences, or several of these"""
    most_documents: Count = 3
    """documents that one text may be made from; titles and headings that more of them share are left out"""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.source is None and not self.made_from:
            raise self.refused(
                "source", "is missing; give a folder or file of queries, or {here}made_from=[titles] to make them of "
                "the documents"
            )  # fmt: skip
        if self.source is not None and self.made_from:
            raise self.refused(
                "source", f"and {{here}}made_from={self.made_from} are both given; leave one of them out"
            )
        for name in ("split", "only", "text_column", "own_grade"):
            self.require_effect(name, self.source is not None, "on queries made of documents; leave it out")
        self.require_effect("most_documents", bool(self.made_from), "without {here}made_from; leave it out")
        return self


class NegativeSettings(Settings):
    """Documents that a query is separated from, beside those of the other queries of its batch."""

    per_query: Annotated[int, Field(ge=0, le=1000)] = 0
    """how many are drawn for every query, anew in every epoch; 0 leaves those of the batch alone"""
    kind: NegativeKind = "random"
    """random draws from the corpus, judged from the documents that were judged not to answer the query, and lists
    from the documents that a search finds for it"""
    lists: FileName | None = None
    """for kind: lists, a file of them, or what makes them before the first step: words (BM25), vectors (the model
    itself) or both"""
    depth: Count = 100
    """documents of a list that is made"""
    margin: Share = 0.05
    """documents are left out of a list that is made whose score is above that of the best answer less this share of
    it, since they probably answer the query too; 0 keeps all"""
    mask_similar: Annotated[float, Field(gt=0, le=1)] | None = 0.98
    """cosine of the model's vectors above which a document is a near-duplicate of an answer, and left out of a list
    that vectors make; null leaves out exact copies alone"""
    refresh: Annotated[float, Field(gt=0, lt=1)] | None = None
    """share of the training after which the model's own lists replace them, from the next epoch on; null for never"""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        self.require_effect(
            "kind", self.per_query > 0, "with {here}per_query=0; set {here}per_query=1, or leave it out"
        )
        is_listed = self.kind == "lists"
        if is_listed and self.lists is None:
            raise self.refused("lists", f"is missing; give a file, or one of {', '.join(LIST_MAKERS)}")
        for name in ("lists", "refresh"):
            self.require_effect(name, is_listed, "without {here}kind=lists; set that, or leave it out")
        for name in ("depth", "margin", "mask_similar"):
            self.require_effect(name, self.makes_lists, "where no lists are made; leave it out")
        return self

    @property
    def makes_lists(self) -> bool:
        """Whether lists are made by a search, at the start or later."""
        return self.kind == "lists" and (self.lists in LIST_MAKERS or self.refresh is not None)


class QueryLossSettings(Settings):
    """How the answers of a query are separated from other documents (Graph-RoBERTa, section 3.3)."""

    similarity: Similarity = "dot"
    """dot is the paper's; the trained model compares by it from then on"""
    temperature: Temperature = 1.0
    """what similarities are divided by; with cosine 0.02 to 0.1 are usual, with dot 1"""
    unit: Unit = "document"
    """what of a document is compared with a query: document for its vector, the paper's, or passage for its three best
    passages, as search ranks them"""


class RankingValidationSettings(Settings):
    """Queries that a model is measured on while it is trained, by ranking documents for them."""

    source: FileName | None = None
    """other queries than those of queries.source, a folder or file as there"""
    split: str | None = None
    """which split of them; with it, and without source, that of queries.source"""
    share: Share = 0.1
    """share of the queries that are measured and not trained on, where neither source nor split is given; 0 for
    none"""
    most_queries: Count | None = None
    """queries that are measured at most; null for all"""
    documents: Count | None = None
    """documents that are ranked beside the answers, drawn once; null ranks the whole corpus, which takes long where it
    is large"""
    best: Best = "ndcg@10"
    """number that decides which checkpoint is the best"""
    at_start: bool = True
    """also measure before the first step"""


class FoldSettings(Settings):
    """Division of the queries for cross-validation: a run trains without the queries of one fold, and ranks for them.

    The rankings of the runs of all folds (``test.run`` in their folders), one after the other, are a ranking for every
    query by a model that was not trained on it.
    """

    number: Annotated[int, Field(ge=2, le=1000)] | None = None
    """how many there are, such as 5; null trains on all queries"""
    fold: Annotated[int, Field(ge=1)] | None = None
    """the one that is tested and not trained on, counted from 1"""
    file: FileName | None = None
    """file of the id of a query and its fold with a tab between; null draws folds of equal size"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """draws them, the same for all runs"""
    depth: Count = 1000
    """documents of a ranking that is written"""

    @model_validator(mode="after")
    def _check_fold(self) -> Self:
        for name in ("fold", "file", "seed", "depth"):
            self.require_effect(name, self.number is not None, "without {here}number; give it, or leave it out")
        if self.number is not None and self.fold is None:
            raise self.refused("fold", f"is missing; give the fold to test on, 1 to {self.number}")
        if self.number is not None and self.fold is not None and self.fold > self.number:
            raise self.refused("fold", f"is more than {{here}}number={self.number}; folds are counted from 1")
        self.require_effect("seed", self.file is None, "with {here}file; leave it out")
        return self


class RetrievalTrainingSettings(TrainingSettings):
    """How long and how a model is trained for retrieval, which takes other queries."""

    batch_size: Annotated[int, Field(ge=2, le=10**7)] = 32
    """pairs of a query and an answer of a batch, over all processes"""


class RetrievalSettings(LabelledRunSettings):
    """Everything about training a model for retrieval (Graph-RoBERTa, section 3.3).

    Train a model whose vectors of documents are close to those of the queries that they answer. A query is one
    passage, read before the graph; its answers are separated from the documents of the other queries of a batch, and
    from negatives that are drawn at random, from judgements or from lists of what a search finds.

    Queries and answers are a folder in BEIR's layout (queries.source), a file of pairs of query and document, or
    made of the documents themselves: of titles, headings and first sentences (queries.made_from). Some queries
    are measured while the model is trained, and decide which checkpoint is the best.

    All settings are in a YAML file; configs/finetune/ holds recipes to start from. What follows the options
    as key=value replaces what the file says. The run's folder (output) gets checkpoints, the log, the
    settings and, in its folder model, the trained model. A run that was interrupted goes on from its last
    checkpoint with --resume.
    """

    purpose: ClassVar[str] = "train a model to find documents, on queries with answers or on documents alone"
    examples: ClassVar[str] = """examples:
  graphdoc finetune retrieve --config configs/finetune/own_queries.yaml corpus.source=letters/
  graphdoc finetune retrieve --config configs/finetune/own_queries.yaml corpus.source=papers.jsonl.gz \\
    queries.source=questions.tsv queries.made_from=[]
  graphdoc finetune retrieve --config configs/finetune/robust04.yaml folds.fold=1 output=runs/robust04-1
  torchrun --nproc-per-node 8 finetune/retrieve.py --config configs/finetune/msmarco_doc.yaml
"""
    next_command: ClassVar[str] = "graphdoc search DOCUMENTS QUERY --model MODEL"
    evaluation_fix: ClassVar[str | None] = "raise validation.share, or give validation.source"

    output: FileName = "runs/retrieval"
    """folder of the run; the trained model is its folder model"""
    training: RetrievalTrainingSettings = RetrievalTrainingSettings()
    """how long and how"""
    queries: QuerySettings
    """what is searched for, and what is to be found"""
    negatives: NegativeSettings = NegativeSettings()
    """what is not to be found"""
    loss: QueryLossSettings = QueryLossSettings()
    """how the one is separated from the other"""
    validation: RankingValidationSettings = RankingValidationSettings()
    """what is measured meanwhile"""
    folds: FoldSettings = FoldSettings()
    """division of the queries for cross-validation"""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_what_became_queries(cls, values: Any) -> Any:
        """First sentences that are queries would find themselves in the text of their documents."""
        if not isinstance(values, Mapping):
            return values
        # Without queries, it is their source that is missing.
        values = {"queries": {}, **values}
        corpus, queries = values.get("corpus"), values["queries"]
        made_from = queries.get("made_from") if isinstance(queries, Mapping) else getattr(queries, "made_from", None)
        if isinstance(corpus, Mapping) and isinstance(made_from, list) and "first_sentences" in made_from:
            values["corpus"] = {"leave_out_first_sentence": True, **corpus}
        return values

    @model_validator(mode="after")
    def _check_negatives(self) -> Self:
        if self.negatives.kind == "judged" and self.queries.made_from:
            raise self.refused(
                "negatives.kind", "needs judgements, and queries are made of documents; set it to random or lists"
            )
        return self

    @model_validator(mode="after")
    def _check_validation(self) -> Self:
        validation = self.validation
        if validation.split is not None and validation.source is None and self.queries.made_from:
            raise self.refused(
                "validation.split", "has no effect on queries made of documents; give validation.source, or leave it "
                "out"
            )  # fmt: skip
        for name in ("most_queries", "documents"):
            self.require_effect(f"validation.{name}", self.is_measured, "with validation.share=0; leave it out")
        return self

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        validation = self.validation
        return validation.source is not None or validation.split is not None or validation.share > 0

    @property
    def similarity(self) -> Similarity:
        """How vectors are compared by the loss, and from then on."""
        return self.loss.similarity
