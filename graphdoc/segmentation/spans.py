"""Passages of a document as character spans, and the account of what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..documents.document import Document


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
class Coverage:
    """What of a document was encoded, what was left out, and why.

    Args:
        characters: characters of text in all sections, white space at the edges of a section not counted.
        encoded_characters: those that lie in an encoded passage (or chunk), plus the white space between neighbours.
        tokens: tokens of all passages, special tokens not counted.
        encoded_tokens: tokens of the encoded passages.
        passages: passages the document has; text that the tokenizer cannot express makes none.
        encoded_passages: passages that were encoded.
        left_out: characters left out by reason, such as ``{"passage limit": 5120}``; they and the encoded characters
            add up to ``characters``.
        split_sentences: sentences that lie in several passages because they exceed the encoder's limit.
        empty_sections: sections without text of their own (headings only).
    """

    characters: int
    encoded_characters: int
    tokens: int
    encoded_tokens: int
    passages: int
    encoded_passages: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    split_sentences: int = 0
    empty_sections: int = 0

    @property
    def share(self) -> float:
        """Share of the characters that were encoded, 1 for a document without text."""
        return self.encoded_characters / self.characters if self.characters else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON, the share among them."""
        return {**asdict(self), "share": self.share}


@dataclass(frozen=True, slots=True)
class SegmentedDocument:
    """A document cut into passages and tokenised.

    Args:
        document: the document itself.
        passages: the passages to encode, in reading order.
        token_ids: token ids of every passage, special tokens included.
        coverage: the account of what was left out.
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
