"""Passages of a document as character spans, with their tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from .coverage import Coverage


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a section's text: a sentence, a passage or a chunk.

    Args:
        section: position of the section in ``document.sections``.
        start: first character in the section's text.
        end: one past the last character.
        tokens: number of tokens, special tokens not counted.
    """

    section: int
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SegmentedDocument:
    """A document cut into passages and tokenised.

    Args:
        document: the document itself.
        passages: the passages to encode, in reading order.
        token_ids: token ids of every passage, special tokens included.
        coverage: how much of the document the passages hold, and what was left out.
        passage_vectors: ``(passages, encoder hidden)``, pooled vectors of the passages, for models above the passage
            encoder that made them; None where they are still to be made.
    """

    document: Document
    passages: tuple[Span, ...]
    token_ids: tuple[tuple[int, ...], ...]
    coverage: Coverage
    passage_vectors: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)

    def text(self, span: Span) -> str:
        """The text of a passage as the document has it."""
        return self.document.sections[span.section].text[span.start : span.end]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of all passages, in their order."""
        return tuple(self.text(passage) for passage in self.passages)
