"""Structural embeddings: what the passage encoder learns of a passage's section and of its place in it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class StructuralEmbeddings(nn.Module):
    r"""Learned embeddings of section and chunk that are added to the input embeddings of a passage's tokens.

    .. math::
        \tilde T_{pqr} = S_p + C_q + T_{pqr}

    where T is the input embedding of token r in chunk q of section p. Source: CoLDE, section 3.1 and figure 3; the
    sums over p, q and r in the paper's equation are read as "for every". The tables start at zero, so that a model
    starts at its pretrained passage encoder.

    Args:
        sections: rows of the table of sections; a section beyond the last row uses the last row.
        chunks: rows of the table of chunks; a chunk beyond the last row uses the last row.
        embedding_size: width of an input embedding.
    """

    def __init__(self, sections: int, chunks: int, embedding_size: int) -> None:
        super().__init__()
        self.sections = nn.Parameter(torch.zeros(sections, embedding_size))
        self.chunks = nn.Parameter(torch.zeros(chunks, embedding_size))

    def forward(self, structure: Tensor) -> Tensor:
        """Look up what is added to the tokens of every passage.

        Args:
            structure: ``(passages, 2)``, section id and chunk id of every passage, from 0.

        Returns:
            ``(passages, embedding)``.
        """
        section, chunk = structure.unbind(dim=1)
        sections = self.sections[section.clamp(max=len(self.sections) - 1)]
        return sections + self.chunks[chunk.clamp(max=len(self.chunks) - 1)]
