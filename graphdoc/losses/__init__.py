"""Losses over vectors, one file each and one contract; they know nothing of models."""

from __future__ import annotations

from .clustering import ClusterTerms, PairedSentences, SubtopicLoss, assignment
from .contract import Loss, LossOutput
from .cross_entropy import ClassificationLoss, balanced_weights
from .gathering import ONE_PROCESS, AllProcesses, Gather
from .info_nce import InfoNCE
from .masked_tokens import MaskedTokens
from .pair_contrast import PairContrast
from .pair_cosine import PairCosine
from .sub_documents import SubDocumentContrast
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
