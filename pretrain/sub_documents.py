"""Pretrain on sub-documents (Graph-RoBERTa, sections 2.2 and 3.2-3.3), with every part in sight.

    accelerate launch pretrain/sub_documents.py --config configs/pretrain/FILE.yaml training.epochs=3

Takes the arguments of ``graphdoc pretrain`` and does the same. Copy it to put a data set, an objective or an
evaluation of your own in the place of one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc.cli import main
from graphdoc.losses import SubDocumentContrast
from graphdoc.recipes.base import Recipe, Start, train
from graphdoc.recipes.sub_document_data import open_data
from graphdoc.recipes.sub_documents import evaluation_of
from graphdoc.sampling import SubDocuments
from graphdoc.settings.sub_documents import PretrainingSettings
from graphdoc.training.objectives import ViewContrast
from graphdoc.training.starting_model import begin_training
from graphdoc.training.task import Task


def recipe(start: Start[PretrainingSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = start.settings
    begin_training(start.encoder, settings.model)

    # 1. Documents, each split into two sub-documents anew in every epoch.
    data = open_data(start, SubDocuments(settings.split, settings.training.seed))
    # 2. Every sub-document looks for the other one of its document among those of the batch.
    objective = ViewContrast(SubDocumentContrast(**settings.loss.as_values()))
    # 3. What is measured while the run goes on, as far as the settings ask for it.
    evaluation = evaluation_of(start, data, objective)

    steps = f"{data.steps:,} steps of {data.batch_size:,} documents"
    return Recipe(Task("sub_documents", data, objective), data, evaluation, [steps], f"Pretraining, {steps}.")


def pretrain(settings: PretrainingSettings, **options: Any) -> Path:
    """Train by the settings; the loop takes steps, saves checkpoints and goes on where a run was interrupted."""
    return train(settings, recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["pretrain", *sys.argv[1:], "recipe=sub_documents"], train=pretrain))
