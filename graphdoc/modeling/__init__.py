"""Neural network parts: passage encoder, graph attention, readout and the document model."""

from __future__ import annotations

from .configuration import DocumentConfig
from .document_model import DocumentModel
from .readouts import DocumentOutput

__all__ = ["DocumentConfig", "DocumentModel", "DocumentOutput"]
