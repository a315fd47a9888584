"""Train a classifier (Graph-RoBERTa, section 3.2), with every part in sight.

    accelerate launch finetune/classify.py --config configs/finetune/FILE.yaml corpus.source=letters.csv

Takes the arguments of ``graphdoc finetune classify`` and does the same. Copy it to put a data set, an objective or an
evaluation of your own in the place of one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc.cli import main
from graphdoc.losses import ClassificationLoss
from graphdoc.recipes.base import Recipe, Start, train
from graphdoc.recipes.classify import class_weights_of, evaluation_of
from graphdoc.recipes.classify_data import LabelledData
from graphdoc.settings.classify import ClassificationSettings
from graphdoc.training.objectives import Classification
from graphdoc.training.starting_model import begin_training
from graphdoc.training.task import Task


def recipe(start: Start[ClassificationSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, labels, model = start.settings, start.settings.labels, start.encoder.model

    # 1. Labelled documents, and a head for their classes.
    data = LabelledData(start)
    model.add_head(data.classes, multi_label=labels.multi_label, dropout=labels.dropout)
    begin_training(start.encoder, settings.model)
    data.load()
    # 2. Cross entropy of the head's logits.
    loss = ClassificationLoss(labels.multi_label, class_weights_of(settings, data), labels.label_smoothing)
    objective = Classification(loss)
    # 3. Accuracy, F1 and loss on documents that are not trained on.
    evaluation = evaluation_of(start, data)

    steps = f"{data.steps:,} steps of {data.batch_size:,} documents"
    return Recipe(Task("classify", data, objective), data, evaluation, [steps], f"Classification, {steps}.")


def train_classifier(settings: ClassificationSettings, **options: Any) -> Path:
    """Train by the settings; the loop takes steps, saves checkpoints and goes on where a run was interrupted."""
    return train(settings, recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["finetune", "classify", *sys.argv[1:]], train=train_classifier))
