"""How training examples are drawn from documents, and how documents are put into groups and batches."""

from __future__ import annotations

from .batches import BalancedPairBatches, ClassBalancedBatches, DocumentBatches, EpochBatches, EpochRow
from .groups import GroupLabels, groups_of_labels, groups_of_pairs
from .negatives import NegativeSampler, RowLists
from .sub_documents import DocumentSections, SectionSplit, SubDocumentSplit
from .tasks import Classes, Groups, PairViews, Queries, SentencePairs, SubDocuments, SubtopicPairs, Task

__all__ = [
    "BalancedPairBatches",
    "ClassBalancedBatches",
    "Classes",
    "DocumentBatches",
    "DocumentSections",
    "EpochBatches",
    "EpochRow",
    "GroupLabels",
    "Groups",
    "NegativeSampler",
    "PairViews",
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
