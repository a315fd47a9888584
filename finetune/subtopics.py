"""Train a model to find the subtopics of pairs of documents (SST, section 3.2).

    accelerate launch finetune/subtopics.py --config configs/finetune/FILE.yaml corpus.source=papers/

Takes the arguments of ``graphdoc finetune subtopics`` and does the same. Copy it to put a
data set, an objective or an evaluation of your own in the place of one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc.cli import main
from graphdoc.recipes.base import Recipe, Start, train
from graphdoc.recipes.subtopic_data import SubtopicData
from graphdoc.recipes.subtopic_validation import SubtopicValidation
from graphdoc.recipes.subtopics import begin_subtopics, objective_of
from graphdoc.settings.subtopics import SubtopicRunSettings
from graphdoc.training.task import Task


def recipe(start: Start[SubtopicRunSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = start.settings
    # A head above the graph puts sentences into subtopics.
    begin_subtopics(start.encoder, settings)

    # 1. Clusters of connected sentences, over which similar documents are spread alike.
    objective = objective_of(settings.loss)
    # 2. Pairs that the model is measured on, if the settings name some.
    validation = SubtopicValidation(start, objective) if settings.validation.pairs else None
    # 3. Pairs of documents as graphs of similar sentences, half of them similar.
    data = SubtopicData(start)

    evaluation = validation.evaluation() if validation else None
    steps = f"{data.steps:,} steps of {data.batch_size:,} pairs"
    return Recipe(Task("subtopics", data, objective), data, evaluation, [steps], f"Subtopics of pairs, {steps}.")


def train_subtopics(settings: SubtopicRunSettings, **options: Any) -> Path:
    """Train by the settings; the loop takes steps, saves checkpoints and goes on where a run was interrupted."""
    return train(settings, recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["finetune", "subtopics", *sys.argv[1:]], train=train_subtopics))
