"""Attention, plots and HTML pages of documents and comparisons."""

from __future__ import annotations
