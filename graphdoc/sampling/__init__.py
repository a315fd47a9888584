"""How training examples are drawn from documents."""

from __future__ import annotations

from .sub_documents import SPLITS, Split, SubDocuments

__all__ = ["SPLITS", "Split", "SubDocuments"]
