"""How the passages of a batch stand in the sections of their documents."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...graphs.batch import GraphBatch


@dataclass(frozen=True, slots=True)
class SectionLayout:
    """Sections of a batch, document after document, and their chunks; a chunk is a passage of the batch.

    Sections of a document come by their ids, chunks of a section by theirs, wherever they stand in the batch.

    Args:
        chunks: ``(chunks,)``, the passages of the batch in the order of documents, sections and chunk ids.
        section_of: ``(chunks,)``, section of every chunk.
        place_of: ``(chunks,)``, place of every chunk in its section.
        starts: ``(sections,)``, the first chunk of every section.
        counts: ``(sections,)``, chunks of every section.
        following: ``(sections,)``, the section after each in its document; after the last comes the first.
        document_of: ``(sections,)``, document of every section.
    """

    chunks: Tensor
    section_of: Tensor
    place_of: Tensor
    starts: Tensor
    counts: Tensor
    following: Tensor
    document_of: Tensor

    @classmethod
    def of(cls, batch: GraphBatch) -> SectionLayout:
        """Lay out the sections that a batch is split into, or one section per document."""
        documents = batch.document_of[batch.is_passage]
        sections, places = batch.structure.unbind(dim=1)
        order = torch.argsort(places, stable=True)
        for keys in (sections, documents):
            order = order[torch.argsort(keys[order], stable=True)]
        pairs = torch.stack([documents[order], sections[order]])
        (document_of, _), section_of, counts = torch.unique_consecutive(
            pairs, return_inverse=True, return_counts=True, dim=1
        )
        starts = counts.cumsum(0) - counts
        numbers = torch.arange(len(counts), device=counts.device)
        first_of_document = torch.searchsorted(document_of.contiguous(), document_of.contiguous())
        following = torch.roll(numbers, -1)
        ends = document_of != document_of[following]
        # A batch of one document ends where it starts, which no difference shows.
        ends[-1:] = True
        return cls(
            chunks=order,
            section_of=section_of,
            place_of=torch.arange(len(order), device=order.device) - starts[section_of],
            starts=starts,
            counts=counts,
            following=torch.where(ends, first_of_document, following),
            document_of=document_of,
        )

    def __len__(self) -> int:
        """Number of sections."""
        return len(self.counts)

    def padded(self, sections: Tensor) -> tuple[Tensor, Tensor]:
        """Chunks of some sections as rows of the same width.

        Args:
            sections: ``(rows,)``, which sections.

        Returns:
            Chunks ``(rows, width)``, where padding repeats the first of its section; and which are none,
            ``(rows, width)``.
        """
        counts = self.counts[sections].unsqueeze(1)
        places = torch.arange(int(counts.max()), device=counts.device).unsqueeze(0)
        is_chunk = places < counts
        return self.starts[sections].unsqueeze(1) + torch.where(is_chunk, places, 0), is_chunk
