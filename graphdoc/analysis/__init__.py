"""What is shown of documents and comparisons: attention, plots and the HTML report."""

from __future__ import annotations
