"""Losses over vectors under one contract; they know nothing of models."""

from __future__ import annotations

from .classification import ClassificationLoss, MaskedTokens, balanced_weights
from .clustering import ClusterTerms, PairedSentences, SubtopicLoss, assignment
from .contrastive import InfoNCE, SubDocumentContrast, SupervisedContrastive
from .gathering import ONE_PROCESS, Gather, Loss, LossOutput
from .pair import PairContrast, PairCosine

__all__ = [
    "ONE_PROCESS",
    "ClassificationLoss",
    "ClusterTerms",
    "Gather",
    "InfoNCE",
    "Loss",
    "LossOutput",
    "MaskedTokens",
    "PairContrast",
    "PairCosine",
    "PairedSentences",
    "SubDocumentContrast",
    "SubtopicLoss",
    "SupervisedContrastive",
    "assignment",
    "balanced_weights",
]
