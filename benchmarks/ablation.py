"""What is each part of CoLDE worth? The ablation of its table 1, on citation pairs of papers.

The recipe without augmentation, without LSTM and attention, without contrastive loss, with 2 to 5 sections, and what
this package adds: the graph, and a start at the mean of the passages.

    python benchmarks/ablation.py [--config FILE] [--work FOLDER] [key=value ...]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from studies import error_bars, run_study


def plot(table: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    error_bars(table, "auc", "Ablation of CoLDE: AUC of test pairs, every point a seed", path)


if __name__ == "__main__":
    run_study("ablation", __doc__, plot)
