"""What was read, kept and left out of a training corpus."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..documents.readers import ReadingReport, Skipped
from ..runtime.text import counted, one_line
from ..segmentation.spans import Coverage
from ..settings.document import Unit

logger = logging.getLogger("graphdoc")

_NAMED = 10


@dataclass(slots=True)
class CorpusReport:
    """What became of the documents of a corpus: those read were kept, too short, or copies.

    Args:
        documents: documents read.
        kept: documents to train on.
        too_short: documents skipped because they have fewer passages than ``least_passages``.
        splits_left_out: number of documents left out by their field ``split`` (``leave_out_splits``), by split.
        duplicates: documents left out because an earlier one has exactly their text.
        sections_left_out: number of sections left out by heading (``leave_out_sections``).
        errors: documents, rows and files that could not be read.
        first_errors: the first of them.
        ignored: files and folders inside folders that were passed over, such as files of unknown types.
        documents_cut: kept documents that lost passages to ``max_passages``.
        coverage: what of the kept documents became passages, and what was left out by reason.
        unit: what passages are: ``passage``, ``chunk`` or ``sentence``.
    """

    documents: int = 0
    kept: int = 0
    too_short: int = 0
    splits_left_out: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    sections_left_out: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    first_errors: list[Skipped] = field(default_factory=list)
    ignored: int = 0
    documents_cut: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    unit: Unit = "passage"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CorpusReport:
        """The report that :meth:`to_dict` wrote."""
        return cls(
            **{
                **values,
                "first_errors": [Skipped(**entry) for entry in values["first_errors"]],
                "coverage": Coverage.from_dict(values["coverage"]),
            }
        )

    @property
    def passages(self) -> int:
        """Passages of the kept documents."""
        return self.coverage.encoded_passages

    @property
    def passages_cut(self) -> int:
        """Passages of the kept documents beyond ``max_passages``."""
        return self.coverage.passages - self.coverage.encoded_passages

    @property
    def tokens(self) -> int:
        """Tokens of the kept passages, special tokens not counted."""
        return self.coverage.encoded_tokens

    def keep(self, coverage: Coverage) -> None:
        """Count one more document to train on."""
        self.kept += 1
        self.documents_cut += coverage.passages > coverage.encoded_passages
        self.coverage += coverage

    def take_errors(self, reading: ReadingReport) -> None:
        """Take over what a reader has listed so far; its lists are emptied, so that they never grow long."""
        self.errors += len(reading.skipped)
        self.first_errors.extend(reading.skipped[: _NAMED - len(self.first_errors)])
        self.ignored += len(reading.ignored)
        reading.skipped.clear()
        reading.ignored.clear()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {**asdict(self), "coverage": self.coverage.to_dict()}

    def summary(self) -> str:
        """Everything in one line."""
        parts = [
            f"kept {self.kept:,} of {self.documents:,} documents with {self.passages:,} {self.unit}s "
            f"and {self.tokens:,} tokens"
        ]
        if self.too_short:
            parts.append(f"skipped {counted(self.too_short, 'document')} of too few {self.unit}s")
        if self.splits_left_out:
            counts = ", ".join(f"{count:,} {split}" for split, count in self.splits_left_out.items())
            parts.append(f"left out {sum(self.splits_left_out.values()):,} by their split ({counts})")
        if self.duplicates:
            parts.append(f"left out {self.duplicates:,} exact {'copy' if self.duplicates == 1 else 'copies'}")
        if self.sections_left_out:
            counts = ", ".join(f"{count:,} {heading}" for heading, count in self.sections_left_out.items())
            parts.append(f"left out sections by their headings ({counts})")
        if self.passages_cut:
            parts.append(
                f"cut {self.passages_cut:,} {self.unit}s of {self.documents_cut:,} documents over max_passages"
            )
        if self.errors:
            first = self.first_errors[0]
            parts.append(f"could not read {self.errors:,} (the first is {first.source}: {first.reason})")
        if self.ignored:
            parts.append(f"passed over {self.ignored:,} files")
        return "; ".join(parts)

    def log(self, name: str) -> None:
        """Log the summary, as a warning where anything was left out."""
        left_out = self.too_short or self.duplicates or self.errors or self.ignored or self.passages_cut
        logger.log(logging.WARNING if left_out else logging.INFO, "%s", one_line(f"{name}: {self.summary()}"))
