"""What the settings of every recipe hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import model_validator

from ..documents.readers.folders import source_reaching
from .base import FileName, Settings
from .corpus import CorpusSettings, LabelledCorpusSettings
from .document import Similarity, Unit
from .model import ModelSettings
from .output_folder import output_folder
from .training import TrainingSettings


class RunSettings(Settings):
    """Everything about a run that every recipe has."""

    # What its command says: in a line, as examples, and what to try the model with (``MODEL`` is its folder).
    purpose: ClassVar[str]
    examples: ClassVar[str]
    next_command: ClassVar[str]
    # What documents are cut into for training where the recipe decides it, and not the model.
    unit: ClassVar[Unit | None] = None
    # Whether documents may be read anew in every epoch.
    streams: ClassVar[bool] = False
    # What to give so that the model is measured while the run goes on; a recipe that measures it says when it does by
    # ``is_measured``.
    evaluation_fix: ClassVar[str | None] = None

    output: FileName
    """folder of the run; the trained model is its folder model"""
    corpus: CorpusSettings
    """the documents"""
    model: ModelSettings = ModelSettings()
    """what is trained, and where it starts"""
    training: TrainingSettings = TrainingSettings()
    """how long and how"""

    @model_validator(mode="before")
    @classmethod
    def _look_into_the_corpus(cls, values: Any) -> Any:
        """Without a corpus, it is its source that is missing."""
        return {"corpus": {}, **values} if isinstance(values, Mapping) else values

    @model_validator(mode="after")
    def _check_places(self) -> Self:
        for key, folder in (("output", self.folder), ("corpus.cache", self.corpus.corpora_folder)):
            if (source := source_reaching(folder, self.corpus.sources, is_folder=True)) is not None:
                raise self.refused(
                    key, f"lies in corpus.source={source}, so that what is written there would be read as documents; "
                    f"choose another {key}, or name the documents more closely"
                )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _check_rates(self) -> Self:
        learns = self.model.tune != "frozen"
        for name in ("encoder_learning_rate", "keep_activations"):
            self.require_effect(
                f"training.{name}", learns,
                "on a frozen passage encoder; leave it out, or set model.tune=lora or full",
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _check_streams(self) -> Self:
        if self.corpus.streaming and not self.streams:
            raise self.refused(
                "corpus.streaming", "is for graphdoc pretrain with recipe=sub_documents, and this recipe needs the "
                "whole corpus beforehand; set it to false"
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _check_is_measured(self) -> Self:
        fix = self.evaluation_fix
        reason = ", which this recipe does not have; leave it out" if fix is None else f"; {fix}, or leave it out"
        self.require_effect("training.evaluation_steps", self.is_measured, f"without an evaluation{reason}")
        return self

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on, or may be, where only the documents tell."""
        return False

    @property
    def similarity(self) -> Similarity:
        """How vectors are compared by the loss, and from then on."""
        return "cosine"

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return output_folder(self.output)


class LabelledRunSettings(RunSettings):
    """Everything about a run on documents with labels, groups or pairs that every such recipe has."""

    corpus: LabelledCorpusSettings
    """the documents"""

    @model_validator(mode="after")
    def _check_readout(self) -> Self:
        if self.model.result_readout is not None:
            raise self.refused(
                "model.result_readout",
                "is for pretraining; leave it out, and set model.settings.readout to train with that readout",
            )
        return self
