"""Train on the stored vectors of a teacher, with every part in sight.

    accelerate launch pretrain/distillation.py --config configs/pretrain/distillation.yaml teacher=FOLDER

Takes the arguments of ``graphdoc pretrain`` and does the same with ``recipe: distillation``. Copy it to put a data
set, an objective or an evaluation of your own in the place of one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc.cli import main
from graphdoc.losses import CosineMatching
from graphdoc.recipes.base import Recipe, Start, train
from graphdoc.recipes.distillation import begin_distillation, evaluation_of
from graphdoc.recipes.distillation_data import DistillationData
from graphdoc.settings.distillation import DistillationSettings
from graphdoc.training.objectives import TeacherMatching
from graphdoc.training.task import Task


def recipe(start: Start[DistillationSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    # 1. Documents of one corpus a batch, with the vectors that the teacher gave their passages, or them.
    data = DistillationData(start)
    begin_distillation(start, data.teacher.level)
    # 2. Cosines between the rows of a batch become those of the teacher.
    objective = TeacherMatching(CosineMatching(start.settings.loss.temperature), data.teacher.level == "passage")
    # 3. What is measured while the run goes on: documents that are held out.
    evaluation = evaluation_of(start, data, objective)

    steps = f"{data.steps:,} steps of {data.batch_size:,} documents"
    return Recipe(Task("distillation", data, objective), data, evaluation, [steps], f"Distillation, {steps}.")


def pretrain(settings: DistillationSettings, **options: Any) -> Path:
    """Train by the settings; the loop takes steps, saves checkpoints and goes on where a run was interrupted."""
    return train(settings, recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["pretrain", *sys.argv[1:], "recipe=distillation"], train=pretrain))
