"""Train a classifier (Graph-RoBERTa, section 3.2).

    torchrun --nproc-per-node 8 finetune/classify.py --config newsgroups20 training.epochs=3

Takes the arguments of ``graphdoc finetune classify`` and does the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc import Trainer
from graphdoc.cli import main
from graphdoc.sampling import Classes
from graphdoc.settings.finetuning import ClassificationSettings


def train_classifier(settings: ClassificationSettings, *, resume: bool = False, **options: Any) -> Path:
    """Tell the classes of documents by cross entropy, of which the classes are known once documents are read."""
    task = Classes(settings.corpus, settings.labels.multi_label, settings.labels.class_weights)
    return Trainer(settings.model.start, task, settings=settings, **options).train(resume)


if __name__ == "__main__":
    sys.exit(main(["finetune", "classify", *sys.argv[1:]], train=train_classifier))
