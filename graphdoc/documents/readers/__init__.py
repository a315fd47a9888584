"""Reading documents: files, folders, globs, standard input, corpora and data sets, one document at a time."""

from __future__ import annotations

from .reading import read_documents
from .records import ReadingReport, Skipped

__all__ = ["ReadingReport", "Skipped", "read_documents"]
