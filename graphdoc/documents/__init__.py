"""Documents with their sections, whatever they are read from."""

from __future__ import annotations

from .document import Document, Label
from .parsing.rows import Columns
from .section import Section

__all__ = ["Columns", "Document", "Label", "Section"]
