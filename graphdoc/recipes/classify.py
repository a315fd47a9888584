"""Training a classifier on labelled documents (Graph-RoBERTa, section 3.2, "End-to-end Classification")."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from ..errors import ModelError
from ..evaluation import ClassificationEvaluator
from ..losses import ClassificationLoss, balanced_weights
from ..settings.classify import ClassificationSettings
from ..training.loop import RunEvaluation
from ..training.objectives import Classification
from ..training.starting_model import begin_training
from ..training.task import Task
from .base import Recipe, RunOptions, Start, prepared_once, train, transformer_precision
from .classify_data import LabelledData


def train_classifier(settings: ClassificationSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model with a head that gives documents their classes (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(start: Start[ClassificationSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, encoder, labels = start.settings, start.encoder, start.settings.labels
    data = LabelledData(start)
    encoder.model.add_head(data.classes, multi_label=labels.multi_label, dropout=labels.dropout)
    begin_training(encoder, settings.model)
    data.load()
    loss = ClassificationLoss(labels.multi_label, class_weights_of(settings, data), labels.label_smoothing)
    return Recipe(
        Task("classify", data, Classification(loss)),
        data,
        evaluation_of(start, data),
        [f"{data.steps:,} steps of {data.batch_size:,} documents"],
        _how(settings, data),
    )


def _how(settings: ClassificationSettings, data: LabelledData) -> str:
    """How the model was trained, in a sentence for its card."""
    training, labels = settings.training, settings.labels
    kind = "any number of classes" if labels.multi_label else "one class"
    return (
        f"Classification of documents into {kind} out of {len(data.classes):,}, by cross entropy (class weights: "
        f"{labels.class_weights}), batches of {training.batch_size:,} documents, {training.epochs:g} epochs, "
        f"{settings.model.tune} passage encoder."
    )


def class_weights_of(settings: ClassificationSettings, data: LabelledData) -> tuple[float, ...] | None:
    """Weights of the classes in the loss, as the settings ask for them; None for 1 each."""
    if settings.labels.class_weights == "none":
        return None
    return balanced_weights(data.counts, data.documents if settings.labels.multi_label else None)


def evaluation_of(start: Start[ClassificationSettings], data: LabelledData) -> RunEvaluation | None:
    """Accuracy, F1 and loss on the documents that are measured, of which as much is read as of any at inference."""
    if not data.has_validation:
        return None
    settings, labels = start.settings, start.settings.labels
    validation = settings.validation

    def read() -> ClassificationEvaluator:
        return ClassificationEvaluator(
            data.validation_documents(),
            multi_label=labels.multi_label,
            separator=labels.separator,
            dtype=transformer_precision(settings.training),
            best=validation.best,
        )

    ready = prepared_once(start, read)

    def measure() -> Mapping[str, float]:
        evaluator = ready()
        assert evaluator is not None
        try:
            return evaluator(start.encoder)
        except ModelError as error:
            # Its weights were numbers a moment ago.
            raise ModelError(
                f"{error}; or training has diverged: lower training.learning_rate, or warm up over more steps "
                "(training.warmup)"
            ) from error

    return RunEvaluation(measure, validation.best, validation.best != "loss", validation.at_start)
