"""Sub-documents: two views of one document that share no passage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, get_args

import numpy as np

from ..settings.sub_documents import Split
from .draws import Rows, random_generator

SPLITS: tuple[str, ...] = get_args(Split)

FIRST_PASSAGE_PROBABILITY = 0.5


class DocumentSplit(Protocol):
    """Splits documents into two views; it goes to the processes that load batches, so that it can be pickled."""

    @property
    def has_queries(self) -> bool:
        """Whether anchors are single passages, which are encoded as queries are."""
        ...

    def draw(self, id: str, epoch: int, passages: int) -> tuple[Rows, Rows]:
        """Split a document, by its id, the epoch and a seed alone, so that a run can be repeated and gone on with.

        Args:
            id: id of the document.
            epoch: number of the epoch; -1 for documents that are measured.
            passages: number of its passages, at least 2.

        Returns:
            Passages of the anchor and of the candidate, one or more each.
        """
        ...


@dataclass(frozen=True, slots=True)
class SubDocuments:
    """Splits documents into two sub-documents, anew in every epoch.

    What is drawn depends on the seed, the epoch and the document's id alone: not on the order of documents, on other
    draws or on the process that draws.

    Args:
        split: ``half`` puts a random half of the passages into the anchor and the others into the candidate
            (Graph-RoBERTa, eq. 4 and section 3.2). ``one_passage`` takes one passage as the anchor, the first with
            probability 0.5 and else any with equal probability, and the others as the candidate (section 3.3).
        seed: seed of the run.

    Raises:
        ValueError: the split is unknown.
    """

    split: Split = "half"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ValueError(f"split {self.split!r} is unknown; use one of {', '.join(SPLITS)}")

    @property
    def has_queries(self) -> bool:
        """Whether anchors are single passages, which are encoded as queries are."""
        return self.split == "one_passage"

    def draw(self, id: str, epoch: int, passages: int) -> tuple[Rows, Rows]:
        """Split a document.

        Args:
            id: id of the document.
            epoch: number of the epoch.
            passages: number of its passages, at least 2.

        Returns:
            Passages of the anchor and of the candidate, each in reading order; every passage is in exactly one.

        Raises:
            ValueError: there is nothing to split.
        """
        if passages < 2:
            raise ValueError(f"document {id!r} has {passages} passages and cannot be split; it takes 2 or more")
        draw = random_generator(self.seed, epoch, id)
        if self.split == "half":
            order = draw.permutation(passages)
            return np.sort(order[: passages // 2]), np.sort(order[passages // 2 :])
        first = draw.random() < FIRST_PASSAGE_PROBABILITY
        chosen = 0 if first else int(draw.integers(passages))
        everything = np.arange(passages, dtype=np.int64)
        return everything[chosen : chosen + 1], np.delete(everything, chosen)
