"""The graph with nodes for sections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .kind import GraphKind, Integers, count_within_sections, pairs_within_sections, section_starts, star


@dataclass(frozen=True)
class HierarchicalGraph(GraphKind):
    """Passages of a section with each other and with their section's node; section nodes with the document node."""

    description: ClassVar[str] = "section nodes between the document node and the passages of a section, all connected"

    def pairs(self, section_of: Integers) -> Integers:
        """Pairs within sections, passages with their section's node, and section nodes with the document node."""
        count, starts = len(section_of), section_starts(section_of)
        nodes = np.arange(len(starts), dtype=np.int64) + count + 1
        by_number = np.argsort(section_of[starts])
        rank = by_number[np.searchsorted(section_of[starts], section_of, sorter=by_number)]
        membership = np.stack([nodes[rank], np.arange(1, count + 1, dtype=np.int64)])
        return np.concatenate([pairs_within_sections(section_of), membership, star(0, nodes)], axis=1)

    def count(self, section_of: Integers) -> int:
        """Pairs within sections, one for each passage and one for each section."""
        return count_within_sections(section_of) + len(section_of) + len(section_starts(section_of))

    def section_nodes(self, section_of: Integers) -> Integers:
        """One node for every section that has passages, in reading order."""
        return section_of[section_starts(section_of)]
