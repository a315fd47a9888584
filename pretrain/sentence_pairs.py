"""Train on sentence pairs (SDR, section 3.2).

    torchrun --nproc-per-node 8 pretrain/sentence_pairs.py --config sdr training.epochs=3

Takes the arguments of ``graphdoc pretrain`` and does the same with ``recipe: sentence_pairs``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc import Trainer
from graphdoc.cli import main
from graphdoc.losses import InfoNCELoss, MaskedTokenLoss, PairCosineLoss
from graphdoc.sampling import SentencePairs
from graphdoc.settings.pretraining import SentencePairSettings


def pretrain(settings: SentencePairSettings, *, resume: bool = False, **options: Any) -> Path:
    """Draw sentences of one paragraph together, keep those of two documents apart, and guess masked tokens."""
    loss = settings.loss
    task = SentencePairs(settings.corpus, settings.pairs_per_epoch, loss.contrast_on)
    in_batch = InfoNCELoss("cosine", loss.temperature, "both")
    contrast = {"sampled": PairCosineLoss(1 - loss.margin), "in_batch": in_batch}[loss.negatives]
    losses = [contrast, MaskedTokenLoss(loss.mlm_weight)]
    return Trainer(settings.model.start, task, losses, settings=settings, **options).train(resume)


if __name__ == "__main__":
    sys.exit(main(["pretrain", *sys.argv[1:], "recipe=sentence_pairs"], train=pretrain))
