"""The settings of training a classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from .corpus import LabelledCorpusSettings
from .output_folder import output_folder, require_usable_output
from .training import ModelSettings, TrainingSettings, require_used_rates

ClassWeights = Literal["none", "balanced"]
Best = Literal["accuracy", "macro_f1", "micro_f1", "loss"]


@dataclass(frozen=True)
class LabelSettings:
    """What is to be told of documents. Their labels are in the column ``corpus.columns.label``.

    Args:
        multi_label: whether a document can have any number of classes, or exactly one.
        separator: what stands between the labels of a string that holds several, such as ``;`` in a CSV file.
        class_weights: ``balanced`` lets every class count as much as any other, however many documents it has.
        label_smoothing: share of a target that is spread over all classes.
        dropout: dropout on document vectors before the head.

    Raises:
        ValueError: a value is out of range.
    """

    multi_label: bool = False
    separator: str | None = None
    class_weights: ClassWeights = "none"
    label_smoothing: float = 0.0
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if self.class_weights not in get_args(ClassWeights):
            raise ValueError(f"class_weights={self.class_weights!r} is unknown; use none or balanced")
        for name in ("label_smoothing", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and below 1")
        if self.separator == "":
            raise ValueError("separator is empty; give what stands between labels, such as ';', or leave it out")
        if self.separator is not None and not self.multi_label:
            raise ValueError(f"separator={self.separator!r} is for labels.multi_label=true; set that or leave it out")


@dataclass(frozen=True)
class ValidationSettings:
    """What the best checkpoint is told by.

    Documents whose field ``split`` is ``dev``, ``validation``, ``valid`` or ``val`` are measured and not trained on,
    and those with ``test`` are left alone. Without such a field, a share of every class is drawn.

    Args:
        share: share of every class that is measured and not trained on, where documents name no split; 0 for none.
        best: the number by which the best checkpoint is told.
        at_start: also measure before the first step.

    Raises:
        ValueError: a value is out of range.
    """

    share: float = 0.1
    best: Best = "accuracy"
    at_start: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share={self.share} must be at least 0 and below 1")
        if self.best not in get_args(Best):
            raise ValueError(f"best={self.best!r} is unknown; use one of {', '.join(get_args(Best))}")


@dataclass(frozen=True)
class ClassificationSettings:
    """Everything about training a classifier (Graph-RoBERTa, section 3.2 and table 6); the defaults are the paper's.

    Args:
        corpus: the labelled documents.
        labels: what is to be told of them.
        model: what is trained, and where it starts.
        training: how long and how.
        validation: what is measured meanwhile.
        output: folder of the run; the trained model is its folder ``model``.

    Raises:
        ValueError: settings do not fit together.
    """

    corpus: LabelledCorpusSettings
    labels: LabelSettings = field(default_factory=LabelSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=lambda: TrainingSettings(batch_size=32))
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    output: str = "runs/classification"

    def __post_init__(self) -> None:
        require_usable_output(self.output, self.corpus)
        self.model.require_own_readout()
        require_used_rates(self.model, self.training)
        if self.corpus.streaming:
            raise ValueError(
                "corpus.streaming is for pretraining: classes are counted before training; set it to false"
            )
        if self.validation.best == "micro_f1" and not self.labels.multi_label:
            raise ValueError("validation.best=micro_f1 is the accuracy where a document has one label; use accuracy")

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return output_folder(self.output)
