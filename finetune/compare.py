"""Train a model to compare documents, by supervised contrast of their sections (CoLDE, section 3).

    torchrun --nproc-per-node 8 finetune/compare.py --config colde training.epochs=3

Takes the arguments of ``graphdoc finetune compare`` and does the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc import Trainer
from graphdoc.cli import main
from graphdoc.losses import PairCosineLoss, SupervisedContrastiveLoss
from graphdoc.sampling import Groups
from graphdoc.settings.finetuning import ComparisonSettings


def train_comparison(settings: ComparisonSettings, *, resume: bool = False, **options: Any) -> Path:
    """Draw sections of one group together, and apart from others; or documents of a pair, or not."""
    groups, loss = settings.groups, settings.loss
    pairs = groups.file if groups.by == "pairs" else None
    task = Groups(settings.corpus, pairs, groups.star_size, settings.sections.number)
    losses = {"contrastive": SupervisedContrastiveLoss(loss.temperature), "cosine": PairCosineLoss(loss.margin)}
    return Trainer(settings.model.start, task, losses[loss.kind], settings=settings, **options).train(resume)


if __name__ == "__main__":
    sys.exit(main(["finetune", "compare", *sys.argv[1:]], train=train_comparison))
