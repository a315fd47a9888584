"""Documents cut into passages, chunks and sentences, with the text that they cover."""

from __future__ import annotations

from ..settings.document import Unit
from .coverage import Coverage
from .segmenter import UNITS, SegmentationConfig, Segmenter
from .spans import SegmentedDocument, Span

__all__ = ["UNITS", "Coverage", "SegmentationConfig", "SegmentedDocument", "Segmenter", "Span", "Unit"]
