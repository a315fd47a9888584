"""Train a model to find documents by queries (Graph-RoBERTa, section 3.3), with every part in sight.

    accelerate launch finetune/retrieve.py --config configs/finetune/FILE.yaml queries.source=judged/

Takes the arguments of ``graphdoc finetune retrieve`` and does the same. Copy it to put a
data set, an objective or an evaluation of your own in the place of one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc.cli import main
from graphdoc.recipes.base import Recipe, Start, train
from graphdoc.recipes.ranking_validation import evaluation_of
from graphdoc.recipes.retrieve import objective_of, queries_of
from graphdoc.recipes.retrieve_data import RetrievalData
from graphdoc.settings.retrieve import RetrievalSettings
from graphdoc.training.starting_model import begin_training
from graphdoc.training.task import Task


def recipe(start: Start[RetrievalSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, model = start.settings, start.encoder.model
    # A head would read vectors that are no longer those it was trained on.
    model.remove_head()
    begin_training(start.encoder, settings.model)

    # 1. Queries with answers, read or made of the documents; those that are measured are not trained on.
    sets = queries_of(start)
    # 2. Pairs of query and answer, each with the negatives that are drawn for it.
    data = RetrievalData(start, sets)
    # 3. A query's answer against all other documents of the batch.
    objective = objective_of(settings)
    # 4. Rankings of the corpus for held-out queries.
    evaluation = evaluation_of(start, sets)

    steps = f"{data.steps:,} steps of {data.batch_size:,} pairs"
    return Recipe(Task("retrieve", data, objective), data, evaluation, [steps], f"Retrieval, {steps}.")


def train_retrieval(settings: RetrievalSettings, **options: Any) -> Path:
    """Train by the settings; the loop takes steps, saves checkpoints and goes on where a run was interrupted."""
    return train(settings, recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["finetune", "retrieve", *sys.argv[1:]], train=train_retrieval))
