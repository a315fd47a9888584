"""The settings of matching pairs view by view, and of learning the subtopics of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from ..documents.readers.pair_files import Unknown
from .base import Count, FileName, Settings, known_name
from .document import ClusterSize, Neighbours, Unit, ViewSettings
from .finetuning import PairValidationSettings, ValidationPairSettings
from .run import (
    LabelledCorpusSettings,
    LabelledRunSettings,
    LearningRate,
    ModelSettings,
    Passages,
    Schedule,
    Temperature,
    TrainingSettings,
    Tune,
)

TrainingViews = Literal["every_epoch", "fixed"]
PoolOrder = Literal["drawn", "likelihood"]


class KindOfLoss(NamedTuple):
    """What a loss is for, which decides which settings have an effect.

    Args:
        encoder: how views are read.
        own: settings of the loss that it reads and not every kind does.
    """

    encoder: str
    own: tuple[str, ...]


VIEW_LOSSES: dict[str, KindOfLoss] = {
    "cross_entropy": KindOfLoss("cross", ()),
    "cosine": KindOfLoss("dual", ("margin",)),
    "contrast": KindOfLoss("dual", ("temperature", "negatives")),
}


class ViewCorpusSettings(LabelledCorpusSettings):
    """The documents of pairs, which are cut into sentences."""

    max_passages: Passages = 1000
    """sentences of one document that are kept, the first in reading order; the rest is counted"""


class PairSourceSettings(Settings):
    """Which pairs are trained on."""

    file: FileName | None = None
    """pairs with labels: two ids and 1 or 0 in a line, with tabs between"""
    qrels: FileName | None = None
    """instead of them judgements: pairs of a query and a document that is judged relevant match"""
    run: FileName | None = None
    """with judgements, hits of a first stage in TREC's format: those that are not judged do not match"""
    depth: Count = 40
    """hits of a query that are taken from the run, the best"""
    least_grade: Annotated[int, Field(ge=1, le=100)] = 1
    """grade from which on a document is relevant"""
    unknown: Unknown = "stop"
    """stop at a pair with a document that is not in the corpus, or leave out such pairs and count them"""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.file is None) == (self.qrels is None):
            both = "and {here}qrels are both given; leave one of them out"
            raise self.refused("file", both if self.file else "is missing, and so is {here}qrels; give one of them")
        if self.qrels is not None and self.run is None:
            raise self.refused("run", "is missing, and with {here}qrels alone nothing is known not to match; give one")
        return self


class ViewLossSettings(Settings):
    """What separates pairs that match from others."""

    kind: Annotated[str, known_name(VIEW_LOSSES)] = "cross_entropy"
    """cross_entropy, for views.encoder=cross; for dual cosine, on every pair by itself, or contrast, which tells the
    match of a document from all others of the batch (InfoNCE)"""
    margin: Annotated[float, Field(ge=-1, lt=1)] = 0.0
    """cosine up to which documents that do not match are left where they are, for cosine"""
    temperature: Temperature = 0.05
    """what cosines are divided by, for contrast"""
    negatives: Annotated[int, Field(ge=0, le=1000)] = 1
    """pairs that do not match, beside every one that does, whose second documents are told apart too, for contrast"""


class ViewTrainingSettings(TrainingSettings):
    """How long and how a model is trained on views; what the paper does not say is as usual for such models."""

    batch_size: Annotated[int, Field(ge=1, le=10**7)] = 32
    """pairs of a batch, over all processes; for contrast those that match"""
    learning_rate: LearningRate = 1e-5
    """highest learning rate"""


class ViewRunSettings(LabelledRunSettings):
    """Everything about training a model to match pairs of long documents view by view (SST).

    Train a model that tells whether two long documents match. Of every pair views are made, some sentences of
    either document that are chosen by the subtopics that both share, and every epoch sees another view of it.

    Which pairs match is said by a file (pairs.file: two ids and 1 or 0 in a line, with tabs between), or by
    judgements and the hits of a first stage (pairs.qrels and pairs.run).

    validation.pairs names pairs that the model is measured on while it is trained and that decide which
    checkpoint is the best.

    """

    next_command: ClassVar[str] = "graphdoc match A B --model MODEL"
    unit: ClassVar[Unit | None] = "sentence"

    output: FileName = "runs/views"
    """folder of the run; the trained model is its folder model"""
    corpus: ViewCorpusSettings
    """the documents"""
    training: ViewTrainingSettings = ViewTrainingSettings()
    """how long and how"""
    pairs: PairSourceSettings
    """which pairs match"""
    views: ViewSettings = ViewSettings()
    """how views are made and read, in training and from then on"""
    training_views: TrainingViews = "every_epoch"
    """every_epoch shows another view of a pair in every epoch (temporal aggregation); fixed always the same one"""
    pool: Count | None = None
    """views of a pair that are drawn for training; null is one for every epoch"""
    pool_order: PoolOrder = "drawn"
    """drawn as they come; likelihood orders the pool of a pair by how likely views are given the words of the whole
    documents (query likelihood), divides it into as many ranges as there are epochs, and an epoch reads a view of its
    range"""
    pool_range: Count | None = None
    """with pool_order=likelihood, views of the ordered pool that are divided, the most likely ones; null for all"""
    loss: ViewLossSettings = ViewLossSettings()
    """what separates pairs that match from others"""
    validation: PairValidationSettings = PairValidationSettings()
    """what is measured meanwhile"""

    @model_validator(mode="before")
    @classmethod
    def _look_into_the_pairs(cls, values: object) -> object:
        """Without pairs, it is their file that is missing."""
        return {"pairs": {}, **values} if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _check_tuning(self) -> Self:
        if self.model.tune == "frozen":
            raise self.refused(
                "model.tune", "cannot be: every view is another text, so that nothing is encoded beforehand; set it "
                "to full or lora"
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _check_views(self) -> Self:
        wanted = VIEW_LOSSES[self.loss.kind].encoder
        if self.views.encoder != wanted:
            raise self.refused(
                "loss.kind", f"is for views.encoder={wanted}, and that is {self.views.encoder}; set views.encoder="
                f"{wanted}, or another loss.kind"
            )  # fmt: skip
        if len(self.views.fields) > self.views.views:
            raise self.refused(
                "views.fields", f"has more numbers than a pair has views, so that the last ones never count; set "
                f"views.views={len(self.views.fields)} or more, or leave some out"
            )  # fmt: skip
        if self.pool is not None and self.pool < self.views_at_once:
            raise self.refused(
                "pool", f"is less than the {self.views_at_once} views that views.together=true reads at once; raise it"
            )
        self._check_order()
        return self

    def _check_order(self) -> None:
        is_ordered = self.pool_order == "likelihood"
        if not is_ordered:
            return
        if self.pool_range is not None and self.pool_range > self.views_drawn:
            raise self.refused("pool_range", f"is more than the {self.views_drawn} views that are drawn; raise pool")
        if self._range < self._epochs:
            name = "pool" if self.pool_range is None else "pool_range"
            raise self.refused(name, f"is less than the {self._epochs} epochs, which read a range each; raise it")

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.validation.pairs is not None

    @property
    def _epochs(self) -> int:
        return max(1, math.ceil(self.training.epochs))

    @property
    def _range(self) -> int:
        return self.pool_range or self.views_drawn

    @property
    def views_at_once(self) -> int:
        """Views of a pair that a step reads."""
        return self.views.views if self.views.together else 1

    @property
    def views_drawn(self) -> int:
        """Views of a pair that are drawn for training."""
        if self.training_views == "fixed":
            return self.views_at_once
        return self.pool or self._epochs * self.views_at_once

    def view_numbers(self, epoch: int) -> Sequence[int]:
        """The views that an epoch reads; of views in order those of its range, of which it reads one of every pair."""
        if self.pool_order == "likelihood":
            number = epoch % self._epochs
            first, last = (self._range * edge // self._epochs for edge in (number, number + 1))
            return range(first, last)
        at_once = self.views_at_once
        return [(epoch * at_once + number) % self.views_drawn for number in range(at_once)]


Weight = Annotated[float, Field(ge=0, le=1e6)]
BestClusters = Literal["auc", "loss"]


class SubtopicCorpusSettings(LabelledCorpusSettings):
    """The documents of pairs, which are cut into sentences."""

    max_passages: Passages = 40
    """sentences of one document that are read, the first in reading order (the paper's receptive field); the rest is
    counted"""


class SubtopicModelSettings(ModelSettings):
    """What is trained, above a passage encoder that stands still."""

    tune: Tune = "frozen"
    """how the passage encoder is trained; here it is not, since graphs are made of its vectors"""

    @model_validator(mode="after")
    def _check_frozen(self) -> Self:
        if self.tune != "frozen":
            raise self.refused(
                "tune", "would change the vectors that graphs are made of; set it to frozen, and start from another "
                "encoder if this one does not suit the documents"
            )  # fmt: skip
        return self


class LabelledPairSettings(Settings):
    """Which pairs are trained on."""

    file: FileName | None = None
    """pairs with labels: two ids and 1 (similar) or 0 in a line, with tabs between"""
    unknown: Unknown = "stop"
    """stop at a pair with a document that is not in the corpus, or leave out such pairs and count them"""

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        if self.file is None:
            raise self.refused("file", "is missing; give a file of pairs with labels")
        return self


class ClusterSettings(Settings):
    """How sentences become graphs and subtopics."""

    neighbours: Neighbours | None = 10
    """similar sentences that a sentence keeps in the graph of its pair; null for all"""
    cluster_size: ClusterSize = 6
    """sentences of a subtopic, about; those of a pair over it, and at least 2, are the subtopics that it can have"""


class SubtopicLossSettings(Settings):
    """The terms of the loss beside those of DMoN (SST, eq. 4-6)."""

    similar_weight: Weight = 1.0
    """factor of the term of similar pairs, whose documents shall be spread over subtopics alike (eq. 4); 0 leaves it
    out"""
    dissimilar_weight: Weight = 1.0
    """the paper's lambda, factor of the term of other pairs, whose subtopics shall be apart (eq. 5); it tries 0.02 to
    50; 0 leaves it out"""


class SubtopicValidationSettings(ValidationPairSettings):
    """Labelled pairs that a model is measured on while it is trained, by their subtopics."""

    best: BestClusters = "loss"
    """number that decides which checkpoint is the best: the loss, or auc, of similar pairs against others by the mass
    that both documents have in the same subtopics"""


class SubtopicTrainingSettings(TrainingSettings):
    """How long and how subtopics are learned; what the paper does not say was chosen by measuring."""

    batch_size: Annotated[int, Field(ge=2, le=10**7, multiple_of=2)] = 32
    """pairs of a batch, over all processes: half of them similar, half not"""
    learning_rate: LearningRate = 1e-3
    """highest learning rate"""
    schedule: Schedule = "constant"
    """course of the learning rate after the warm-up"""
    warmup: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """share of all steps (below 1) or number of steps over which the learning rate rises"""
    padding: Annotated[float, Field(ge=0, le=1)] | None = 0.3
    """largest share of padding in a mini-batch: sentences differ more in length than passages; null decides by
    device"""


class SubtopicRunSettings(LabelledRunSettings):
    """Everything about learning the subtopics of pairs of documents (SST, section 3.2, "Adaptive Clustering").

    Train a model that puts the sentences of two documents into subtopics. The passage encoder stands still; a
    graph of similar sentences, graph attention and a head above it learn clusters of sentences that are connected,
    over which the documents of similar pairs are spread alike.

    Which pairs are similar is said by a file (pairs.file: two ids and 1 or 0 in a line, with tabs between).
    validation.pairs names pairs that the model is measured on while it is trained and that decide which
    checkpoint is the best.

    """

    next_command: ClassVar[str] = "graphdoc compare A B --subtopics MODEL"
    unit: ClassVar[Unit | None] = "sentence"

    output: FileName = "runs/subtopics"
    """folder of the run; the trained model is its folder model"""
    corpus: SubtopicCorpusSettings
    """the documents"""
    model: SubtopicModelSettings = SubtopicModelSettings()
    """what is trained, and where it starts"""
    training: SubtopicTrainingSettings = SubtopicTrainingSettings()
    """how long and how"""
    pairs: LabelledPairSettings
    """which pairs are similar"""
    subtopics: ClusterSettings = ClusterSettings()
    """how sentences become graphs and subtopics"""
    loss: SubtopicLossSettings = SubtopicLossSettings()
    """what is learned"""
    validation: SubtopicValidationSettings = SubtopicValidationSettings()
    """what is measured meanwhile"""

    @model_validator(mode="before")
    @classmethod
    def _look_into_the_pairs(cls, values: object) -> object:
        """Without pairs, it is their file that is missing."""
        return {"pairs": {}, **values} if isinstance(values, dict) else values

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.validation.pairs is not None
