"""Comparison of documents as a task: what a head trained on pairs adds to a frozen MiniLM, and to TF-IDF.

Wikipedia articles that link to each other, against others of the same subject; papers that cite each other, without
their abstracts, against others. Every row is `configs/finetune/own_pairs.yaml` with the settings named below it.

    python benchmarks/comparison.py [--work FOLDER] [--studies wikispeedia_pairs scisumm_pairs]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from reporting import DATA, ROOT, describe_machine, write_result
from studies import Study, StudySettings, as_markdown, changes_of_rows

from graphdoc.settings.loading import load_settings

STUDIES = {"wikispeedia_pairs": 0.92, "scisumm_pairs": 0.93}


def best_of(table: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """The row with the highest mean AUC."""
    return max(table, key=lambda row: sum(one["auc"] for one in table[row]) / len(table[row]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/comparison"))
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--studies", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    options = parser.parse_args()
    lines = ["# Comparison of documents", "", "`python benchmarks/comparison.py`", "", describe_machine()]
    for name in options.studies:
        settings = load_settings(StudySettings, ROOT / "configs" / "studies" / f"{name}.yaml")
        study = Study(settings, options.work / name, options.data)
        table = study.table()
        comparison = study.comparison
        lines += [
            "",
            f"## {settings.title}",
            "",
            f"{len(comparison.pairs):,} test pairs of {settings.folder}, threshold from "
            f"{len(comparison.validation):,} validation pairs; {settings.seeds} seeds, mean ± standard deviation. "
            f"Goal: AUC {STUDIES[name]:.2f}. TF-IDF sees whole texts, models "
            "the first passages of 100 words (`corpus.max_passages`).",
            "",
            *as_markdown(table),
            "",
            f"Best: {best_of(table)}.",
            "",
            *changes_of_rows(settings),
        ]
    lines.append("")
    print("\n".join(lines))
    write_result("comparison", "\n".join(lines))


if __name__ == "__main__":
    main()
