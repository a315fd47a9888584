"""A document as training sees it: its passages as token ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..documents.document import Document, Label
from ..runtime.plain_text import one_line
from ..segmentation.coverage import Coverage
from ..segmentation.spans import SegmentedDocument

# Field of a document that names the part of the corpus that it belongs to.
SPLIT = "split"
# What it may say, in capitals or not.
VALIDATION_SPLITS, TEST_SPLITS = ("dev", "validation", "valid", "val"), ("test",)
TRAIN_SPLITS = (None, "", "train", "training")

Integers = npt.NDArray[np.int32]


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
    token_ids: tuple[Integers, ...]

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, eq=False)
class TokenisedDocument:
    """A document in few arrays, as processes pass it on and files hold it.

    Args:
        id: name of the document.
        group: hash of its text.
        sections: section of every passage, ``(passages,)``.
        lengths: tokens of every passage, special tokens included, ``(passages,)``.
        token_ids: token ids of all passages in a row, ``(tokens,)``.
        coverage: how much of it the passages hold, and what was left out.
        label: class or group, if known.
        split: the part of the corpus that its field ``split`` names, if any.
    """

    id: str
    group: int
    sections: Integers
    lengths: Integers
    token_ids: Integers
    coverage: Coverage
    label: Label = None
    split: str | None = None

    @classmethod
    def of(cls, segmented: SegmentedDocument, group: int) -> TokenisedDocument:
        """Pack a segmented document."""
        lengths = np.array([len(ids) for ids in segmented.token_ids], dtype=np.int32)
        return cls(
            segmented.document.id,
            group,
            np.array([passage.section for passage in segmented.passages], dtype=np.int32),
            lengths,
            np.fromiter((token for ids in segmented.token_ids for token in ids), np.int32, int(lengths.sum())),
            segmented.coverage,
            segmented.document.label,
            split_of(segmented.document),
        )

    def unpacked(self) -> TrainingDocument:
        """The document as training sees it."""
        return unpack(self.id, self.group, self.sections, np.cumsum(self.lengths), self.token_ids)


def unpack(
    id: str, group: int, sections: Integers, ends: npt.NDArray[np.integer], token_ids: Integers
) -> TrainingDocument:
    """Divide the tokens of a document among its passages.

    Args:
        id: name of the document.
        group: hash of its text.
        sections: section of every passage, ``(passages,)``.
        ends: where each passage ends among the tokens, ``(passages,)``.
        token_ids: token ids of all passages in a row, ``(tokens,)``.
    """
    passages = np.split(token_ids, ends[:-1]) if len(ends) else []
    return TrainingDocument(id, group, sections.astype(np.int64), tuple(passages))


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
