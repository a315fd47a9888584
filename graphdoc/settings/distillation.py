"""The settings of distillation: learning from the stored vectors of a teacher."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .base import FileName, Settings, Share
from .corpus import CorpusSettings, Passages
from .run import RunSettings
from .sub_documents import Temperature
from .training import TrainingSettings

# What is measured of documents that are held out.
DISTILLATION_NUMBERS = ("correlation", "cosine_error", "embedding_norm", "loss", "spread")


class DistillationCorpusSettings(CorpusSettings):
    """The documents that the teacher has encoded."""

    least_passages: Passages = 1
    """documents of fewer passages are skipped and counted"""


class DistillationTrainingSettings(TrainingSettings):
    """How long and how a model learns from a teacher."""

    batch_size: Annotated[int, Field(ge=1, le=10**7)] = 64
    """documents of a batch, over all processes; all their passages are compared with each other"""


class DistillationLossSettings(Settings):
    """How the cosines of the model become those of the teacher."""

    temperature: Temperature | None = None
    """null takes the mean square of their differences; a number, such as 0.05, what each row is nearest to"""


class DistillationEvaluationSettings(Settings):
    """What a run is measured by while it goes on."""

    held_out: Share = 0.05
    """share of the documents that is not trained on but measured"""
    at_start: bool = True
    """also measure before the first step"""
    best: str = "loss"
    """number that decides which checkpoint is the best"""


class DistillationSettings(RunSettings):
    """Everything about a run that learns from the stored vectors of a teacher.

    Train a model so that its cosines become those of a teacher: a larger model, of any length of vectors, that has
    encoded the same documents by graphdoc encode. Batches hold documents of one corpus each.
    """

    purpose: ClassVar[str] = "train a model without labels, on the vectors of a teacher"
    examples: ClassVar[str] = """examples:
  graphdoc encode papers/ --level passage --model TEACHER --max-passages 12 --repeats keep --output teacher/
  graphdoc pretrain --config configs/pretrain/distillation.yaml corpus.source=papers/ teacher=teacher/
"""
    next_command: ClassVar[str] = "graphdoc encode DOCUMENTS --model MODEL"
    evaluation_fix: ClassVar[str | None] = "give evaluation.held_out"

    recipe: Literal["distillation"] = "distillation"
    """how a model is trained: sub_documents, sentence_pairs or distillation"""
    output: FileName = "runs/distillation"
    """folder of the run; the trained model is its folder model"""
    corpus: DistillationCorpusSettings
    """the documents"""
    teacher: list[FileName] | FileName
    """folders that graphdoc encode --level passage (or document) has written, one or a list, a folder for a corpus"""
    training: DistillationTrainingSettings = DistillationTrainingSettings()
    """how long and how"""
    loss: DistillationLossSettings = DistillationLossSettings()
    """how cosines are matched"""
    evaluation: DistillationEvaluationSettings = DistillationEvaluationSettings()
    """what is measured meanwhile"""

    @property
    def teachers(self) -> list[str]:
        """The folders of ``teacher`` as a list."""
        return [self.teacher] if isinstance(self.teacher, str) else list(self.teacher)

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.evaluation.held_out > 0

    @property
    def numbers(self) -> list[str]:
        """Names of what is measured."""
        return sorted(DISTILLATION_NUMBERS) if self.is_measured else []

    @model_validator(mode="after")
    def _check_teacher(self) -> Self:
        if not self.teachers:
            raise self.refused("teacher", "names no folder; give one that graphdoc encode --output has written")
        return self

    @model_validator(mode="after")
    def _check_evaluation(self) -> Self:
        for name in ("at_start", "best"):
            self.require_effect(f"evaluation.{name}", self.is_measured, "with evaluation.held_out=0; leave it out")
        if self.numbers and self.evaluation.best not in self.numbers:
            raise self.refused("evaluation.best", f"is not measured; there are {', '.join(self.numbers)}")
        return self
