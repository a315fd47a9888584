"""Documents split in parts: sub-documents that share no passage, and sections that contrastive training compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, get_args

import numpy as np
import numpy.typing as npt

from ..settings.finetuning import SectionPositions, SplitRule
from ..settings.pretraining import Split
from .batches import Rows, random_generator

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
class SubDocumentSplit:
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


SPLIT_RULES: tuple[str, ...] = get_args(SplitRule)
SECTION_POSITIONS: tuple[str, ...] = get_args(SectionPositions)


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
        """Number of sections."""
        return int(self.section_ids.max()) + 1

    def moved(self, permutation: Rows, positions: SectionPositions) -> SectionSplit:
        """The same sections in another order, with their passages as they are.

        Args:
            permutation: ``(sections,)``, which section stands at each place.
            positions: with ``natural`` a section keeps its id, wherever it stands; with ``shuffled`` ids count in the
                new order.
        """
        new_place = np.argsort(permutation)
        rows = np.argsort(new_place[self.section_ids], kind="stable")
        ids = self.section_ids[rows]
        return SectionSplit(self.order[rows], ids if positions == "natural" else new_place[ids], self.chunk_ids[rows])

    def limited(self, tokens: Rows, most: int) -> SectionSplit:
        """The beginnings of all sections (CoLDE, section 4.4.2).

        Args:
            tokens: ``(all passages,)``, tokens of every passage of the document.
            most: most tokens of a section; its first passage is kept however long it is.
        """
        lengths = tokens[self.order]
        starts = np.flatnonzero(np.diff(self.section_ids, prepend=-1))
        before = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        run = np.cumsum(np.diff(self.section_ids, prepend=-1) != 0) - 1
        kept = (before - before[starts][run] + lengths <= most) | (self.chunk_ids == 0)
        return SectionSplit(self.order[kept], self.section_ids[kept], self.chunk_ids[kept])

    def whole(self) -> SectionSplit:
        """The document as one section, its chunks counted through all sections in the order of their ids."""
        by_ids = np.lexsort((self.chunk_ids, self.section_ids))
        return SectionSplit(self.order, np.zeros_like(self.section_ids), np.argsort(by_ids))


@dataclass(frozen=True, slots=True)
class DocumentSections:
    """Splits documents into sections for supervised contrastive training (CoLDE, section 3.1).

    A document is cut between its own sections where it has several: neighbours are merged, so that no more than
    ``sections`` remain and their numbers of passages differ as little as they can (least sum of squares; of equals,
    that whose last section begins first). A document without headings is cut between passages, into sections of equal
    length. Every passage is in exactly one section. A document with fewer passages, or fewer sections of its own, than
    are asked for is split into as many as it has; a document of one passage is one section.

    For the robustness test (CoLDE, section 4.4.3), where the sections of a text are shuffled before a model sees it,
    ``section_positions`` is what the model sees. With ``natural`` positions sections keep the ids that they have in
    reading order, so that the structural embeddings, the pairs that chunkwise attention forms and the order in which
    the LSTM reads chunks are those of the text as it was: section vectors and document vectors are unchanged, for
    every model and every permutation (with graph layers, for the graph kinds whose edges go along with sections, all
    but ``window``, whose edges follow the passages). With ``shuffled`` positions sections are counted as they stand,
    and the model sees another document. What is drawn depends on seed, epoch and the document's id alone.

    Args:
        sections: most sections of a document; the paper's is 2, and it tries 2 to 5. 1 leaves documents whole.
        by: ``headings``, or ``length`` to cut all documents into sections of equal length.
        section_positions: ``natural`` or ``shuffled``; training with ``shuffled`` shuffles in every epoch.
        seed: seed of the run.

    Raises:
        ValueError: a value is out of range or unknown.
    """

    sections: int = 2
    by: SplitRule = "headings"
    section_positions: SectionPositions = "natural"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sections < 1:
            raise ValueError(f"sections={self.sections} must be at least 1 (2 is usual)")
        for name, choices in (("by", SPLIT_RULES), ("section_positions", SECTION_POSITIONS)):
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name}={value!r} is unknown; use one of {', '.join(choices)}")

    def draw(self, id: str, epoch: int, own_sections: npt.NDArray[np.integer]) -> SectionSplit:
        """Split a document for an epoch of training.

        Args:
            id: id of the document.
            epoch: number of the epoch.
            own_sections: ``(passages,)``, the section of the document that every passage stands in, in reading order.

        Returns:
            Sections in reading order; with ``shuffled`` positions those of :meth:`shuffle`.

        Raises:
            ValueError: the document has no passages.
        """
        split = self.split(own_sections)
        return self.shuffle(split, id, epoch) if self.section_positions == "shuffled" else split

    def split(self, own_sections: npt.NDArray[np.integer]) -> SectionSplit:
        """Split a document in reading order; nothing is drawn.

        Args:
            own_sections: ``(passages,)``, the section of the document that every passage stands in, in reading order.

        Raises:
            ValueError: the document has no passages.
        """
        count = len(own_sections)
        if not count:
            raise ValueError("a document without passages cannot be split into sections; leave it out")
        order = np.arange(count, dtype=np.int64)
        if self.sections == 1:
            return SectionSplit(order, np.zeros_like(order), order)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(own_sections)) + 1]).astype(np.int64)
        if self.by == "length" or len(starts) == 1:
            pieces = min(self.sections, count)
            ids = order * pieces // count
        else:
            sizes = np.diff(starts, append=count)
            ids = np.repeat(_balanced(sizes, min(self.sections, len(sizes))), sizes)
        first = np.flatnonzero(np.diff(ids, prepend=-1))
        return SectionSplit(order, ids, order - first[ids])

    def shuffle(self, split: SectionSplit, id: str, epoch: int) -> SectionSplit:
        """Put the sections of a document in an order that is drawn, numbered by ``section_positions``.

        Args:
            split: the document in sections.
            id: id of the document.
            epoch: number of the epoch.
        """
        permutation = random_generator(self.seed, "sections", epoch, id).permutation(len(split))
        return split.moved(permutation, self.section_positions)


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
