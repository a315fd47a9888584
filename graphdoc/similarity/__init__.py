"""Similarity of documents, sections and passages, and where it comes from."""

from __future__ import annotations

from .comparison import Comparison, Match, MutualComparison
from .encoded_document import EncodedDocument

__all__ = ["Comparison", "EncodedDocument", "Match", "MutualComparison"]
