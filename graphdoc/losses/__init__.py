"""Losses over vectors; they know nothing of models."""

from __future__ import annotations

from .cross_entropy import ClassificationLoss, balanced_weights
from .gathering import gather_rows
from .info_nce import InfoNCE
from .outputs import ContrastiveLoss, LossOutput
from .pair_cosine import PairCosine
from .supervised_contrastive import SupervisedContrastive

__all__ = [
    "ClassificationLoss",
    "ContrastiveLoss",
    "InfoNCE",
    "LossOutput",
    "PairCosine",
    "SupervisedContrastive",
    "balanced_weights",
    "gather_rows",
]
