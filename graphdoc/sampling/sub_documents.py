"""Documents split in parts: sub-documents that share no passage, and sections that contrastive training compares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..runtime.arrays import Rows
from ..settings.finetuning import SectionPositions, SplitRule
from ..settings.pretraining import Split
from .batches import random_generator

FIRST_PASSAGE_PROBABILITY = 0.5


@dataclass(frozen=True, slots=True)
class SubDocumentSplit:
    """Splits documents into two sub-documents, in every epoch by seed, epoch and the document's id alone.

    Args:
        split: ``half`` puts a random half of the passages into the anchor and the others into the candidate
            (Graph-RoBERTa, eq. 4 and section 3.2). ``one_passage`` takes one passage as the anchor, the first with
            probability 0.5 and else any with equal probability, and the others as the candidate (section 3.3).
        seed: seed of the run.
    """

    split: Split = "half"
    seed: int = 0

    def sample(self, id: str, epoch: int, passages: int) -> tuple[Rows, Rows]:
        """Split a document into passages of the anchor and of the candidate, each in reading order.

        The epoch is -1 for documents that are measured. Every passage is in one part; fewer than two are a ValueError.
        """
        if passages < 2:
            raise ValueError(f"document {id!r} has {passages} passages and cannot be split; it takes 2 or more")
        draw = random_generator(self.seed, epoch, id)
        if self.split == "half":
            order = draw.permutation(passages)
            return np.sort(order[: passages // 2]), np.sort(order[passages // 2 :])
        chosen = 0 if draw.random() < FIRST_PASSAGE_PROBABILITY else int(draw.integers(passages))
        everything = np.arange(passages, dtype=np.int64)
        return everything[chosen : chosen + 1], np.delete(everything, chosen)


@dataclass(frozen=True, slots=True, eq=False)
class SectionSplit:
    """The passages of a document in sections.

    Args:
        order: ``(passages,)``, which passage of the document stands at each place.
        section_ids: ``(passages,)``, section of the passage at each place, counted from 0.
        chunk_ids: ``(passages,)``, place of that passage in its section.
    """

    order: Rows
    section_ids: Rows
    chunk_ids: Rows

    def __len__(self) -> int:
        return int(self.section_ids.max()) + 1

    def permuted(self, permutation: Rows, positions: SectionPositions) -> SectionSplit:
        """The same sections in another order ``(sections,)``, with their passages as they are.

        With ``natural`` positions a section keeps its id; with ``shuffled`` ids count in the new order.
        """
        new_place = np.argsort(permutation)
        rows = np.argsort(new_place[self.section_ids], kind="stable")
        ids = self.section_ids[rows]
        return SectionSplit(self.order[rows], ids if positions == "natural" else new_place[ids], self.chunk_ids[rows])

    def limited(self, tokens: Rows, max_tokens: int) -> SectionSplit:
        """The beginnings of all sections (CoLDE, section 4.4.2), by the tokens of all passages of the document.

        A section has ``max_tokens`` tokens at most; its first passage is kept however long it is.
        """
        lengths = tokens[self.order]
        is_start = np.diff(self.section_ids, prepend=-1) != 0
        before = np.cumsum(lengths) - lengths
        used = before - before[is_start][np.cumsum(is_start) - 1] + lengths
        kept = (used <= max_tokens) | (self.chunk_ids == 0)
        return SectionSplit(self.order[kept], self.section_ids[kept], self.chunk_ids[kept])


@dataclass(frozen=True, slots=True)
class DocumentSections:
    """Splits documents into sections for supervised contrastive training (CoLDE, section 3.1).

    A document is cut between its own sections where it has several: neighbours are merged, so that no more than
    ``sections`` remain and their numbers of passages differ as little as possible (least sum of squares; ties go to
    the split whose last section begins first). A document without headings is cut between passages, into sections of
    equal length. A document with fewer passages, or sections, than requested is split into as many as it has.

    For the robustness test (CoLDE, section 4.4.3), where the sections of a text are shuffled before a model sees it,
    ``section_positions`` is what the model sees. With ``natural`` positions sections keep the ids that they have in
    reading order, and with them structural embeddings, the pairs of chunkwise attention and the order of the LSTM.
    With ``shuffled`` positions sections are counted as they stand, and the model sees another document. What is drawn
    depends on seed, epoch and the document's id alone.

    Args:
        sections: most sections of a document; the paper's is 2, and it tries 2 to 5. 1 leaves documents whole.
        by: ``headings``, or ``length`` to cut all documents into sections of equal length.
        section_positions: ``natural`` or ``shuffled``; training with ``shuffled`` shuffles in every epoch.
        seed: seed of the run.
    """

    sections: int = 2
    by: SplitRule = "headings"
    section_positions: SectionPositions = "natural"
    seed: int = 0

    def sample(self, id: str, epoch: int, own_sections: npt.NDArray[np.integer]) -> SectionSplit:
        """Split a document for an epoch of training, in reading order; ``shuffled`` positions in one that is drawn."""
        split = self.split(own_sections)
        if self.section_positions == "natural":
            return split
        permutation = random_generator(self.seed, "sections", epoch, id).permutation(len(split))
        return split.permuted(permutation, self.section_positions)

    def split(self, own_sections: npt.NDArray[np.integer]) -> SectionSplit:
        """Split a document in reading order by the sections of its passages, ``(passages,)``; nothing is drawn."""
        order = np.arange(len(own_sections), dtype=np.int64)
        if self.sections == 1:
            return SectionSplit(order, np.zeros_like(order), order)
        starts = np.flatnonzero(np.diff(own_sections, prepend=-1))
        if self.by == "length" or len(starts) == 1:
            ids = order * min(self.sections, len(order)) // len(order)
        else:
            sizes = np.diff(starts, append=len(order))
            ids = np.repeat(_balanced(sizes, min(self.sections, len(sizes))), sizes)
        return SectionSplit(order, ids, order - np.flatnonzero(np.diff(ids, prepend=-1))[ids])


def _balanced(sizes: Rows, groups: int) -> Rows:
    """Merge neighbours into groups with the least sum of squared sizes; the group of every size, ``(sizes,)``."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.float64)
    # costs[n]: least sum for the first n sizes in the groups so far; starts[n]: where the last of them begins.
    costs, cuts = ends**2, list[Rows]()
    costs[0] = np.inf
    for _ in range(groups - 1):
        starts, next_costs = np.zeros(len(ends), np.int64), np.full(len(ends), np.inf)
        for end in range(1, len(ends)):
            sums = costs[:end] + (ends[end] - ends[:end]) ** 2
            starts[end] = sums.argmin()
            next_costs[end] = sums[starts[end]]
        cuts.append(starts)
        costs = next_costs
    ids, end = np.zeros(len(sizes), np.int64), len(sizes)
    for group in range(groups - 1, 0, -1):
        start = int(cuts[group - 1][end])
        ids[start:end] = group
        end = start
    return ids
