"""The full graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .kind import GraphKind, Integers, all_pairs


@dataclass(frozen=True)
class FullGraph(GraphKind):
    """Every pair of nodes is connected, the document node included (Graph-RoBERTa, section 3.1)."""

    description: ClassVar[str] = "every pair of nodes"

    def pairs(self, section_of: Integers) -> Integers:
        """All pairs of nodes."""
        return all_pairs(np.arange(len(section_of) + 1, dtype=np.int64))

    def count(self, section_of: Integers) -> int:
        """Pairs of n + 1 nodes."""
        return len(section_of) * (len(section_of) + 1) // 2
