"""Losses over vectors under one contract; they know nothing of models."""

from __future__ import annotations

from .base import Gather, Loss, LossOutput
from .classification import ClassificationLoss, MaskedTokenLoss
from .clustering import SubtopicLoss
from .contrastive import InfoNCELoss, SupervisedContrastiveLoss
from .pair import PairCosineLoss

# What extends one of them is taken for it; all others are of users.
OWN_LOSSES = ClassificationLoss, InfoNCELoss, MaskedTokenLoss, PairCosineLoss, SubtopicLoss, SupervisedContrastiveLoss

__all__ = [
    "ClassificationLoss",
    "Gather",
    "InfoNCELoss",
    "Loss",
    "LossOutput",
    "MaskedTokenLoss",
    "PairCosineLoss",
    "SubtopicLoss",
    "SupervisedContrastiveLoss",
]
