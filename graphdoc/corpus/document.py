"""A document as training sees it: its passages as token ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..documents.document import Document, Label
from ..runtime.text import one_line
from ..segmentation.spans import Coverage, PassageArrays, SegmentedDocument

# Field of a document that names the part of the corpus that it belongs to.
SPLIT = "split"
# What it may say, in capitals or not.
VALIDATION_SPLITS, TEST_SPLITS = ("dev", "validation", "valid", "val"), ("test",)
TRAIN_SPLITS = (None, "", "train", "training")


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
