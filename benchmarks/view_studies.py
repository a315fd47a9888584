"""What is each part of SST worth? Its table 4 and figures 4 to 7 and 9, on citation pairs of papers.

A study is a file of ``configs/studies``: ``sst_views`` has the ways to choose views and to train on them, and a table
by length; ``sst_receptive_field``, ``sst_cluster_size``, ``sst_heterogeneity`` and ``sst_lambda`` change one thing.

    python benchmarks/view_studies.py sst_views [--config FILE] [--work FOLDER] [key=value ...]
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
    "sst_receptive_field": "sentences of a document that views are drawn from",
    "sst_lambda": "lambda, weight of the loss of dissimilar pairs",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study that is named first."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    known = sorted(path.stem for path in (ROOT / "configs" / "studies").glob("sst_*.yaml"))
    name = given[0] if given else ""
    if name not in known:
        # Without a study there is only this to say.
        print(__doc__ if name in ("-h", "--help") else f"view_studies.py: name a study first: {', '.join(known)}")
        sys.exit(0 if name in ("-h", "--help") else 2)

    def plot(table: Table, path: Path) -> None:
        if name in LABELS:
            course(table, LABELS[name], path)
        else:
            error_bars(table, "auc", "AUC of test pairs, every point a seed", path)

    run_study(name, __doc__, plot, script=f"benchmarks/view_studies.py {name}", arguments=given[1:])


if __name__ == "__main__":
    main()
