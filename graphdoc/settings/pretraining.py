"""The settings of pretraining: sub-documents and sentence pairs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .base import Count, FileName, Settings, Share
from .document import Similarity, Unit
from .run import CorpusSettings, LearningRate, Optimizer, Passages, RunSettings, Temperature, TrainingSettings

Split = Literal["half", "one_passage"]
Directions = Literal["both", "one"]

# What is measured of documents that are held out.
HELD_OUT_NUMBERS = ("accuracy", "embedding_norm", "loss", "negative_similarity", "positive_similarity", "spread")


class ContrastSettings(Settings):
    """How the two sub-documents of a document are separated from those of others (Graph-RoBERTa, eq. 5-6)."""

    similarity: Similarity = "dot"
    """dot is the paper's; the trained model compares by it from then on"""
    temperature: Temperature = 1.0
    """what similarities are divided by; with cosine 0.05 to 0.35 are usual, with dot 1"""
    directions: Directions = "both"
    """both views look for the other, or one: the single passage for the rest of its document (section 3.3)"""
    mask_groups: bool = True
    """exact copies of a document are no negatives of it"""


class EvaluationSettings(Settings):
    """What a run is measured by while it goes on."""

    held_out: Share = 0.0
    """share of the corpus that is not trained on but measured, always on the same sub-documents"""
    data: FileName | None = None
    """labelled documents whose field split is train or test, for k-means clustering of the test part"""
    train: FileName | None = None
    """labelled documents that k-means is fitted on, instead of data"""
    test: FileName | None = None
    """labelled documents that it is applied to"""
    pairs: FileName | None = None
    """file of labelled pairs among them, id_a id_b label separated by tabs"""
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 3
    """how many seeds of k-means"""
    at_start: bool = True
    """also measure before the first step"""
    best: str | None = None
    """number that decides which checkpoint is the best; null takes nmi if there is clustering, or else loss"""

    @model_validator(mode="after")
    def _check_documents(self) -> Self:
        for one, other in (("train", "test"), ("test", "train")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise self.refused(one, f"needs {{here}}{other} too; give both or none")
            if getattr(self, one) is not None and self.data is not None:
                raise self.refused(one, f"and {{here}}data={self.data!r} are both given; leave one of them out")
        if self.best is not None and self.best not in self.numbers:
            there = (
                f"there are {', '.join(self.numbers)}"
                if self.numbers
                else "give {here}held_out, data, or train and test"
            )
            raise self.refused("best", f"is not measured; {there}")
        return self

    @property
    def clusters(self) -> bool:
        """Whether labelled documents are clustered."""
        return self.data is not None or self.train is not None

    @property
    def numbers(self) -> list[str]:
        """Names of what is measured."""
        clustering = [*(["pair_auc"] if self.pairs is not None else []), "nmi", "purity"] if self.clusters else []
        return sorted([*(HELD_OUT_NUMBERS if self.held_out else ()), *clustering])

    @property
    def measures(self) -> bool:
        """Whether anything is measured while the run goes on."""
        return self.clusters or self.held_out > 0


class DividedCorpusSettings(CorpusSettings):
    """A corpus whose documents can be divided in two."""

    least_passages: Annotated[Passages, Field(ge=2)] = 2
    """documents of fewer passages are skipped and counted; sub-documents need 2"""


class ContrastTrainingSettings(TrainingSettings):
    """How long and how a model is trained by contrast, which takes other documents."""

    batch_size: Annotated[int, Field(ge=2, le=10**7)] = 1536
    """documents that the loss compares with each other, over all processes"""


class PretrainingSettings(RunSettings):
    """Everything about a pretraining run (Graph-RoBERTa, sections 2.2 and 3); the defaults are the paper's.

    Train a document model without labels, by separating the halves of a document from those of others.

    """

    next_command: ClassVar[str] = "graphdoc encode DOCUMENTS --model MODEL"
    streams: ClassVar[bool] = True

    recipe: Literal["sub_documents"] = "sub_documents"
    """how a model is trained: sub_documents or sentence_pairs"""
    output: FileName = "runs/pretraining"
    """folder of the run; the trained model is its folder model"""
    corpus: DividedCorpusSettings
    """the documents"""
    training: ContrastTrainingSettings = ContrastTrainingSettings()
    """how long and how"""
    split: Split = "half"
    """how documents are split into sub-documents: random halves, or one passage and the rest"""
    loss: ContrastSettings = ContrastSettings()
    """how sub-documents are separated"""
    evaluation: EvaluationSettings = EvaluationSettings()
    """what is measured meanwhile"""

    @property
    def similarity(self) -> Similarity:
        """How vectors are compared by the loss, and from then on."""
        return self.loss.similarity

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.evaluation.measures

    @model_validator(mode="after")
    def _check_streaming(self) -> Self:
        if self.corpus.streaming and self.training.max_steps is None:
            raise self.refused(
                "corpus.streaming", "needs training.max_steps, since a stream does not know its length; give them"
            )
        if self.corpus.streaming and self.evaluation.held_out:
            raise self.refused(
                "evaluation.held_out", "cannot take documents out of a stream; set it to 0, or corpus.streaming=false"
            )
        return self


ContrastOn = Literal["masked", "clean"]
Negatives = Literal["drawn", "batch"]
Weight = Annotated[float, Field(ge=0, le=1e6)]

# What is measured of pairs that are held out, what where all are compared with each other, and what of masked tokens.
PAIR_NUMBERS = (
    "auc", "contrast_loss", "embedding_norm", "loss", "negative_similarity", "positive_similarity", "spread",
)  # fmt: skip
BATCH_NUMBERS = ("accuracy",)
MASKED_NUMBERS = ("masked_accuracy", "masked_loss")
# Their cosines with each other are a matrix in memory.
MOST_COMPARED = 10_000


class SentenceCorpusSettings(CorpusSettings):
    """A corpus whose documents are cut into sentences."""

    max_passages: Passages = 1000
    """sentences of one document that are kept, the first in reading order; the rest is counted"""
    least_passages: Passages = 2
    """documents of fewer sentences are skipped and counted"""


class PairTrainingSettings(TrainingSettings):
    """How long and how a model is trained on pairs; what the paper does not say is as in its code."""

    batch_size: Annotated[int, Field(ge=1, le=10**7)] = 8
    """pairs of a batch, over all processes"""
    epochs: Annotated[float, Field(gt=0, le=1e6)] = 50.0
    """passes over the sentences, or over pairs_per_epoch of them"""
    learning_rate: LearningRate = 2e-5
    """highest learning rate"""
    optimizer: Optimizer = "adamw"
    """adamw is that of the paper's code"""


class SentencePairLossSettings(Settings):
    """The two terms of the loss (SDR, eq. 1-3)."""

    negatives: Negatives = "drawn"
    """what a sentence is kept apart from: drawn, in half of the pairs, one of another document (the paper), or batch,
    all of other documents in the batch, while every pair is of one paragraph"""
    margin: Annotated[float, Field(gt=0, le=2)] = 1.0
    """m: drawn sentences of two documents are kept apart down to a cosine of 1 - m; 2 is the usual cosine loss"""
    temperature: Temperature = 0.05
    """what cosines are divided by where negatives are those of the batch; 0.05 to 0.1 are usual"""
    contrast_weight: Weight = 1.0
    """factor of the loss of pairs"""
    mlm_weight: Weight = 1.0
    """factor of the loss of masked tokens; 0 trains without it"""
    contrast_on: ContrastOn = "masked"
    """which sentences are compared: those with masked tokens, in one pass (the paper), or clean ones, in a second"""

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if not self.contrast_weight and not self.mlm_weight:
            raise self.refused("mlm_weight", "and {here}contrast_weight=0 leave nothing to learn; raise one of them")
        return self

    @property
    def compares_all(self) -> bool:
        """Whether a sentence is compared with all those of its batch."""
        return self.negatives == "batch"

    @property
    def masks(self) -> bool:
        """Whether tokens are masked at all."""
        return self.mlm_weight > 0 or self.contrast_on == "masked"


class SentencePairEvaluationSettings(Settings):
    """What a run is measured by while it goes on."""

    held_out: Share = 0.1
    """share of the documents that is not trained on but measured, always on the same pairs and masks"""
    most_pairs: Annotated[int, Field(ge=2, le=10**6)] = 1000
    """pairs of them that are measured, at most"""
    at_start: bool = True
    """also measure before the first step"""
    best: str = "loss"
    """number that decides which checkpoint is the best"""


class SentencePairSettings(RunSettings):
    """Everything about a run on sentence pairs (SDR, section 3.2); the defaults are the paper's.

    Train sentence vectors without labels: two sentences of one paragraph are drawn together, two of different
    documents are kept apart, and masked tokens are guessed meanwhile.
    """

    next_command: ClassVar[str] = "graphdoc encode DOCUMENTS --level sentence --model MODEL"
    unit: ClassVar[Unit | None] = "sentence"

    recipe: Literal["sentence_pairs"] = "sentence_pairs"
    """how a model is trained: sub_documents or sentence_pairs"""
    output: FileName = "runs/sentence-pairs"
    """folder of the run; the trained model is its folder model"""
    corpus: SentenceCorpusSettings
    """the documents"""
    training: PairTrainingSettings = PairTrainingSettings()
    """how long and how"""
    pairs_per_epoch: Count | None = None
    """pairs of an epoch, other ones in every epoch; null passes over all sentences that have a neighbour"""
    loss: SentencePairLossSettings = SentencePairLossSettings()
    """the terms of the loss"""
    evaluation: SentencePairEvaluationSettings = SentencePairEvaluationSettings()
    """what is measured meanwhile"""

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.evaluation.held_out > 0

    @property
    def numbers(self) -> list[str]:
        """Names of what is measured."""
        if not self.is_measured:
            return []
        masked = MASKED_NUMBERS if self.loss.mlm_weight else ()
        return sorted([*PAIR_NUMBERS, *(BATCH_NUMBERS if self.loss.compares_all else ()), *masked])

    @model_validator(mode="after")
    def _check_tuning(self) -> Self:
        if self.model.tune == "frozen":
            raise self.refused(
                "model.tune", "leaves nothing to train: a sentence vector is that of the passage encoder, and tokens "
                "are masked below it; set it to full or lora"
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _check_evaluation(self) -> Self:
        if self.numbers and self.evaluation.best not in self.numbers:
            raise self.refused("evaluation.best", f"is not measured; there are {', '.join(self.numbers)}")
        return self

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if self.pairs_per_epoch is not None and self.pairs_per_epoch < self.training.batch_size:
            raise self.refused(
                "pairs_per_epoch", f"is less than training.batch_size={self.training.batch_size}, a single batch; "
                "raise the one or lower the other"
            )  # fmt: skip
        if self.loss.compares_all and self.training.batch_size < 2:
            raise self.refused(
                "training.batch_size", "leaves a pair alone in its batch, with nothing to be kept apart from "
                "(loss.negatives=batch); raise it"
            )  # fmt: skip
        if self.loss.compares_all and self.is_measured and self.evaluation.most_pairs > MOST_COMPARED:
            raise self.refused(
                "evaluation.most_pairs", f"would all be compared with each other (loss.negatives=batch), of which "
                f"{MOST_COMPARED:,} can be; lower it"
            )  # fmt: skip
        return self
