"""The settings of pretraining: sub-documents and sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ..errors import SettingsError
from ..registry import Directions
from .base import Count
from .document import Unit
from .run import ContrastSettings, HeldOutSettings, RunSettings, TemperatureSettings, Tune

Split = Literal["half", "one_passage"]


class SubDocumentLossSettings(ContrastSettings):
    """How the two sub-documents of a document are separated from those of others (Graph-RoBERTa, eq. 5-6)."""

    directions: Directions = "both"
    """both views look for the other, or one: the single passage for the rest of its document (section 3.3)"""


class SubDocumentSettings(RunSettings):
    """Everything about a pretraining run (Graph-RoBERTa, sections 2.2 and 3); the defaults are the paper's.

    Train a document model without labels, by separating the halves of a document from those of others.
    """

    next_command: ClassVar[str] = "graphdoc encode DOCUMENTS --model MODEL"
    defaults: ClassVar = {
        "output": "runs/pretraining",
        "corpus": {"least_passages": 2, "deduplicate": True},
        "training": {"batch_size": 1536},
        "validation": {"share": 0.0},
    }
    metric_names = "loss", "accuracy", "positive_similarity", "spread"
    least_batch: ClassVar[int] = 2

    recipe: Literal["sub_documents"] = "sub_documents"
    """how a model is trained: sub_documents or sentence_pairs"""
    split: Split = "half"
    """how documents are split into sub-documents: random halves, or one passage and the rest"""
    loss: SubDocumentLossSettings = SubDocumentLossSettings()
    """how sub-documents are separated"""

    @model_validator(mode="after")
    def _check_corpus(self) -> Self:
        if self.corpus.least_passages < 2:
            raise SettingsError("corpus.least_passages=1 is too few: sub-documents need 2 passages")
        if self.corpus.streaming and (self.training.max_steps is None or self.is_measured):
            raise SettingsError(
                "corpus.streaming=true needs training.max_steps, since a stream does not know its length, and "
                "validation.share=0, since no documents can be taken out of it"
            )
        return self


Weight = Annotated[float, Field(ge=0, le=1e6)]


class SentencePairLossSettings(TemperatureSettings):
    """The two terms of the loss (SDR, eq. 1-3)."""

    negatives: Literal["sampled", "in_batch"] = "sampled"
    """what a sentence is kept apart from: sampled, in half of the pairs one of another document, or in_batch,
    all of other documents in the batch (then every pair is of one paragraph); sampled is the paper's"""
    margin: Annotated[float, Field(gt=0, le=2)] = 1.0
    """m: drawn sentences of two documents are kept apart down to a cosine of 1 - m; 2 is the usual cosine loss"""
    contrast_weight: Weight = 1.0
    """factor of the loss of pairs"""
    mlm_weight: Weight = 1.0
    """factor of the loss of masked tokens; 0 trains without it"""
    contrast_on: Literal["masked", "clean"] = "masked"
    """which sentences are compared: those with masked tokens, in one pass (the paper), or clean ones, in a second"""

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if not self.contrast_weight and not self.mlm_weight:
            raise SettingsError("mlm_weight=0 and contrast_weight=0 leave nothing to learn; raise one of them")
        return self

    @property
    def compares_all(self) -> bool:
        """Whether a sentence is compared with all those of its batch."""
        return self.negatives == "in_batch"

    @property
    def masks(self) -> bool:
        """Whether tokens are masked at all."""
        return self.mlm_weight > 0 or self.contrast_on == "masked"


class SentencePairValidationSettings(HeldOutSettings):
    """Documents that are measured and not trained on, always by the same pairs and masks."""

    most_pairs: Annotated[int, Field(ge=2, le=10**6)] = 1000
    """pairs of them that are measured, at most"""


class SentencePairSettings(RunSettings):
    """Everything about a run on sentence pairs (SDR, section 3.2); the defaults are the paper's.

    Train sentence vectors without labels: two sentences of one paragraph are drawn together, two of different
    documents are kept apart, while masked tokens are guessed.
    """

    next_command: ClassVar[str] = "graphdoc encode DOCUMENTS --level sentence --model MODEL"
    unit: ClassVar[Unit | None] = "sentence"
    defaults: ClassVar = {
        "output": "runs/sentence-pairs",
        "corpus": {"max_passages": 1000, "least_passages": 2, "deduplicate": True},
        "training": {"batch_size": 8, "epochs": 50.0, "learning_rate": 2e-5},
        "loss": {"temperature": 0.05},
    }
    # A sentence vector is that of the passage encoder, and tokens are masked below it.
    tunes: ClassVar[tuple[Tune, ...]] = ("full", "lora")

    recipe: Literal["sentence_pairs"] = "sentence_pairs"
    """how a model is trained: sub_documents or sentence_pairs"""
    pairs_per_epoch: Count | None = None
    """pairs of an epoch, other ones in every epoch; null passes over all sentences that have a neighbour"""
    loss: SentencePairLossSettings = SentencePairLossSettings()
    """the terms of the loss"""
    validation: SentencePairValidationSettings = SentencePairValidationSettings()
    """what is measured during training"""

    @property
    def metric_names(self) -> Sequence[str]:  # type: ignore[override]
        """What can decide: accuracy if a sentence is compared with all others, masked tokens where some are guessed."""
        among_all = ["accuracy"] if self.loss.compares_all else []
        masked = ["masked_accuracy", "masked_loss"] if self.loss.mlm_weight else []
        return ["loss", "auc", *among_all, *masked, "contrast_loss", "positive_similarity", "spread"]

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        batch_size = self.training.batch_size
        if self.pairs_per_epoch is not None and self.pairs_per_epoch < batch_size:
            raise SettingsError(
                f"pairs_per_epoch={self.pairs_per_epoch} is less than training.batch_size={batch_size}; raise it"
            )
        if self.loss.compares_all and batch_size < 2:
            raise SettingsError("training.batch_size=1 leaves nothing in the batch to be kept apart from; raise it")
        return self
