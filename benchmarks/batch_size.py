"""Does comparison gain from larger batches? Figure 6 of the CoLDE paper, on citation pairs of papers.

python benchmarks/batch_size.py [--config FILE] [--work FOLDER] [key=value ...]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from studies import course, run_study


def plot(table: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    course(table, "documents of a batch", path)


if __name__ == "__main__":
    run_study("batch_size", __doc__, plot)
