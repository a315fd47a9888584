"""How training examples are drawn from documents, and how documents are put into batches."""

from __future__ import annotations

from .class_balanced import ClassBalancedBatches
from .epoch_batches import DocumentBatches, EpochBatches, Place
from .sub_documents import SPLITS, Split, SubDocuments

__all__ = ["SPLITS", "ClassBalancedBatches", "DocumentBatches", "EpochBatches", "Place", "Split", "SubDocuments"]
