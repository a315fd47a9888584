"""Similarity of documents, sections and passages, and where it comes from."""

from __future__ import annotations

from .comparison import Comparison, Match
from .encoded_document import EncodedDocument
from .mutual_comparison import MutualComparison

__all__ = ["Comparison", "EncodedDocument", "Match", "MutualComparison"]
