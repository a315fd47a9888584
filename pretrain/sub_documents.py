"""Pretrain on sub-documents (Graph-RoBERTa, sections 2.2 and 3.2-3.3).

    torchrun --nproc-per-node 8 pretrain/sub_documents.py --config graph_roberta training.epochs=3

Takes the arguments of ``graphdoc pretrain`` and does the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc import Trainer
from graphdoc.cli import main
from graphdoc.losses import InfoNCELoss
from graphdoc.sampling import SubDocuments
from graphdoc.settings.pretraining import SubDocumentSettings


def pretrain(settings: SubDocumentSettings, *, resume: bool = False, **options: Any) -> Path:
    """Let every sub-document look for the other one of its document among those of the batch."""
    task = SubDocuments(settings.corpus, split=settings.split)
    loss = InfoNCELoss(settings.loss.similarity, settings.loss.temperature, settings.loss.directions)
    return Trainer(settings.model.start, task, loss, settings=settings, **options).train(resume)


if __name__ == "__main__":
    sys.exit(main(["pretrain", *sys.argv[1:], "recipe=sub_documents"], train=pretrain))
