"""Does comparison gain from longer sections in training? Figure 7 of the CoLDE paper, on citation pairs of papers.

Sections are limited in training; documents are measured whole.

    python benchmarks/document_length.py [--config FILE] [--work FOLDER] [key=value ...]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from studies import course, run_study


def plot(table: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    course(table, "tokens of a section in training", path)


if __name__ == "__main__":
    run_study("document_length", __doc__, plot)
