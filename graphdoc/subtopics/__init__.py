"""The subtopics of a pair of documents: which of their sentences belong together (SST, section 3.2)."""

from __future__ import annotations

from .subtopics import Subtopics, find_subtopics

__all__ = ["Subtopics", "find_subtopics"]
