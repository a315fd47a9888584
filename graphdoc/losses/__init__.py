"""Losses over vectors under one contract; they know nothing of models."""

from __future__ import annotations

from .base import Gather, Loss, LossOutput
from .classification import ClassificationLoss, MaskedTokenLoss
from .clustering import SubtopicLoss
from .contrastive import InfoNCELoss, SupervisedContrastiveLoss
from .pair import PairCosineLoss

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
