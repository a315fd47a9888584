"""The graph of neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...errors import SettingsError
from .kind import GraphKind, Integers, star


@dataclass(frozen=True)
class WindowGraph(GraphKind):
    """Passages that are near each other in reading order, and the document node with every passage.

    Args:
        window: how far apart passages may be.

    Raises:
        SettingsError: the window is not positive.
    """

    description: ClassVar[str] = "neighbours in reading order, and the document node with every passage"

    window: int = 2

    def __post_init__(self) -> None:
        if self.window < 1:
            raise SettingsError(f"window={self.window} must be at least 1")

    def pairs(self, section_of: Integers) -> Integers:
        """A star around the document node, and passages at every distance up to the window."""
        count = len(section_of)
        parts = [star(0, np.arange(1, count + 1, dtype=np.int64))]
        for distance in range(1, min(self.window, count - 1) + 1):
            left = np.arange(1, count + 1 - distance, dtype=np.int64)
            parts.append(np.stack([left, left + distance]))
        return np.concatenate(parts, axis=1)

    def count(self, section_of: Integers) -> int:
        """The star has n pairs, and distance d has n - d."""
        count = len(section_of)
        reach = min(self.window, max(count - 1, 0))
        return count + reach * count - reach * (reach + 1) // 2
