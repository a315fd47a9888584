"""The settings of training a classifier."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .base import FileName, Settings, Share
from .run import LabelledRunSettings
from .training import TrainingSettings

ClassWeights = Literal["none", "balanced"]
Best = Literal["accuracy", "macro_f1", "micro_f1", "loss"]


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

    @model_validator(mode="after")
    def _check_separator(self) -> Self:
        self.require_effect("separator", self.multi_label, "without {here}multi_label=true; set that, or leave it out")
        return self


class ValidationSettings(Settings):
    """What decides which checkpoint is the best.

    Documents whose field ``split`` is ``dev``, ``validation``, ``valid`` or ``val`` are measured and not trained on,
    and those with ``test`` are left alone. Without such a field, a share of every class is drawn.
    """

    share: Share = 0.1
    """share of every class that is measured and not trained on, where documents name no split; 0 for none"""
    best: Best = "accuracy"
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

    All settings are in a YAML file; configs/finetune/ holds recipes to start from. What follows the options
    as key=value replaces what the file says. The run's folder (output) gets checkpoints, the log, the
    settings and, in its folder model, the trained model. A run that was interrupted goes on from its last
    checkpoint with --resume.
    """

    purpose: ClassVar[str] = "train a classifier on documents with labels"
    examples: ClassVar[str] = """examples:
  graphdoc finetune classify --config configs/finetune/own_labels.yaml corpus.source=letters.csv
  graphdoc finetune classify --config configs/finetune/own_labels.yaml corpus.source=letters.csv --resume
  graphdoc finetune classify --config configs/finetune/own_labels.yaml corpus.source=classes/ corpus.label_from=folder
  torchrun --nproc-per-node 8 finetune/classify.py --config configs/finetune/newsgroups20.yaml
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
