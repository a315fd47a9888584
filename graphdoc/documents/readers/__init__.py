"""Reading documents: files, folders, globs, standard input, corpora and data sets, one document at a time."""

from __future__ import annotations

from .reading import ReadingReport, Skipped, read_documents

__all__ = ["ReadingReport", "Skipped", "read_documents"]
