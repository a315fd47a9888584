"""Losses over vectors under one contract; they know nothing of models."""

from __future__ import annotations

from .base import ONE_PROCESS, Gather, Loss, LossOutput
from .classification import ClassificationLoss, MaskedTokenLoss, balanced_weights
from .clustering import ClusterTerms, PairedSentences, SubtopicLoss, assignment
from .contrastive import InfoNCELoss, SupervisedContrastiveLoss
from .pair import PairCosineLoss

__all__ = [
    "ONE_PROCESS",
    "ClassificationLoss",
    "ClusterTerms",
    "Gather",
    "InfoNCELoss",
    "Loss",
    "LossOutput",
    "MaskedTokenLoss",
    "PairCosineLoss",
    "PairedSentences",
    "SubtopicLoss",
    "SupervisedContrastiveLoss",
    "assignment",
    "balanced_weights",
]
