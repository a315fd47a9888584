"""Documents cut into passages, chunks and sentences, with the text that they cover."""

from __future__ import annotations

from ..settings.document import Unit
from .repeats import Repeats, find_repeats
from .segmenter import UNITS, SegmentationConfig, Segmenter
from .spans import Coverage, SegmentedDocument, Span

__all__ = [
    "UNITS",
    "Coverage",
    "Repeats",
    "SegmentationConfig",
    "SegmentedDocument",
    "Segmenter",
    "Span",
    "Unit",
    "find_repeats",
]
