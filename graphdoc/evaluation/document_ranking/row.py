"""What a way to rank documents by one of them is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...similarity.cosine import Floats
from .corpus import RankedCorpus

Scorer = Callable[[int], Floats]
"""Gives the scores of all documents, ``(documents,)``, by the place of the one that is asked with."""


@dataclass(frozen=True, slots=True)
class Row:
    """A way to rank documents.

    Args:
        prepare: makes of a corpus what scores its documents.
        explained: what it does, for readers.
        is_lexical: whether it goes by words.
        needs_model: whether it takes a model, if only to cut documents.
    """

    prepare: Callable[[RankedCorpus], Scorer]
    explained: str
    is_lexical: bool = False
    needs_model: bool = True
