"""The settings of finetuning: classifying, comparing and retrieving documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from ..documents.readers.pair_files import Unknown
from .base import Count, FileName, Settings, Share, known_name
from .document import Similarity
from .run import LabelledRunSettings, Temperature, TrainingSettings

ClassWeights = Literal["none", "balanced"]
ClassifierNumber = Literal["accuracy", "macro_f1", "micro_f1", "loss"]


class LabelSettings(Settings):
    """What the classes are. The labels of documents are in the column ``corpus.columns.label``."""

    multi_label: bool = False
    """whether a document can have any number of classes, or exactly one"""
    separator: Annotated[str, Field(min_length=1)] | None = None
    """what stands between the labels of a text that holds several, such as ; in a CSV file; for multi_label: true"""
    class_weights: ClassWeights = "none"
    """balanced lets every class count as much as any other, however many documents it has"""
    label_smoothing: Share = 0.0
    """share of a target that is spread over all classes"""
    dropout: Share = 0.1
    """dropout on document vectors before the head"""


class ValidationSettings(Settings):
    """What decides which checkpoint is the best.

    Documents whose field ``split`` is ``dev``, ``validation``, ``valid`` or ``val`` are measured and not trained on,
    and those with ``test`` are left alone. Without such a field, a share of every class is drawn.
    """

    share: Share = 0.1
    """share of every class that is measured and not trained on, where documents name no split; 0 for none"""
    best: ClassifierNumber = "accuracy"
    """number that decides which checkpoint is the best"""
    at_start: bool = False
    """also measure before the first step"""


class ClassifierTrainingSettings(TrainingSettings):
    """How long and how a classifier is trained."""

    batch_size: Annotated[int, Field(ge=1, le=10**7)] = 32
    """documents of a batch, over all processes"""


class ClassificationSettings(LabelledRunSettings):
    """Everything about training a classifier (Graph-RoBERTa, section 3.2, table 6); the defaults are the paper's.

    Train a model with a head that names the classes of documents, one class each or any number.

    Documents are a CSV, JSON Lines or Parquet file with a column of labels (label, or corpus.columns.label),
    or a folder with one folder of files per class (corpus.label_from=folder). Documents whose field split is
    dev or validation are measured while the model is trained and decide which checkpoint is the best, those
    with test are left for graphdoc evaluate classify; without such a field a tenth of every class is
    measured. Documents without a label are left out and counted.

    """

    next_command: ClassVar[str] = "graphdoc predict DOCUMENTS --model MODEL"

    output: FileName = "runs/classification"
    """folder of the run; the trained model is its folder model"""
    training: ClassifierTrainingSettings = ClassifierTrainingSettings()
    """how long and how"""
    labels: LabelSettings = LabelSettings()
    """what the classes are"""
    validation: ValidationSettings = ValidationSettings()
    """what is measured meanwhile"""

    @property
    def is_measured(self) -> bool:
        """Whether the model may be measured while the run goes on: only the documents tell which of them are."""
        return True

    @model_validator(mode="after")
    def _check_best(self) -> Self:
        if self.validation.best == "micro_f1" and not self.labels.multi_label:
            raise self.refused("validation.best", "is the accuracy where a document has one label; use accuracy")
        return self


GroupsBy = Literal["label", "pairs", "links"]
Joining = Literal["components", "stars"]
SplitRule = Literal["headings", "length"]
SectionPositions = Literal["natural", "shuffled"]


class KindOfLoss(NamedTuple):
    """What a loss is computed of, which decides which settings have an effect.

    Args:
        takes: all documents of ``groups``, or labelled ``pairs`` themselves.
        own: settings of the loss that it reads and not every kind does.
    """

    takes: Literal["groups", "pairs"]
    own: tuple[str, ...]


COMPARISON_LOSSES: dict[str, KindOfLoss] = {
    "contrastive": KindOfLoss("groups", ("temperature",)),
    "cosine": KindOfLoss("pairs", ("margin",)),
}
# CoLDE, section 4.1.
PAPER_TEMPERATURE = 0.5

PairNumber = Literal["auc", "average_precision", "f1", "accuracy"]


class GroupSettings(Settings):
    """Which documents belong together."""

    by: GroupsBy = "label"
    """label, the column corpus.columns.label; pairs, a file of two ids and 0 or 1; or links, a file of two ids, such
    as citations"""
    file: FileName | None = None
    """the file of pairs or links"""
    unknown: Unknown | None = None
    """stop at a pair with a document that is not in the corpus, or leave out such pairs and count them; null stops at
    pairs and leaves out links"""
    joining: Joining = "components"
    """how pairs make groups: connected components, or stars, a document and its partners"""
    most: Annotated[int, Field(ge=2)] | None = None
    """documents that a star has at most; null for no limit"""
    smallest: Literal[1, 2] | None = None
    """documents that a group must have; with 1, documents that are alone in their group are trained on too: their
    sections belong together; null is 1 where documents are split into sections, else 2"""

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        if self.by != "label" and self.file is None:
            raise self.refused("by", f"needs a file of {self.by}; give {{here}}file")
        return self

    @property
    def on_unknown(self) -> Unknown:
        """What becomes of pairs with a document that is not in the corpus."""
        return self.unknown or ("leave_out" if self.by == "links" else "stop")


class SectionSettings(Settings):
    """How documents are split in training (see :class:`~graphdoc.sampling.DocumentSections`)."""

    number: Annotated[int, Field(ge=1, le=1000)] = 2
    """most sections of a document; the paper's is 2, and it tries 2 to 5; 1 leaves documents whole"""
    by: SplitRule = "headings"
    """headings, or length to cut all documents into sections of equal length"""
    section_positions: SectionPositions = "natural"
    """natural, or shuffled to shuffle the sections of a document in every epoch"""
    most_tokens: Count | None = None
    """tokens of a section that are trained on, its first ones; the rest is counted; null for no limit (the paper tries
    1,000, 4,000 and 8,000, and measures on whole documents)"""


class ComparisonLossSettings(Settings):
    """What separates documents of one group from others."""

    kind: Annotated[str, known_name(COMPARISON_LOSSES)] = "contrastive"
    """contrastive draws all sections of a group together; cosine trains on the labelled pairs themselves, on document
    vectors (the paper's "without contrastive loss")"""
    temperature: Temperature = PAPER_TEMPERATURE
    """what cosines are divided by, for contrastive"""
    margin: Annotated[float, Field(ge=-1, lt=1)] = 0.0
    """cosine up to which dissimilar documents are left where they are, for cosine"""

    @property
    def takes_pairs(self) -> bool:
        """Whether the loss is computed of labelled pairs, and not of groups."""
        return COMPARISON_LOSSES[self.kind].takes == "pairs"


class ValidationPairSettings(Settings):
    """Labelled pairs that a model is measured on while it is trained."""

    pairs: FileName | None = None
    """file of pairs, two ids and 0 or 1 with tabs between; null for no measuring: the last model is then the result"""
    source: list[FileName] | FileName | None = None
    """where the documents of the pairs are, if not in the corpus; those of the corpus are found in any split"""
    unknown: Unknown = "stop"
    """stop at a pair with a document that is not there, or leave out such pairs"""
    at_start: bool = True
    """also measure before the first step"""


class PairValidationSettings(ValidationPairSettings):
    """Labelled pairs that a model is measured on while it is trained, by the similarity of their documents."""

    best: PairNumber = "auc"
    """number that decides which checkpoint is the best; f1 and accuracy are those of the threshold that is best on
    these very pairs"""


class ComparisonTrainingSettings(TrainingSettings):
    """How long and how a model is trained to compare, which takes two documents."""

    batch_size: Annotated[int, Field(ge=2, le=10**7)] = 50
    """documents of a batch, over all processes, also where they are trained on in pairs"""


class ComparisonSettings(LabelledRunSettings):
    """Everything about training a model to compare documents (CoLDE, sections 3 and 4.1).

    Train a model whose document vectors are close for documents that belong together. Documents are split
    into sections, and all sections of one group are drawn together and apart from those of others (CoLDE).

    Which documents belong together is said by a column of labels (groups.by=label), by a file of pairs
    (groups.by=pairs: two ids and 1 or 0 in a line, with tabs between) or by a file of links such as citations
    (groups.by=links: two ids in a line); groups.file names the file. With loss.kind=cosine the model is
    trained on the labelled pairs themselves.

    validation.pairs names pairs that the model is measured on while it is trained and that decide which
    checkpoint is the best. Documents whose field split is in corpus.leave_out_splits are not trained on; list
    dev and test there.

    """

    next_command: ClassVar[str] = "graphdoc compare A B --model MODEL"

    output: FileName = "runs/comparison"
    """folder of the run; the trained model is its folder model"""
    training: ComparisonTrainingSettings = ComparisonTrainingSettings()
    """how long and how"""
    groups: GroupSettings = GroupSettings()
    """which documents belong together"""
    sections: SectionSettings = SectionSettings()
    """how documents are split"""
    loss: ComparisonLossSettings = ComparisonLossSettings()
    """what separates those that belong together from others"""
    validation: PairValidationSettings = PairValidationSettings()
    """what is measured meanwhile"""

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        groups = self.groups
        of_groups = " or ".join(name for name, kind in COMPARISON_LOSSES.items() if kind.takes == "groups")
        if self.loss.takes_pairs and groups.by != "pairs":
            raise self.refused(
                "loss.kind", f"trains on labelled pairs, and groups.by is {groups.by}; set groups.by=pairs and "
                f"groups.file, or loss.kind={of_groups}"
            )  # fmt: skip
        if groups.smallest == 1 and self.sections.number == 1:
            raise self.refused(
                "groups.smallest", "leaves whole documents that belong with no other; set it to 2, or sections.number "
                "to 2 or more"
            )  # fmt: skip
        return self

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.validation.pairs is not None

    @property
    def smallest_group(self) -> int:
        """Documents that a group must have."""
        return self.groups.smallest or (1 if self.sections.number > 1 else 2)


MadeFrom = Literal["titles", "headings", "first_sentences"]
NegativeKind = Literal["random", "judged", "lists"]
DocumentUnit = Literal["document", "passage"]
RankingNumber = Literal["ndcg@10", "map", "mrr@10", "recall@100"]

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
        is_listed = self.kind == "lists"
        if is_listed and self.lists is None:
            raise self.refused("lists", f"is missing; give a file, or one of {', '.join(LIST_MAKERS)}")
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
    unit: DocumentUnit = "document"
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
    best: RankingNumber = "ndcg@10"
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
        if self.number is not None and self.fold is None:
            raise self.refused("fold", f"is missing; give the fold to test on, 1 to {self.number}")
        if self.number is not None and self.fold is not None and self.fold > self.number:
            raise self.refused("fold", f"is more than {{here}}number={self.number}; folds are counted from 1")
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

    """

    next_command: ClassVar[str] = "graphdoc search DOCUMENTS QUERY --model MODEL"

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
