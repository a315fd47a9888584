"""What a run left out, over all its documents, said once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from .segmentation import SegmentedDocument

logger = logging.getLogger("graphdoc")


class LeftOut:
    """Counts what was not encoded.

    Args:
        documents: documents to start with.
    """

    def __init__(self, documents: Sequence[SegmentedDocument] = ()) -> None:
        self.documents = 0
        self.affected = 0
        self.characters: Counter[str] = Counter()
        self.add(documents)

    def add(self, documents: Sequence[SegmentedDocument]) -> None:
        """Count more documents."""
        for document in documents:
            self.documents += 1
            self.affected += bool(document.coverage.left_out)
            self.characters.update(document.coverage.left_out)

    def report(self) -> None:
        """Log one warning if anything was left out."""
        if self.affected:
            reasons = ", ".join(f"{count:,} characters: {reason}" for reason, count in self.characters.items())
            logger.warning(
                "%d of %d documents were not encoded whole (%s); max_passages=None encodes all passages",
                self.affected,
                self.documents,
                reasons,
            )
