"""Train a model to match pairs of long documents, view by view (SST, section 3.4).

    torchrun --nproc-per-node 8 finetune/views.py --config sst_cnse training.epochs=3

Takes the arguments of ``graphdoc finetune views`` and does the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc import Trainer
from graphdoc.cli import main
from graphdoc.losses import ClassificationLoss, InfoNCELoss, PairCosineLoss
from graphdoc.sampling import PairViews
from graphdoc.settings.finetuning import ViewRunSettings


def train_views(settings: ViewRunSettings, *, resume: bool = False, **options: Any) -> Path:
    """Tell by views of both documents whether a pair matches, another view in every epoch."""
    task = PairViews(settings.corpus, settings.pairs.file, settings.views.given_values())
    losses = {
        "cross_entropy": ClassificationLoss(),
        "cosine": PairCosineLoss(settings.loss.margin),
        "contrast": InfoNCELoss("cosine", settings.loss.temperature),
    }
    loss = losses[settings.loss.kind]
    return Trainer(settings.model.start, task, loss, settings=settings, **options).train(resume)


if __name__ == "__main__":
    sys.exit(main(["finetune", "views", *sys.argv[1:]], train=train_views))
