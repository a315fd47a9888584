"""A document as training sees it, how documents are cut and tokenized, and what was left out of a corpus."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ..documents.document import Document, Label
from ..documents.readers import ReadingReport, Skipped
from ..evaluation.labels import split_of
from ..inference.segmenting import in_blocks
from ..runtime.text import counted, one_line
from ..runtime.workers import work_ahead
from ..segmentation.segmenter import Segmenter, paragraphs_of
from ..segmentation.spans import Coverage, PassageArrays
from ..settings.document import Paragraph, Unit

logger = logging.getLogger("graphdoc")

# Values of the field ``split`` that name the usual parts of a corpus which are not trained on.
VALIDATION_SPLITS, TEST_SPLITS = ("dev", "validation", "valid", "val"), ("test",)
# Documents that are tokenized in one call: they travel to a worker process together.
BLOCK_DOCUMENTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class TrainingDocument:
    """A document cut into passages and tokenized, without its text.

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
    def from_passages(cls, id: str, group: int, passages: PassageArrays) -> TrainingDocument:
        """The document that some passages make."""
        return cls(id, group, passages.sections.astype(np.int64), passages.tokens)

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, eq=False)
class TokenizedDocument:
    """A document of a corpus while it is made.

    Args:
        id: name of the document.
        group: hash of its text.
        label: class or group, if known.
        split: the part of the corpus that its field ``split`` names, if any.
        passages: its passages.
        coverage: how much of it the passages hold, and what was left out.
        paragraphs: ``(sentences,)``, paragraph of every sentence; None for a document that is not cut into sentences.
    """

    id: str
    group: int
    label: Label
    split: str | None
    passages: PassageArrays
    coverage: Coverage
    paragraphs: npt.NDArray[np.int32] | None


def tokenize_in_order(
    documents: Iterable[tuple[int, Document]], segmenter: Segmenter, processes: int, paragraph: Paragraph | None = None
) -> Iterator[TokenizedDocument]:
    """Cut and tokenize documents, each with the hash of its text; they are read a few blocks ahead.

    What comes out does not depend on the number of processes; with one, or for a single block, it is done here.
    """
    # Metadata stays here: only what is tokenized and kept has to travel.
    texts = ((group, split_of(document), replace(document, metadata={})) for group, document in documents)
    blocks = in_blocks(texts, BLOCK_DOCUMENTS)
    opening = list(islice(blocks, 2))
    workers = processes if processes > 1 and len(opening) > 1 else 0
    shared = segmenter, paragraph
    for tokenized in work_ahead(_tokenize, shared, chain(opening, blocks), workers, setting="preparing_processes"):
        yield from tokenized


def _tokenize(
    shared: tuple[Segmenter, Paragraph | None], block: list[tuple[int, str | None, Document]]
) -> list[TokenizedDocument]:
    segmenter, paragraph = shared
    tokenized = []
    segmented_documents = segmenter.segment_many(document for _, _, document in block)
    for (group, split, document), segmented in zip(block, segmented_documents, strict=True):
        paragraphs = None if paragraph is None else paragraphs_of(segmented, paragraph, segmenter)
        passages = PassageArrays.from_segmented(segmented)
        tokenized.append(
            TokenizedDocument(document.id, group, document.label, split, passages, segmented.coverage, paragraphs)
        )
    return tokenized


def text_fingerprint(document: Document) -> int:
    """Hash of a document's text as a signed 64-bit integer; ids, titles and headings do not count."""
    digest = hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def values_hash(values: Iterable[object]) -> str:
    """Hash of strings, numbers and tuples of them, by which labels or pairs are known again."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        digest.update(json.dumps(value).encode("ascii") + b"\n")
    return digest.hexdigest()


# Errors that are named; the rest is counted.
_NAMED = 10


@dataclass(slots=True)
class CorpusReport:
    """Counts of the documents of a corpus that were read, kept and left out.

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
        errors = [Skipped(**entry) for entry in values["first_errors"]]
        return cls(**{**values, "first_errors": errors, "coverage": Coverage.from_dict(values["coverage"])})

    @property
    def passages(self) -> int:
        """Passages of the kept documents."""
        return self.coverage.encoded_passages

    @property
    def passages_cut(self) -> int:
        """Passages of the kept documents beyond ``max_passages``."""
        return self.coverage.passages - self.coverage.encoded_passages

    def take(self, document: TokenizedDocument, least_passages: int) -> bool:
        """Count a document, and say whether it has enough passages to train on."""
        coverage = document.coverage
        if len(document.passages) < least_passages:
            self.too_short += 1
            return False
        self.kept += 1
        self.documents_cut += coverage.passages > coverage.encoded_passages
        self.coverage += coverage
        return True

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

        def listed(counts: Mapping[str, int]) -> str:
            return ", ".join(f"{count:,} {name}" for name, count in counts.items())

        unit, coverage = self.unit, self.coverage
        cut = f"{counted(self.passages_cut, unit)} of {counted(self.documents_cut, 'document')}"
        first = self.first_errors[0] if self.first_errors else None
        parts = {
            f"kept {self.kept:,} of {counted(self.documents, 'document')} with {counted(self.passages, unit)} and "
            f"{counted(coverage.encoded_tokens, 'token')}": True,
            f"skipped {counted(self.too_short, 'document')} of too few {unit}s": self.too_short,
            f"left out by their split: {listed(self.splits_left_out)}": self.splits_left_out,
            f"left out {counted(self.duplicates, 'document')} that an earlier one has the text of": self.duplicates,
            f"left out sections by their headings: {listed(self.sections_left_out)}": self.sections_left_out,
            f"cut {cut} over max_passages": self.passages_cut,
            f"could not read {self.errors:,}"
            + (f" (the first is {first.source}: {first.reason})" if first else ""): self.errors,
            f"passed over {counted(self.ignored, 'file')}": self.ignored,
        }
        return "; ".join(part for part, is_there in parts.items() if is_there)

    def log(self, name: str) -> None:
        """Log the summary."""
        logger.info("%s", one_line(f"{name}: {self.summary()}"))
