"""Training a classifier on labelled documents (Graph-RoBERTa, section 3.2, "End-to-end Classification")."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import torch

from ..encoder import DocumentEncoder
from ..errors import ModelError
from ..evaluation.classification_scores import classification_scores
from ..graphs.packing import Packing
from ..losses import ClassificationLoss, balanced_weights
from ..prediction.predicting import given_labels, probabilities_of
from ..prediction.records import THRESHOLD
from ..settings.classify import ClassificationSettings
from ..training.loop import RunEvaluation
from ..training.objectives import Classification
from ..training.starting_model import begin_training
from ..training.task import Task
from .base import Recipe, RunOptions, Start, train
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
        evaluation_of(settings, encoder, data),
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


def evaluation_of(
    settings: ClassificationSettings, encoder: DocumentEncoder, data: LabelledData
) -> RunEvaluation | None:
    """Accuracy, F1 and loss on the documents that are measured."""
    if not data.has_validation:
        return None
    multi_label = settings.labels.multi_label
    threshold = THRESHOLD if multi_label else None
    plain_loss = ClassificationLoss(multi_label)

    @torch.no_grad()
    def measure() -> Mapping[str, float]:
        model = encoder.model
        packing = Packing.on(model.device, settings.training.token_budget, settings.training.padding)
        logits, targets = [], []
        for batch in data.validation_batches():
            moved = batch.to(model.device)
            logits.append(model(moved.graphs, packing).logits.cpu())
            targets.append(batch.targets["class"])
        rows, known = torch.cat(logits), torch.from_numpy(data.is_known)
        if not torch.isfinite(rows).all():
            raise ModelError(
                "the model has diverged: its logits are no numbers; lower training.learning_rate, or warm up over "
                "more steps (training.warmup)"
            )
        probabilities = probabilities_of(rows, multi_label)
        given = [given_labels(row, data.classes, threshold) for row in probabilities]
        scores: Any = classification_scores(data.truth, given, data.classes, probabilities, multi_label=multi_label)
        if not known.any():
            # Nothing has a loss where no label is a class.
            return dict(scores.metrics())
        loss = float(plain_loss(rows[known], torch.cat(targets)[known]).loss)
        return {**scores.metrics(), "loss": loss}

    best = settings.validation.best
    return RunEvaluation(measure, best, best != "loss", settings.validation.at_start)
