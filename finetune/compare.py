"""Train a model to compare documents, by supervised contrast of their sections (CoLDE, section 3).

    accelerate launch finetune/compare.py --config configs/finetune/FILE.yaml corpus.source=letters/

Takes the arguments of ``graphdoc finetune compare`` and does the same. Copy it to put a
data set, an objective or an evaluation of your own in the place of one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc.cli import main
from graphdoc.recipes.base import Recipe, Start, train
from graphdoc.recipes.compare import data_of, objective_of, require_sections
from graphdoc.recipes.pair_validation import PairValidation
from graphdoc.settings.compare import ComparisonSettings
from graphdoc.training.starting_model import begin_training
from graphdoc.training.task import Task


def recipe(start: Start[ComparisonSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, model = start.settings, start.encoder.model
    require_sections(settings, model)
    # A head would read vectors that are no longer those it was trained on.
    model.remove_head()
    begin_training(start.encoder, settings.model)

    # 1. Pairs that the model is measured on, if the settings name some.
    validation = PairValidation(start) if settings.validation.pairs else None
    # 2. Documents in groups, split into sections; or pairs of documents with labels.
    data = data_of(start)
    # 3. Sections of one group belong together; or documents of a pair do, or do not.
    objective = objective_of(settings, model)

    evaluation = validation.evaluation() if validation else None
    steps = f"{data.steps:,} steps of {data.batch_size:,}"
    return Recipe(Task("compare", data, objective), data, evaluation, [steps], f"Comparison, {steps}.")


def train_comparison(settings: ComparisonSettings, **options: Any) -> Path:
    """Train by the settings; the loop takes steps, saves checkpoints and goes on where a run was interrupted."""
    return train(settings, recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["finetune", "compare", *sys.argv[1:]], train=train_comparison))
