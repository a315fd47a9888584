"""Documents cut into passages, chunks and sentences, with the text that they cover."""

from __future__ import annotations

from .segmenter import UNITS, SegmentationConfig, Segmenter, Unit
from .spans import Coverage, SegmentedDocument, Span

__all__ = ["UNITS", "Coverage", "SegmentationConfig", "SegmentedDocument", "Segmenter", "Span", "Unit"]
