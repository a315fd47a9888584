"""Studies of CoLDE and SST, and of heads trained on pairs, each a file of ``configs/studies``.

``ablation``, ``batch_size`` and ``document_length`` are CoLDE's (table 1, figures 6 and 7), those that begin with
``sst`` are SST's: ``sst_views`` has table 4 and figure 4, ``sst_receptive_field``, ``sst_cluster_size``,
``sst_heterogeneity`` and ``sst_lambda`` change one thing (figures 5 to 7 and 9), and ``sst_two_epochs`` and
``sst_articles`` ask the same in small. ``wikispeedia_pairs`` and ``scisumm_pairs`` ask what a head trained on pairs
adds to a frozen MiniLM, and to TF-IDF.

    python benchmarks/paper_studies.py ablation [--config FILE] [--work FOLDER] [key=value ...]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from reporting import ROOT
from studies import course, error_bars, run_study

Table = Mapping[str, Sequence[Mapping[str, float]]]
# What the rows of a study are named after, where they are points of a curve.
LABELS = {
    "batch_size": "documents of a batch",
    "document_length": "tokens of a section in training",
    "sst_receptive_field": "sentences of a document that views are drawn from",
    "sst_lambda": "lambda, weight of the loss of dissimilar pairs",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study that is named first."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    known = sorted({path.stem for path in (ROOT / "configs" / "studies").glob("*.yaml")} - {"sdr", "section_shuffling"})
    name = words[0] if words else ""
    if name not in known:
        # Without a study there is only this to say.
        print(__doc__ if name in ("-h", "--help") else f"paper_studies.py: name a study first: {', '.join(known)}")
        sys.exit(0 if name in ("-h", "--help") else 2)

    def plot(table: Table, path: Path) -> None:
        if name in LABELS:
            course(table, LABELS[name], path)
        else:
            error_bars(table, "auc", "AUC of test pairs, every point a seed", path)

    run_study(name, __doc__, plot, script=f"benchmarks/paper_studies.py {name}", arguments=words[1:])


if __name__ == "__main__":
    main()
