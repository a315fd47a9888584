"""The settings of finetuning: classifying, comparing, retrieving and matching documents, and their subtopics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from ..documents.readers.pair_files import Unknown
from ..errors import SettingsError
from .base import Count, FileName, Settings, Share, require_one
from .document import SubtopicSettings, Unit, ViewSettings
from .run import ContrastSettings, HeldOutSettings, RunSettings, TemperatureSettings, Tune, ValidationSettings

Joining = Literal["components", "stars"]
SplitRule = Literal["headings", "length"]
SectionPositions = Literal["natural", "shuffled"]
MadeFrom = Literal["titles", "headings", "first_sentences"]
# What makes lists of negatives, where it is no file of them.
MinedBy = Literal["words", "vectors", "both"]
LIST_MAKERS: tuple[str, ...] = get_args(MinedBy)
TEXT_COLUMN = "text"


class LabelSettings(Settings):
    """What the classes are. The labels of documents are in the column ``corpus.columns.label``."""

    multi_label: bool = False
    """whether a document can have any number of classes, or exactly one"""
    separator: Annotated[str, Field(min_length=1)] | None = None
    """what stands between the labels of a text that holds several, such as ; in a CSV file; for multi_label: true"""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced lets every class count as much as any other, however many documents it has"""
    dropout: Share = 0.1
    """dropout on document vectors before the head"""


class ClassificationSettings(RunSettings):
    """Everything about training a classifier (Graph-RoBERTa, section 3.2, table 6); the defaults are the paper's.

    Documents whose field split is dev or validation are measured during training and decide which checkpoint is the
    best, those with test are left for graphdoc evaluate classify.
    """

    next_command: ClassVar[str] = "graphdoc predict DOCUMENTS --model MODEL"
    defaults: ClassVar = {"output": "runs/classification", "validation": {"best": "accuracy"}}
    metric_names = "accuracy", "macro_f1", "micro_f1", "loss"

    labels: LabelSettings = LabelSettings()
    """what the classes are"""

    @property
    def is_measured(self) -> bool:
        """Whether the model may be measured while the run goes on: only the documents tell which of them are."""
        return True


class PairFileSettings(Settings):
    """A file of pairs of documents."""

    file: FileName | None = None
    """two ids and 1 (they belong together) or 0 in a line, with tabs between"""
    unknown: Unknown | None = None
    """stop at a pair with a document that is not there, or leave_out such pairs and count them, also of those that are
    measured; null stops at pairs and leaves out links"""

    @property
    def on_unknown(self) -> Unknown:
        """Whether pairs with a document that is not in the corpus are left out or an error."""
        return self.unknown or "stop"


class GroupSettings(PairFileSettings):
    """Which documents belong together."""

    by: Literal["label", "pairs", "links"] = "label"
    """label, the column corpus.columns.label; pairs, the file of labelled pairs; or links, a file of two ids, such as
    citations"""
    joining: Joining = "components"
    """how pairs make groups: connected components, or stars, a document and its partners"""
    star_size: Annotated[int, Field(ge=2)] | None = None
    """documents of a star, at most; null for no limit"""
    smallest: Literal[1, 2] | None = None
    """documents that a group must have; with 1, documents that are alone in their group are trained on too: their
    sections belong together; null is 1 where documents are split into sections, else 2"""

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        if self.by != "label" and self.file is None:
            raise SettingsError(f"by={self.by!r} needs a file of {self.by}; give groups.file")
        return self

    @property
    def on_unknown(self) -> Unknown:
        """Whether pairs with a document that is not in the corpus are left out or an error."""
        return self.unknown or ("leave_out" if self.by == "links" else "stop")


class SectionSettings(Settings):
    """How documents are split in training (see :class:`~graphdoc.sampling.sub_documents.DocumentSections`)."""

    number: Annotated[int, Field(ge=1, le=1000)] = 2
    """most sections of a document; the paper's is 2, and it tries 2 to 5; 1 leaves documents whole"""
    by: SplitRule = "headings"
    """headings, or length to cut all documents into sections of equal length"""
    section_positions: SectionPositions = "natural"
    """natural, or shuffled to shuffle the sections of a document in every epoch"""
    most_tokens: Count | None = None
    """tokens of a section that are trained on, its first ones; the rest is counted; null for no limit (the paper tries
    1,000, 4,000 and 8,000, and measures on whole documents)"""


class MarginSettings(TemperatureSettings):
    """A loss of pairs by cosine, or by softmax."""

    margin: Annotated[float, Field(ge=-1, lt=1)] = 0.0
    """cosine up to which documents that do not belong together are left where they are, for cosine"""


class ComparisonLossSettings(MarginSettings):
    """What separates documents of one group from others."""

    kind: Literal["contrastive", "cosine"] = "contrastive"
    """contrastive draws all sections of a group together; cosine trains on the labelled pairs themselves, on document
    vectors (the paper's "without contrastive loss")"""

    @property
    def takes_pairs(self) -> bool:
        """Whether the loss is computed of labelled pairs, and not of groups."""
        return self.kind != "contrastive"


class PairValidationSettings(ValidationSettings):
    """Labelled pairs that a model is measured on while it is trained."""

    pairs: FileName | None = None
    """file of pairs, two ids and 0 or 1 with tabs between; null for no measuring: the last model is then the result"""
    source: list[FileName] | FileName | None = None
    """where the documents of the pairs are, if not in the corpus; those of the corpus are found in any split"""


class PairRunSettings(RunSettings):
    """A run that is measured on labelled pairs; f1 and accuracy are those of the best threshold."""

    metric_names: ClassVar[Sequence[str]] = ("auc", "average_precision", "f1", "accuracy")
    # The part that says what becomes of pairs with a document that is not there, those that are measured too.
    pair_file: ClassVar[str] = "pairs"

    validation: PairValidationSettings = PairValidationSettings()  # type: ignore[assignment]
    """what is measured during training"""

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.validation.pairs is not None


class ComparisonSettings(PairRunSettings):
    """Everything about training a model to compare documents (CoLDE, sections 3 and 4.1).

    Documents are split into sections, and all sections of one group are drawn together and apart from those of others.
    Documents whose field split is in corpus.leave_out_splits are not trained on; list dev and test there.
    """

    next_command: ClassVar[str] = "graphdoc compare A B --model MODEL"
    defaults: ClassVar = {
        "output": "runs/comparison",
        "training": {"batch_size": 50},
        "loss": {"temperature": 0.5},
        "validation": {"best": "auc"},
    }
    least_batch: ClassVar[int] = 2
    pair_file: ClassVar[str] = "groups"

    groups: GroupSettings = GroupSettings()
    """which documents belong together"""
    sections: SectionSettings = SectionSettings()
    """how documents are split"""
    loss: ComparisonLossSettings = ComparisonLossSettings()
    """the loss"""

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if self.loss.takes_pairs and self.groups.by != "pairs":
            raise SettingsError(
                f"loss.kind={self.loss.kind!r} trains on labelled pairs, and groups.by is {self.groups.by}; set "
                "groups.by=pairs and groups.file, or loss.kind=contrastive"
            )
        return self


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
    source_grade: Annotated[int, Field(ge=1)] | None = None
    """documents of this grade are those that queries were made of: neither answers nor negatives, and not measured"""
    made_from: list[MadeFrom] = Field(default_factory=list)
    """makes queries of the documents themselves, instead of source: of their titles, the headings of their sections,
    their first sentences, or several of these; texts that more than three documents share are left out"""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        require_one(self, "source", "made_from")
        return self


class NegativeSettings(Settings):
    """Documents that a query is separated from, in addition to those of the other queries of its batch."""

    per_query: Annotated[int, Field(ge=0, le=1000)] = 0
    """how many are drawn for every query in every epoch; 0 leaves those of the batch alone"""
    kind: FileName = "random"
    """random draws from the corpus, judged from the documents that were judged not to answer the query; words (BM25),
    vectors (the model itself) and both draw from lists of what a search finds before the first step, and the name of a
    file from lists that were made before"""
    depth: Count = 100
    """documents of a list that is made"""
    margin: Share = 0.05
    """documents are left out of a list that is made whose score is above that of the best answer less this share of
    it, since they probably answer the query too; 0 keeps all"""
    refresh: Annotated[float, Field(gt=0, lt=1)] | None = None
    """share of the training after which the model's own lists replace them, from the next epoch on; null for never"""


class QueryLossSettings(ContrastSettings):
    """How the answers of a query are separated from other documents (Graph-RoBERTa, section 3.3)."""

    level: Literal["document", "passage"] = "document"
    """what of a document is compared with a query: document for its vector, the paper's, or passage for its three best
    passages, all three alike, while a search weighs them as 1 : 0.25 : 0.1"""


class RankingValidationSettings(HeldOutSettings):
    """Queries that a model is measured on while it is trained, by ranking documents for them."""

    source: FileName | None = None
    """other queries than those of queries.source, a folder or file as there; share does not count then"""
    split: str | None = None
    """which split of them; with it, and without source, that of queries.source; share does not count then"""
    most_queries: Count | None = None
    """queries that are measured at most; others of share are trained on, if not of the same document; null for all"""
    documents: Count | None = None
    """documents that are ranked with the answers, drawn once; null ranks the whole corpus, which takes long where it
    is large"""


class FoldSettings(Settings):
    """Cross-validation: a run trains without the queries of one fold, and ranks for them (``test.run``)."""

    number: Annotated[int, Field(ge=2, le=1000)] | None = None
    """how many there are, such as 5; null trains on all queries"""
    fold: Annotated[int, Field(ge=1)] = 1
    """the one that is tested and not trained on, counted from 1"""
    file: FileName | None = None
    """file of the id of a query and its fold with a tab between; null draws folds of equal size, the same for all
    runs"""


class RetrievalSettings(RunSettings):
    """Everything about training a model for retrieval (Graph-RoBERTa, section 3.3).

    A query is one passage, read before the graph; its answers are separated from the documents of the other queries of
    a batch, and from negatives that are drawn at random, from judgements or from lists of what a search finds.
    """

    next_command: ClassVar[str] = "graphdoc search DOCUMENTS QUERY --model MODEL"
    metric_names = "ndcg@10", "map", "mrr@10", "recall@100"
    defaults: ClassVar = {"output": "runs/retrieval", "queries": {}, "validation": {"best": "ndcg@10"}}
    least_batch: ClassVar[int] = 2

    queries: QuerySettings
    """the queries, and the documents that answer them"""
    negatives: NegativeSettings = NegativeSettings()
    """the documents that are drawn as negatives of the queries"""
    loss: QueryLossSettings = QueryLossSettings()
    """the contrastive loss"""
    validation: RankingValidationSettings = RankingValidationSettings()
    """what is measured during training"""
    folds: FoldSettings = FoldSettings()
    """division of the queries for cross-validation"""

    @property
    def leaves_out_first_sentence(self) -> bool:
        """Whether first sentences are queries, which would find themselves in the text of their documents."""
        return "first_sentences" in self.queries.made_from

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        validation = self.validation
        return validation.source is not None or validation.split is not None or validation.share > 0


class MatchedPairSettings(PairFileSettings):
    """Which pairs are trained on."""

    qrels: FileName | None = None
    """instead of a file judgements: pairs of a query and a document that is judged relevant match"""
    run: FileName | None = None
    """with judgements, hits of a first stage in TREC's format: those that are not judged do not match"""
    depth: Count = 40
    """hits of a query that are taken from the run, the best"""
    least_grade: Annotated[int, Field(ge=1, le=100)] = 1
    """grade from which on a document is relevant"""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        require_one(self, "file", "qrels")
        if self.qrels is not None and self.run is None:
            raise SettingsError("run is missing, and with qrels alone nothing is known not to match; give one")
        return self


class ViewLossSettings(MarginSettings):
    """What separates pairs that match from others."""

    kind: Literal["cross_entropy", "cosine", "contrast"] = "cross_entropy"
    """cross_entropy, for views.encoder=cross; for dual cosine, on every pair by itself, or contrast, which tells the
    match of a document from all others of the batch (InfoNCE)"""
    negatives_per_pair: Annotated[int, Field(ge=0, le=1000)] = 1
    """pairs that do not match, for every one that does, whose second documents are separated too, for contrast"""


class ViewRunSettings(PairRunSettings):
    """Everything about training a model to match pairs of long documents view by view (SST).

    Of every pair views are made, some sentences of either document that are chosen by the subtopics that both share,
    and every epoch sees another view of it.
    """

    next_command: ClassVar[str] = "graphdoc match A B --model MODEL"
    unit: ClassVar[Unit | None] = "sentence"
    defaults: ClassVar = {
        "output": "runs/views",
        "corpus": {"max_passages": 1000},
        "training": {"learning_rate": 1e-5},
        "pairs": {},
        "loss": {"temperature": 0.05},
        "validation": {"best": "auc"},
    }
    # Every view is another text, so that nothing is encoded beforehand.
    tunes: ClassVar[tuple[Tune, ...]] = ("full", "lora")

    pairs: MatchedPairSettings
    """which pairs match"""
    views: ViewSettings = ViewSettings()
    """how views are made and read, in training and from then on"""
    pool: Count | None = None
    """views of a pair that are sampled for training; null is another one for every epoch (temporal aggregation), 1 the
    same in all"""
    pool_range: Count | None = None
    """orders the pool of a pair by how likely views are given the words of the whole documents (query likelihood), and
    divides the most likely ones, this many, into as many ranges as there are epochs, of which an epoch reads one
    view each; null reads views as they are sampled"""
    loss: ViewLossSettings = ViewLossSettings()
    """what separates pairs that match from others"""

    @model_validator(mode="after")
    def _check_views(self) -> Self:
        wanted = "cross" if self.loss.kind == "cross_entropy" else "dual"
        if self.views.encoder != wanted:
            raise SettingsError(
                f"loss.kind={self.loss.kind!r} is for views.encoder={wanted}, and that is {self.views.encoder}"
            )
        if self.pool_range is not None and not self._epochs <= self.pool_range <= self.views_per_pair:
            raise SettingsError(
                f"pool_range={self.pool_range} is less than the {self._epochs} epochs, which read a range each, or "
                f"more than the {self.views_per_pair} views that are sampled"
            )
        return self

    @property
    def _epochs(self) -> int:
        return max(1, math.ceil(self.training.epochs))

    @property
    def views_at_once(self) -> int:
        """Views of a pair that a step reads."""
        return self.views.views if self.views.joint else 1

    @property
    def views_per_pair(self) -> int:
        """Views of a pair that are sampled for training."""
        return max(self.pool or self._epochs * self.views_at_once, self.views_at_once)

    def view_numbers(self, epoch: int) -> Sequence[int]:
        """The views that an epoch reads; of views in order those of its range, of which it reads one of every pair."""
        if self.pool_range is not None:
            number = epoch % self._epochs
            first, last = (self.pool_range * edge // self._epochs for edge in (number, number + 1))
            return range(first, last)
        at_once = self.views_at_once
        return [(epoch * at_once + number) % self.views_per_pair for number in range(at_once)]


class SubtopicLossSettings(Settings):
    """The terms of the loss in addition to those of DMoN (SST, eq. 4-6)."""

    similar_weight: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    """factor of the term of similar pairs, whose documents shall be spread over subtopics alike (eq. 4); 0 leaves it
    out"""
    dissimilar_weight: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    """the paper's lambda, factor of the term of other pairs, whose subtopics shall be apart (eq. 5); it tries 0.02 to
    50; 0 leaves it out"""


class SubtopicRunSettings(PairRunSettings):
    """Everything about learning the subtopics of pairs of documents (SST, section 3.2, "Adaptive Clustering").

    The passage encoder is frozen; a graph of similar sentences, graph attention and a head above it learn clusters of
    sentences that are connected, over which the documents of similar pairs are spread alike. validation.best is the
    loss, or auc, of similar pairs against others by the mass that both documents have in the same subtopics.
    """

    next_command: ClassVar[str] = "graphdoc compare A B --subtopics MODEL"
    unit: ClassVar[Unit | None] = "sentence"
    defaults: ClassVar = {
        "output": "runs/subtopics",
        # The paper's receptive field.
        "corpus": {"max_passages": 40},
        "model": {"tune": "frozen"},
        # Sentences differ more in length than passages.
        "training": {"learning_rate": 1e-3, "lr_scheduler_type": "constant", "warmup_steps": 0.0, "padding": 0.3},
        "pairs": {},
    }
    metric_names = "loss", "auc"
    # Graphs are made of its vectors.
    tunes: ClassVar[tuple[Tune, ...]] = ("frozen",)
    least_batch: ClassVar[int] = 2

    pairs: PairFileSettings
    """which pairs are similar"""
    subtopics: SubtopicSettings = SubtopicSettings()
    """how sentences become graphs and subtopics"""
    loss: SubtopicLossSettings = SubtopicLossSettings()
    """what is learned"""

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if self.pairs.file is None:
            raise SettingsError("pairs.file is missing; give a file of pairs with labels")
        return self
