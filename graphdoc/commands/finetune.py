"""graphdoc finetune: train a model for a task with labels, one task each."""

from __future__ import annotations

from ..registry import RECIPES
from .training_run import TrainingCommand

NAME = "finetune"
HELP = "train a model for a task, on documents with labels, groups or pairs"
DESCRIPTION = """Train a model for a task, on documents with labels, groups or pairs."""
EPILOG = """examples:
  graphdoc finetune classify --config configs/finetune/own_labels.yaml corpus.source=letters.csv output=runs/letters
  graphdoc finetune compare --config configs/finetune/own_pairs.yaml corpus.source=letters/ groups.file=pairs.tsv
  graphdoc finetune TASK --help   says more about the task
"""

TASKS = tuple(TrainingCommand(words) for words in RECIPES if words.startswith("finetune "))
