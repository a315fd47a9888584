"""graphdoc finetune classify: train a model that tells the classes of documents."""

from __future__ import annotations

import argparse

from .training_run import add_training_arguments, settings_of, train

NAME = "classify"
HELP = "train a classifier on documents with labels"
DESCRIPTION = """Train a model with a head that tells the classes of documents, one class each or any number.

Documents are a CSV, JSON Lines or Parquet file with a column of labels (label, or corpus.columns.label), or a folder
with one folder of files per class (corpus.label_from=folder). Documents whose field split is dev or validation are
measured while the model is trained and tell the best checkpoint, those with test are left for graphdoc evaluate
classify; without such a field a tenth of every class is measured. Documents without a label are left out and counted.

All settings are in a YAML file; configs/finetune/ holds recipes to start from. What follows the options as key=value
replaces what the file says. The run's folder (output) gets checkpoints, the log, the settings and, in its folder
model, the trained model. A run that was interrupted goes on from its last checkpoint with --resume."""
EPILOG = """examples:
  graphdoc finetune classify --config configs/finetune/own_labels.yaml corpus.source=letters.csv
  graphdoc finetune classify --config configs/finetune/own_labels.yaml corpus.source=letters.csv --resume
  graphdoc finetune classify --config configs/finetune/own_labels.yaml corpus.source=classes/ corpus.label_from=folder
  torchrun --nproc-per-node 8 finetune/classify.py --config configs/finetune/newsgroups20.yaml
"""

add_arguments = add_training_arguments


def run(options: argparse.Namespace) -> int:
    """Train, say where the model is, and give the exit status."""
    from ..settings.classify import ClassificationSettings

    settings = settings_of(ClassificationSettings, options)
    if settings is None:
        return 0
    from ..recipes.classify import train_classifier

    return train(train_classifier, settings, options, "graphdoc predict DOCUMENTS --model MODEL")
