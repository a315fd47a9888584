"""The section graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .kind import GraphKind, Integers, all_pairs, count_within_sections, pairs_within_sections, section_starts


@dataclass(frozen=True)
class SectionGraph(GraphKind):
    """Passages of a section with each other; the document node and the first passages of all sections with each other.

    Source: Graph-RoBERTa, section 3.3.
    """

    description: ClassVar[str] = (
        "passages of a section with each other, first passages with each other and with the document node"
    )

    def pairs(self, section_of: Integers) -> Integers:
        """Pairs within sections, and pairs of the document node and the first passages."""
        hubs = np.concatenate([np.zeros(1, np.int64), section_starts(section_of) + 1])
        return np.concatenate([pairs_within_sections(section_of), all_pairs(hubs)], axis=1)

    def count(self, section_of: Integers) -> int:
        """Both kinds of pairs; a pair of first passages is in two sections, so that none is counted twice."""
        sections = len(section_starts(section_of))
        return count_within_sections(section_of) + sections * (sections + 1) // 2
