"""graphdoc pretrain: train a document model without labels."""

from __future__ import annotations

import argparse

from .training_run import add_training_arguments, settings_of, train

NAME = "pretrain"
HELP = "train a document model without labels"
DESCRIPTION = """Train a document model without labels, by telling the halves of a document from those of others.

All settings are in a YAML file; configs/pretrain/ holds recipes to start from. What follows the options as key=value
replaces what the file says. The run's folder (output) gets checkpoints, the log, the settings and, in its folder
model, the trained model for --model of all other commands.

A run that was interrupted goes on from its last checkpoint with --resume; it then ends as if nothing had been. Several
processes train together under accelerate launch or torchrun, with the same batches and the same result."""
EPILOG = """examples:
  graphdoc pretrain --config configs/pretrain/quickstart.yaml
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml corpus.source=papers/ output=runs/papers
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml corpus.source=papers/ output=runs/papers --resume
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml --print
  torchrun --nproc-per-node 8 pretrain/sub_documents.py --config configs/pretrain/graph_roberta.yaml
"""


add_arguments = add_training_arguments


def run(options: argparse.Namespace) -> int:
    """Train, say where the model is, and give the exit status."""
    from ..settings.sub_documents import PretrainingSettings

    settings = settings_of(PretrainingSettings, options)
    if settings is None:
        return 0
    from ..recipes.sub_documents import pretrain

    return train(pretrain, settings, options, "graphdoc encode DOCUMENTS --model MODEL")
