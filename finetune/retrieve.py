"""Train a model to find documents by queries (Graph-RoBERTa, section 3.3).

    torchrun --nproc-per-node 8 finetune/retrieve.py --config msmarco_doc training.epochs=3

Takes the arguments of ``graphdoc finetune retrieve`` and does the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc import Trainer
from graphdoc.cli import main
from graphdoc.losses import InfoNCELoss
from graphdoc.sampling import Queries
from graphdoc.settings.finetuning import RetrievalSettings


def train_retrieval(settings: RetrievalSettings, *, resume: bool = False, **options: Any) -> Path:
    """Separate the answers of a query from all other documents of the batch, and from further negatives."""
    queries = settings.queries
    task = Queries(settings.corpus, queries.source, queries.made_from, settings.negatives.per_query)
    loss = InfoNCELoss(settings.loss.similarity, settings.loss.temperature)
    return Trainer(settings.model.start, task, loss, settings=settings, **options).train(resume)


if __name__ == "__main__":
    sys.exit(main(["finetune", "retrieve", *sys.argv[1:]], train=train_retrieval))
