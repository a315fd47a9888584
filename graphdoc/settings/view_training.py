"""The settings of training on views of pairs of documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from ..documents.readers.pair_files import Unknown
from .base import Count, FileName, Settings, known_name
from .compare import PairValidationSettings
from .corpus import LabelledCorpusSettings, Passages
from .document import Unit
from .loss_kinds import require_read
from .run import LabelledRunSettings
from .sub_documents import Temperature
from .training import LearningRate, TrainingSettings
from .views import ViewSettings

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


LOSS_KINDS: dict[str, KindOfLoss] = {
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
        fix = "without {here}qrels; leave it out"
        for name in ("run", "depth", "least_grade"):
            self.require_effect(name, self.qrels is not None, fix)
        return self


class ViewLossSettings(Settings):
    """What separates pairs that match from others."""

    kind: Annotated[str, known_name(LOSS_KINDS), Field(json_schema_extra={"enum": list(LOSS_KINDS)})] = "cross_entropy"
    """cross_entropy, for views.encoder=cross; for dual cosine, on every pair by itself, or contrast, which tells the
    match of a document from all others of the batch (InfoNCE)"""
    margin: Annotated[float, Field(ge=-1, lt=1)] = 0.0
    """cosine up to which documents that do not match are left where they are, for cosine"""
    temperature: Temperature = 0.05
    """what cosines are divided by, for contrast"""
    negatives: Annotated[int, Field(ge=0, le=1000)] = 1
    """pairs that do not match, beside every one that does, whose second documents are told apart too, for contrast"""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        require_read(self, self.kind, LOSS_KINDS)
        return self


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

    All settings are in a YAML file; configs/finetune/ holds recipes to start from. What follows the options
    as key=value replaces what the file says. The run's folder (output) gets checkpoints, the log, the
    settings and, in its folder model, the trained model. A run that was interrupted goes on from its last
    checkpoint with --resume.
    """

    purpose: ClassVar[str] = "train a model to match pairs of long documents, view by view"
    examples: ClassVar[str] = """examples:
  graphdoc finetune views --config configs/finetune/views_own_pairs.yaml corpus.source=papers/ pairs.file=pairs.tsv
  graphdoc finetune views --config configs/finetune/views_own_pairs.yaml views.sampling=hard --resume
  torchrun --nproc-per-node 8 finetune/views.py --config configs/finetune/sst_cnse.yaml
"""
    next_command: ClassVar[str] = "graphdoc match A B --model MODEL"
    unit: ClassVar[Unit | None] = "sentence"
    evaluation_fix: ClassVar[str | None] = "give validation.pairs"

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
        wanted = LOSS_KINDS[self.loss.kind].encoder
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
        self.require_effect("pool", self.training_views == "every_epoch", "with training_views=fixed; leave it out")
        if self.pool is not None and self.pool < self.views_at_once:
            raise self.refused(
                "pool", f"is less than the {self.views_at_once} views that views.together=true reads at once; raise it"
            )
        self._check_order()
        return self

    def _check_order(self) -> None:
        is_ordered = self.pool_order == "likelihood"
        self.require_effect(
            "pool_range", is_ordered, "with pool_order=drawn; set pool_order=likelihood, or leave it out"
        )
        if not is_ordered:
            return
        one_by_one = self.training_views == "every_epoch" and not self.views.together
        self.require_effect(
            "pool_order", one_by_one, "where not every epoch reads one other view of a pair; set pool_order=drawn"
        )  # fmt: skip
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
