"""graphdoc evaluate cluster: do document vectors find the groups that documents are labelled with?"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..runtime.memory import quick_imports
from .arguments import add_model_arguments, add_reading_arguments, positive
from .evaluate import (
    Candidate,
    add_baseline_argument,
    add_part_arguments,
    load_candidates,
    part_sources,
    processes_of,
    read_parts,
    show,
    with_shared_passages,
)
from .outputs import JSON, Outputs
from .sources import skips_unencodable
from .tables import Column, Table, names, percent

if TYPE_CHECKING:
    from ..evaluation import ClusteringEvaluator, VectorScores
    from ..evaluation.clustering import LabelledVectors, SeedScores
    from ..runtime.processes import Processes
    from ..segmentation.spans import Coverage

HELP = "k-means on train documents, applied to test: NMI and purity"
DESCRIPTION = """Fit k-means on the vectors of train documents, apply it to test documents, and compare its
clusters with their labels: NMI and purity, over several seeds, and a linear probe (--probe).

The backbone of every model is measured too as it was before training, with a mean over its passages: the gap shows
what training contributes."""
EPILOG = """examples:
  graphdoc evaluate cluster --train train.jsonl.gz --test test.jsonl.gz --model mini --probe
  graphdoc evaluate cluster --data corpus.jsonl --model mini --model runs/a/model --plot tsne.png --json scores.json
"""

OUTPUTS = Outputs(
    json=("scores.json", JSON),
    csv=("scores.csv", "write the table as CSV"),
    plot=("projection.png", "draw test documents by t-SNE (.png, .svg, .pdf)"),
)


@dataclass(frozen=True)
class Row:
    """One line of the table: an encoder and what was measured of it."""

    candidate: Candidate
    scores: VectorScores
    coverage: Coverage
    vectors: LabelledVectors
    same_as: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the vectors as plain values for JSON."""
        return {
            "name": self.candidate.name,
            "role": self.candidate.role,
            "same_vectors_as": self.same_as,
            **self.scores.to_dict(),
            "coverage": self.coverage.to_dict(),
            "model": self.candidate.encoder.describe(),
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_part_arguments(parser, train="documents that k-means is fitted on", test="documents that it is applied to")
    measures = parser.add_argument_group("measures")
    measures.add_argument("--seeds", type=positive, default=5, metavar="N", help="runs of k-means (default: 5)")
    measures.add_argument(
        "--clusters", type=positive, metavar="N", help="number of clusters (default: that of the labels in train)"
    )
    measures.add_argument("--probe", action="store_true", help="also fit a linear probe: accuracy, macro F1")
    add_baseline_argument(measures)
    OUTPUTS.add_to(parser)
    add_model_arguments(parser, several=True, measures=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, encode, measure, print and write."""
    sources = part_sources(options)
    OUTPUTS.prepare(options, sources)

    from ..documents.readers import ReadingReport

    with quick_imports():
        from ..evaluation import ClusteringEvaluator

    with processes_of(options) as processes:
        report = ReadingReport()
        parts = read_parts(options, report)
        evaluator_of = partial(
            ClusteringEvaluator, clusters=options.clusters, seeds=range(options.seeds), probe=options.probe
        )
        # What nothing can be measured on is refused before any model is loaded.
        evaluator = evaluator_of(parts.train, parts.test)
        candidates, notes = load_candidates(options)
        if skips_unencodable(options, sources):
            parts = parts.encodable(candidates[0].encoder, report)
            evaluator = evaluator_of(parts.train, parts.test)
        rows = _measure(evaluator, candidates, processes)
        if not processes.is_first:
            return

    def plot(path: str) -> None:
        from ..analysis.figures.projection import plot_projection
        from ..analysis.projection import project, sample_rows

        chosen = sample_rows(len(evaluator.test_labels))
        points = {row.candidate.name: project(row.vectors.test[chosen]) for row in rows}
        plot_projection(points, [evaluator.test_labels[row] for row in chosen], path)

    train, test, without = len(evaluator.train_labels), len(evaluator.test_labels), evaluator.left_out
    lines = [
        f"{train:,} train and {test:,} test documents with {len(set(evaluator.train_labels))} labels; k-means with "
        f"{evaluator.clusters} clusters, {len(evaluator.seeds)} seeds"
    ]
    if any(without.values()):
        lines.append(f"left out for want of one label: {without['train']:,} of train, {without['test']:,} of test")
    lines += parts.notes()
    lines += [f"{row.candidate.name} gives the same vectors as {row.same_as}" for row in rows if row.same_as]
    content = {
        "format": "graphdoc.clustering/1",
        "data": {"train": train, "test": test, "without_label": without},
        "rows": [row.to_dict() for row in rows],
    }
    measures = rows[0].scores.metrics()
    cells = ((row.candidate.name, row.candidate.role, *row.scores.metrics().values()) for row in rows)
    csv = Table(["model", "role", *measures], cells).write_csv
    show(options, OUTPUTS, content, [_table(rows)], [*lines, *notes], report, csv=csv, plot=plot)


def _measure(evaluator: ClusteringEvaluator, candidates: list[Candidate], processes: Processes) -> list[Row]:
    """Encode every candidate, and measure in the first process; those that give the same vectors once."""
    from ..segmentation.spans import Coverage

    rows: list[Row] = []
    for candidate, sharing in with_shared_passages(evaluator, candidates, processes):
        coverage = Coverage()
        vectors = sharing.vectors(candidate.encoder, processes, totals=coverage)
        twin = next((row for row in rows if vectors.same_as(row.vectors)), None)
        if twin is not None:
            rows.append(replace(twin, candidate=candidate, same_as=twin.candidate.name))
        elif processes.is_first:
            rows.append(Row(candidate, evaluator.score(vectors), coverage, vectors))
    return rows


def _table(rows: list[Row]) -> Table:
    probe = ["accuracy", "macro F1"] if rows[0].scores.probe is not None else []
    spreads = [Column("NMI", _spread), Column("purity", _spread)]
    result = Table([names("vectors of", 44), names("kind"), Column("coverage", percent), *spreads, *probe])
    for row in rows:
        clustering, probed = row.scores.clustering, row.scores.probe
        result.add(
            *(row.candidate.name, row.candidate.role, row.coverage.share, clustering.nmi, clustering.purity),
            *((probed.accuracy, probed.macro_f1) if probed is not None else ()),
        )
    return result


def _spread(scores: SeedScores) -> str:
    return f"{scores.mean:.3f} ± {scores.std:.3f}"
