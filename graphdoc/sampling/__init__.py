"""How training examples are drawn from documents, and how documents are put into groups and batches."""

from __future__ import annotations

from .batches import BalancedPairBatches, DocumentBatches, EpochBatches, PairBatches, Place
from .class_balanced import ClassBalancedBatches
from .groups import GroupLabels, GroupReport, groups_of_labels, groups_of_pairs
from .negatives import NegativeDraws, RowLists
from .sub_documents import (
    SECTION_POSITIONS,
    SPLIT_RULES,
    SPLITS,
    DocumentSections,
    DocumentSplit,
    SectionSplit,
    SubDocumentSplit,
)
from .tasks import Classes, Groups, PairViews, Queries, SentencePairs, SubDocuments, SubtopicPairs, Task

__all__ = [
    "SECTION_POSITIONS",
    "SPLITS",
    "SPLIT_RULES",
    "BalancedPairBatches",
    "ClassBalancedBatches",
    "Classes",
    "DocumentBatches",
    "DocumentSections",
    "DocumentSplit",
    "EpochBatches",
    "GroupLabels",
    "GroupReport",
    "Groups",
    "NegativeDraws",
    "PairBatches",
    "PairViews",
    "Place",
    "Queries",
    "RowLists",
    "SectionSplit",
    "SentencePairs",
    "SubDocumentSplit",
    "SubDocuments",
    "SubtopicPairs",
    "Task",
    "groups_of_labels",
    "groups_of_pairs",
]
