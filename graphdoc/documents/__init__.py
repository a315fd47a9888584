"""Documents with their sections, whatever they are read from."""

from __future__ import annotations

from .document import Columns, Document, Label
from .section import Section

__all__ = ["Columns", "Document", "Label", "Section"]
