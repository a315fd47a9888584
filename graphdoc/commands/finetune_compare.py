"""graphdoc finetune compare: train a model that tells documents that belong together from others."""

from __future__ import annotations

import argparse

from .training_run import add_training_arguments, settings_of, train

NAME = "compare"
HELP = "train a model to compare documents, on groups or pairs of them"
DESCRIPTION = """Train a model whose document vectors are close for documents that belong together. Documents are split
into sections, and all sections of one group are drawn together and apart from those of others (CoLDE).

Which documents belong together is said by a column of labels (groups.by=label), by a file of pairs (groups.by=pairs:
two ids and 1 or 0 in a line, with tabs between) or by a file of links such as citations (groups.by=links: two ids in a
line); groups.file names the file. With loss.kind=cosine the model is trained on the labelled pairs themselves.

validation.pairs names pairs that the model is measured on while it is trained and that tell the best checkpoint.
Documents whose field split is in corpus.leave_out_splits are not trained on; list dev and test there.

All settings are in a YAML file; configs/finetune/ holds recipes to start from. What follows the options as key=value
replaces what the file says. The run's folder (output) gets checkpoints, the log, the settings and, in its folder
model, the trained model. A run that was interrupted goes on from its last checkpoint with --resume."""
EPILOG = """examples:
  graphdoc finetune compare --config configs/finetune/own_pairs.yaml corpus.source=letters/ groups.file=pairs.tsv
  graphdoc finetune compare --config configs/finetune/graph_compare.yaml corpus.source=papers.jsonl.gz --resume
  graphdoc finetune compare --config configs/finetune/graph_compare.yaml groups.by=label groups.file=null
  torchrun --nproc-per-node 8 finetune/compare.py --config configs/finetune/colde.yaml
"""

add_arguments = add_training_arguments


def run(options: argparse.Namespace) -> int:
    """Train, say where the model is, and give the exit status."""
    from ..settings.compare import ComparisonSettings

    settings = settings_of(ComparisonSettings, options)
    if settings is None:
        return 0
    from ..recipes.compare import train_comparison

    return train(train_comparison, settings, options, "graphdoc compare A B --model MODEL")
