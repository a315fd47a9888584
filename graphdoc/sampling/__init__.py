"""How training examples are drawn from documents, and how documents are put into groups and batches."""

from __future__ import annotations

from .balanced_pairs import BalancedPairBatches
from .class_balanced import ClassBalancedBatches
from .document_sections import SECTION_POSITIONS, SPLIT_RULES, DocumentSections, SectionSplit
from .epoch_batches import DocumentBatches, EpochBatches, Place
from .group_labels import GroupLabels, GroupReport, groups_of_labels, groups_of_links, groups_of_pairs
from .negative_draws import NegativeDraws, RowLists
from .pair_batches import PairBatches
from .sub_documents import SPLITS, DocumentSplit, SubDocuments

__all__ = [
    "SECTION_POSITIONS",
    "SPLITS",
    "SPLIT_RULES",
    "BalancedPairBatches",
    "ClassBalancedBatches",
    "DocumentBatches",
    "DocumentSections",
    "DocumentSplit",
    "EpochBatches",
    "GroupLabels",
    "GroupReport",
    "NegativeDraws",
    "PairBatches",
    "Place",
    "RowLists",
    "SectionSplit",
    "SubDocuments",
    "groups_of_labels",
    "groups_of_links",
    "groups_of_pairs",
]
