"""How training examples are drawn from documents, and how documents are put into batches."""

from __future__ import annotations

from .class_balanced import ClassBalancedBatches
from .document_sections import SECTION_POSITIONS, SPLIT_RULES, DocumentSections, SectionPositions, SectionSplit
from .epoch_batches import DocumentBatches, EpochBatches, Place
from .sub_documents import SPLITS, Split, SubDocuments

__all__ = [
    "SECTION_POSITIONS",
    "SPLITS",
    "SPLIT_RULES",
    "ClassBalancedBatches",
    "DocumentBatches",
    "DocumentSections",
    "EpochBatches",
    "Place",
    "SectionPositions",
    "SectionSplit",
    "Split",
    "SubDocuments",
]
