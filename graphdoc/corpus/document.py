"""A document as training sees it, its passages as token ids, and what was read, kept and left out of a corpus."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..documents.document import Document, Label
from ..documents.readers import ReadingReport, Skipped
from ..runtime.text import counted, one_line
from ..segmentation.spans import Coverage, PassageArrays, SegmentedDocument
from ..settings.document import Unit

# Field of a document that names the part of the corpus that it belongs to.
SPLIT = "split"
# What it may say, in capitals or not.
VALIDATION_SPLITS, TEST_SPLITS = ("dev", "validation", "valid", "val"), ("test",)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingDocument:
    """A document cut into passages and tokenised, without its text.

    Args:
        id: name of the document.
        group: hash of its text; exact copies share it, so that they are not taken for negatives of each other.
        sections: section of every passage, ``(passages,)``.
        token_ids: token ids of every passage, special tokens included; each ``(tokens,)``.
    """

    id: str
    group: int
    sections: npt.NDArray[np.int64]
    token_ids: tuple[npt.NDArray[np.int32], ...]

    @classmethod
    def of(cls, id: str, group: int, passages: PassageArrays) -> TrainingDocument:
        """The document that some passages make."""
        return cls(id, group, passages.sections.astype(np.int64), passages.tokens)

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, eq=False)
class TokenisedDocument:
    """A document of a corpus while it is made: its passages, and what is kept beside them.

    Args:
        id: name of the document.
        group: hash of its text.
        passages: its passages.
        coverage: how much of it the passages hold, and what was left out.
        label: class or group, if known.
        split: the part of the corpus that its field ``split`` names, if any.
        paragraphs: ``(sentences,)``, paragraph of every sentence; None for a document that is not cut into sentences.
    """

    id: str
    group: int
    passages: PassageArrays
    coverage: Coverage
    label: Label = None
    split: str | None = None
    paragraphs: npt.NDArray[np.int32] | None = None

    @classmethod
    def of(
        cls, segmented: SegmentedDocument, group: int, paragraphs: npt.NDArray[np.integer[Any]] | None = None
    ) -> TokenisedDocument:
        """Pack a segmented document, and the paragraph of each of its sentences."""
        document = segmented.document
        return cls(
            document.id,
            group,
            PassageArrays.of(segmented),
            segmented.coverage,
            document.label,
            split_of(document),
            None if paragraphs is None else np.asarray(paragraphs, np.int32),
        )

    def unpacked(self) -> TrainingDocument:
        """The document as training sees it."""
        return TrainingDocument.of(self.id, self.group, self.passages)


def split_of(document: Document) -> str | None:
    """The part of a corpus that a document's field ``split`` names."""
    value = document.metadata.get(SPLIT)
    return None if value is None else one_line(str(value))


def plain_split(name: str) -> str:
    """The name of a part without what does not matter: capitals, and white space around it."""
    return name.strip().lower()


def text_hash(document: Document) -> int:
    """Hash of a document's text as a signed number of 8 bytes; ids, titles and headings do not count."""
    digest = hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def values_hash(values: Iterable[object]) -> str:
    """Hash of strings, numbers and tuples of them, by which labels or pairs are known again."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        digest.update(json.dumps(value).encode("ascii") + b"\n")
    return digest.hexdigest()


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
