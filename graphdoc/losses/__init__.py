"""Losses over vectors, one file each and one contract; they know nothing of models."""

from __future__ import annotations

from .classification import ClassificationLoss, MaskedTokens, balanced_weights
from .clustering import ClusterTerms, PairedSentences, SubtopicLoss, assignment
from .contrastive import InfoNCE, SubDocumentContrast
from .gathering import ONE_PROCESS, AllProcesses, Gather, Loss, LossOutput
from .pair import PairContrast, PairCosine
from .supervised_contrastive import SupervisedContrastive

__all__ = [
    "ONE_PROCESS",
    "AllProcesses",
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
