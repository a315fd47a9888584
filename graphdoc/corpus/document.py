"""A document as training sees it, how documents are cut and tokenised, and what was left out of a corpus."""

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
from ..runtime.text import counted, one_line
from ..runtime.workers import work_ahead
from ..segmentation.segmenter import Segmenter, paragraph_numbers
from ..segmentation.spans import Coverage, PassageArrays
from ..settings.document import Paragraph, Unit

logger = logging.getLogger("graphdoc")

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

    def unpacked(self) -> TrainingDocument:
        """The document as training sees it."""
        return TrainingDocument.of(self.id, self.group, self.passages)


Block = list[tuple[int, Document]]

# Documents that travel to a process together: enough to tokenise them in one call, little to hold.
BLOCK_DOCUMENTS = 64
BLOCK_CHARACTERS = 2**20


def tokenise_in_order(
    documents: Iterable[tuple[int, Document]],
    segmenter: Segmenter,
    processes: int,
    paragraph: Paragraph | None = None,
) -> Iterator[TokenisedDocument]:
    """Cut and tokenise documents; what comes out does not depend on the number of processes.

    Args:
        documents: hash of the text, and document; read as they are needed, a few blocks ahead.
        segmenter: cuts and tokenises.
        processes: how many processes do so; with 1, or for a corpus of a single block, it is done here.
        paragraph: what a paragraph is, for documents that are cut into sentences; None for others.

    Yields:
        Every document, in the order in which they came.

    Raises:
        GraphdocError: one of the processes was ended from outside.
    """
    blocks = _blocks(documents)
    opening = list(islice(blocks, 2))
    workers = processes if processes > 1 and len(opening) > 1 else 0
    shared = segmenter, paragraph
    for tokenised in work_ahead(_tokenise, shared, chain(opening, blocks), workers, setting="preparing_processes"):
        yield from tokenised


def _blocks(documents: Iterable[tuple[int, Document]]) -> Iterator[Block]:
    block: Block = []
    characters = 0
    for group, document in documents:
        # Metadata stays here; only what is tokenised and kept beside it has to travel.
        split = {SPLIT: split_of(document)} if SPLIT in document.metadata else {}
        block.append((group, replace(document, metadata=split)))
        characters += sum(len(section.text) for section in document.sections)
        if len(block) >= BLOCK_DOCUMENTS or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _tokenise(shared: tuple[Segmenter, Paragraph | None], block: Block) -> list[TokenisedDocument]:
    segmenter, paragraph = shared
    tokenised = []
    segmented_documents = segmenter.segment_many(document for _, document in block)
    for (group, document), segmented in zip(block, segmented_documents, strict=True):
        paragraphs = None if paragraph is None else paragraph_numbers(segmented, paragraph, segmenter)
        passages, coverage, split = PassageArrays.of(segmented), segmented.coverage, split_of(document)
        tokenised.append(TokenisedDocument(document.id, group, passages, coverage, document.label, split, paragraphs))
    return tokenised


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


# Errors that are named; the rest is counted.
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

        def listed(counts: Mapping[str, int]) -> str:
            return ", ".join(f"{count:,} {name}" for name, count in counts.items())

        unit, first = self.unit, [f"{error.source}: {error.reason}" for error in self.first_errors[:1]]
        parts = [
            (
                self.documents,
                f"kept {self.kept:,} of {self.documents:,} documents with {self.passages:,} {unit}s and "
                f"{self.tokens:,} tokens",
            ),
            (self.too_short, f"skipped {counted(self.too_short, 'document')} of too few {unit}s"),
            (
                self.splits_left_out,
                f"left out {sum(self.splits_left_out.values()):,} by their split ({listed(self.splits_left_out)})",
            ),
            (self.duplicates, f"left out {counted(self.duplicates, 'document')} that an earlier one has the text of"),
            (self.sections_left_out, f"left out sections by their headings ({listed(self.sections_left_out)})"),
            (
                self.passages_cut,
                f"cut {self.passages_cut:,} {unit}s of {self.documents_cut:,} documents over max_passages",
            ),
            (self.errors, f"could not read {self.errors:,} (the first is {''.join(first)})"),
            (self.ignored, f"passed over {self.ignored:,} files"),
        ]
        return "; ".join(text for is_told, text in parts if is_told)

    def log(self, name: str) -> None:
        """Log the summary, as a warning where anything was left out."""
        left_out = self.too_short or self.duplicates or self.errors or self.ignored or self.passages_cut
        logger.log(logging.WARNING if left_out else logging.INFO, "%s", one_line(f"{name}: {self.summary()}"))
