"""Train a model to match pairs of long documents, view by view (SST, section 3.4).

    accelerate launch finetune/views.py --config configs/finetune/FILE.yaml corpus.source=papers/

Takes the arguments of ``graphdoc finetune views`` and does the same. Copy it to put a
data set, an objective or an evaluation of your own in the place of one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc.cli import main
from graphdoc.recipes.base import Recipe, Start, train
from graphdoc.recipes.pair_validation import PairValidation
from graphdoc.recipes.view_data import ViewData
from graphdoc.recipes.views import begin_views, objective_of
from graphdoc.settings.view_training import ViewRunSettings
from graphdoc.training.task import Task


def recipe(start: Start[ViewRunSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = start.settings
    # The settings of views become part of the model, and two views that are read together need a head.
    begin_views(start.encoder, settings)

    # 1. Pairs that the model is measured on, if the settings name some.
    validation = PairValidation(start) if settings.validation.pairs else None
    # 2. Pairs of documents, whose subtopics are found and whose views are drawn once.
    data = ViewData(start)
    # 3. The views of a pair match, or do not.
    objective = objective_of(settings)

    evaluation = validation.evaluation() if validation else None
    steps = f"{data.steps:,} steps of {data.batch_size:,} pairs"
    return Recipe(Task("views", data, objective), data, evaluation, [steps], f"Matching of pairs, {steps}.")


def train_views(settings: ViewRunSettings, **options: Any) -> Path:
    """Train by the settings; the loop takes steps, saves checkpoints and goes on where a run was interrupted."""
    return train(settings, recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["finetune", "views", *sys.argv[1:]], train=train_views))
