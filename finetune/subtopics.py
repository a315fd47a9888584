"""Train a model to find the subtopics of pairs of documents (SST, section 3.2).

    torchrun --nproc-per-node 2 finetune/subtopics.py --config subtopics training.epochs=3

Takes the arguments of ``graphdoc finetune subtopics`` and does the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc import Trainer
from graphdoc.cli import main
from graphdoc.losses import SubtopicLoss
from graphdoc.sampling import SubtopicPairs
from graphdoc.settings.finetuning import SubtopicRunSettings


def train_subtopics(settings: SubtopicRunSettings, *, resume: bool = False, **options: Any) -> Path:
    """Find clusters of connected sentences, over which the documents of similar pairs are spread alike."""
    subtopics = settings.subtopics
    task = SubtopicPairs(settings.corpus, settings.pairs.file, subtopics.cluster_size, subtopics.neighbours)
    loss = SubtopicLoss(**settings.loss.as_values())
    return Trainer(settings.model.start, task, loss, settings=settings, **options).train(resume)


if __name__ == "__main__":
    sys.exit(main(["finetune", "subtopics", *sys.argv[1:]], train=train_subtopics))
