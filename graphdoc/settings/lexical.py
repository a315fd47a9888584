"""What a lexical part is made with: the words beside the vectors of passages."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Settings

Terms = Annotated[int, Field(ge=1, le=10_000_000)]
Numbers = Annotated[int, Field(ge=1, le=4096)]
# How long a lexical vector that is learned of one's own documents is beside passages of unit length, and its numbers:
# what told parts of train sets apart best.
LEARNED_WEIGHT = 0.85
LEARNED_NUMBERS = 100

Projection = Literal["decomposition", "random"]


class LexicalSettings(Settings):
    """What a model with a lexical part has to know of it (see :mod:`graphdoc.modeling.lexical`)."""

    terms: Terms
    """rows of its table: terms of the vocabulary, or buckets that terms are hashed into"""
    numbers: Numbers = 200
    """numbers of a lexical vector"""
    language: str = "en"
    """language of stems and stop words"""
    projection: Projection = "decomposition"
    """where the vectors of terms are from: a decomposition of documents, or random ones that every model has alike"""
    hashed: bool = False
    """whether terms are hashed into rows, without a vocabulary"""
    vocabulary: str = ""
    """hash of the vocabulary"""
    corpora: list[str] = Field(default_factory=list)
    """what it was learned of, as free text"""


class LexicalFit(Settings):
    """How a lexical part is learned of documents."""

    numbers: Numbers | None = None
    """numbers of a lexical vector, fewer where the documents do not have as many; null for 100, or 512 random ones"""
    most_terms: Terms = 50_000
    """terms of the vocabulary, those of most documents; with ``hashed`` the buckets"""
    least_documents: Annotated[int, Field(ge=1, le=1_000_000)] = 2
    """documents that a term occurs in at least"""
    projection: Projection = "decomposition"
    """learn vectors of terms from documents, or draw random ones, which keep cosines of tf-idf vectors about as they
    are in any corpus"""
    hashed: bool = False
    """hash terms into ``most_terms`` buckets, for documents of so many words that no vocabulary holds them"""
    most_documents: Annotated[int, Field(ge=2, le=100_000_000)] = 100_000
    """documents that the numbers are learned of, drawn where there are more; document frequencies are those of all"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """draws those documents, and begins the decomposition"""

    @property
    def size(self) -> int:
        """Numbers of a lexical vector, as far as the documents have as many."""
        return self.numbers or (512 if self.projection == "random" else LEARNED_NUMBERS)
