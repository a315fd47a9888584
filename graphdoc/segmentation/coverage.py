"""What of many documents was encoded and what was left out, added up and said once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..runtime.wording import counted
from .spans import Coverage

logger = logging.getLogger("graphdoc")


@dataclass(slots=True)
class CoverageTotals:
    """What of many documents was encoded and what was left out, in sums of :class:`~.spans.Coverage`.

    Args:
        documents: documents counted.
        documents_not_whole: those of which something was left out.
        left_out: characters left out by reason.
    """

    documents: int = 0
    documents_not_whole: int = 0
    characters: int = 0
    encoded_characters: int = 0
    tokens: int = 0
    encoded_tokens: int = 0
    passages: int = 0
    encoded_passages: int = 0
    split_sentences: int = 0
    empty_sections: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CoverageTotals:
        """The totals that :meth:`to_dict` wrote."""
        return cls(**{**values, "left_out": Counter(values["left_out"])})

    def add(self, coverage: Coverage) -> None:
        """Count one more document."""
        self.documents += 1
        self.documents_not_whole += bool(coverage.left_out)
        self.left_out.update(coverage.left_out)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(coverage, name))

    def merge(self, other: CoverageTotals) -> None:
        """Count the documents of other totals too."""
        self.documents += other.documents
        self.documents_not_whole += other.documents_not_whole
        self.left_out.update(other.left_out)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, reasons in alphabetical order."""
        return {**asdict(self), "left_out": dict(sorted(self.left_out.items()))}

    def warn(self, name: str | None = None) -> None:
        """Log one warning if anything was left out.

        Args:
            name: id of the document, where it is one.
        """
        if self.documents_not_whole:
            which = f"{self.documents_not_whole:,} of {counted(self.documents, 'document')}"
            logger.warning(
                "%s %s not encoded whole (%s); max_passages=None (--max-passages all) encodes all passages",
                which if name is None else f"document {name!r}",
                "was" if self.documents_not_whole == 1 else "were",
                ", ".join(
                    f"{counted(count, 'character')}: {reason}" for reason, count in sorted(self.left_out.items())
                ),
            )


_SUMS = tuple(
    entry.name
    for entry in fields(CoverageTotals)
    if entry.name not in ("documents", "documents_not_whole", "left_out")
)
