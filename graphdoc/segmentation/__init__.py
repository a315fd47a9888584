"""Documents cut into passages, chunks and sentences, with the text that they cover."""

from __future__ import annotations

from .repeats import Repeats, find_repeats
from .segmenter import SegmentationConfig, Segmenter
from .spans import Coverage, SegmentedDocument, Span

__all__ = ["Coverage", "Repeats", "SegmentationConfig", "SegmentedDocument", "Segmenter", "Span", "find_repeats"]
