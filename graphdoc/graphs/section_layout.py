"""How the passages of a batch stand in the sections of their documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .attention_plan import ranges
from .kinds.kind import Integers

# Cells (query by key) of one group; bounds the memory of its (sections, heads, queries, keys) attention.
GROUP_CELLS = 2**21


@dataclass(frozen=True, slots=True)
class SectionGroup:
    """Sections of about the same size and the sections that follow them, laid out for dense attention.

    Args:
        asking: ``(sections, queries)``, chunks of the sections; padding repeats a chunk.
        is_asking: ``(sections, queries)``, False for padding.
        asked: ``(sections, keys)``, chunks of the following sections.
        is_asked: ``(sections, keys)``, False for padding.
    """

    asking: Tensor
    is_asking: Tensor
    asked: Tensor
    is_asked: Tensor


@dataclass(frozen=True, slots=True)
class SectionLayout:
    """Sections of a batch, document after document, and their chunks; a chunk is a passage of the batch.

    Sections of a document come by their ids, chunks of a section by theirs, wherever they stand in the batch.

    Args:
        chunks: ``(chunks,)``, the passages of the batch in the order of documents, sections and chunk ids.
        section_of: ``(chunks,)``, section of every chunk.
        counts: ``(sections,)``, chunks of every section.
        document_of: ``(sections,)``, document of every section.
        section_counts: ``(documents,)``, sections of every document.
        groups: sections with as many chunks, about, and their following ones; after the last of a document comes the
            first.
        by_step: ``(chunks,)``, the first chunks of all sections, the longest section first, then the second ones, and
            so on: the order in which a recurrent network reads them.
        step_sizes: ``(longest section,)``, how many chunks each step has, on the CPU wherever the batch is.
        by_length: ``(sections,)``, sections, the longest first.
        rank: ``(sections,)``, place of every section in that order.
    """

    chunks: Tensor
    section_of: Tensor
    counts: Tensor
    document_of: Tensor
    section_counts: Tensor
    groups: tuple[SectionGroup, ...]
    by_step: Tensor
    step_sizes: Integers
    by_length: Tensor
    rank: Tensor

    @classmethod
    def of(cls, documents: Integers, places: Integers, count: int) -> SectionLayout:
        """Lay out sections.

        Args:
            documents: ``(passages,)``, document of every passage.
            places: ``(passages, 2)``, section id and chunk id of every passage.
            count: number of documents.
        """
        sections, chunk_ids = places.T
        chunks = np.lexsort((chunk_ids, sections, documents))
        keys = np.stack([documents[chunks], sections[chunks]])
        starts = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-1) != 0, axis=0))
        counts = np.diff(starts, append=len(chunks))
        section_of = np.repeat(np.arange(len(starts)), counts)
        document_of = keys[0, starts]
        place_of = np.arange(len(chunks)) - starts[section_of]
        by_length = np.argsort(-counts, kind="stable")
        rank = np.empty_like(by_length)
        rank[by_length] = np.arange(len(by_length))
        return cls(
            torch.from_numpy(chunks),
            torch.from_numpy(section_of),
            torch.from_numpy(counts),
            torch.from_numpy(document_of),
            torch.from_numpy(np.bincount(document_of, minlength=count)),
            _groups(starts, counts, _following(document_of)),
            torch.from_numpy(np.lexsort((rank[section_of], place_of))),
            np.bincount(place_of),
            torch.from_numpy(by_length),
            torch.from_numpy(rank),
        )

    def __len__(self) -> int:
        """Number of sections."""
        return len(self.counts)


def _following(document_of: Integers) -> Integers:
    """The section after each in its document; after the last comes the first."""
    following = np.arange(len(document_of)) + 1
    is_last = np.diff(document_of, append=-1) != 0
    following[is_last] = np.flatnonzero(np.diff(document_of, prepend=-1))
    return following


def _groups(starts: Integers, counts: Integers, following: Integers) -> tuple[SectionGroup, ...]:
    """Groups of sections with about as many chunks that look and that are looked at: little of them is padding."""
    sizes = np.stack([counts, counts[following]])
    # Sizes within a power of two share a group, which at most doubles each side of it.
    scales = np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    order = np.lexsort((np.arange(len(counts)), scales[1], scales[0]))
    cuts = np.flatnonzero(np.any(np.diff(scales[:, order], axis=1) != 0, axis=0)) + 1
    groups = []
    for members in np.split(order, cuts) if len(order) else ():
        asking, asked = sizes[:, members].max(axis=1).tolist()
        most = max(1, GROUP_CELLS // (asking * asked))
        for sections in np.split(members, range(most, len(members), most)):
            parts = [_padded(starts[rows], counts[rows]) for rows in (sections, following[sections])]
            groups.append(SectionGroup(*(torch.from_numpy(array) for part in parts for array in part)))
    return tuple(groups)


def _padded(starts: Integers, counts: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Chunks of sections as rows of one width, where padding repeats the first, and which are none."""
    places = np.arange(int(counts.max()))
    is_chunk = places < counts[:, None]
    return starts[:, None] + np.where(is_chunk, places, 0), is_chunk


def places_of(documents: Integers, section_ids: Integers | None, chunk_ids: Integers | None) -> Integers:
    """Section id and chunk id of every passage, ``(passages, 2)``.

    Args:
        documents: ``(passages,)``, document of every passage.
        section_ids: ``(passages,)``, section of every passage, from 0 in every document; None for one section each.
        chunk_ids: ``(passages,)``, place of every passage in its section; None for its place in reading order.
    """
    sections = np.zeros_like(documents) if section_ids is None else section_ids
    if chunk_ids is None:
        order = np.lexsort((np.arange(len(documents)), sections, documents))
        keys = np.stack([documents[order], sections[order]])
        starts = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-1) != 0, axis=0))
        chunk_ids = np.empty_like(documents)
        chunk_ids[order] = ranges(np.zeros_like(starts), np.diff(starts, append=len(order)))
    return np.stack([sections, chunk_ids], axis=1)


def section_ids(sections: npt.ArrayLike) -> Integers:
    """Count the sections of a document from 0 in the order in which they come, those without passages left out.

    Args:
        sections: section of every passage, in reading order.

    Returns:
        ``(passages,)``.

    >>> section_ids([5, 5, 2, 9, 2]).tolist()
    [0, 0, 1, 2, 1]
    """
    _, first, number = np.unique(np.asarray(sections, np.int64), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]
