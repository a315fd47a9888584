"""graphdoc evaluate cluster: do document vectors find the groups that documents are labelled with?"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .arguments import add_model_arguments, add_reading_arguments, check_image, fill_outputs, positive, write_json
from .labelled_parts import Parts, add_part_arguments, check_parts, read_parts
from .measured_models import (
    Candidate,
    add_baseline_arguments,
    check_baselines,
    load_candidates,
    with_passages,
    with_shared_passages,
)
from .summaries import console, list_left_out, plain, table, written

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder
    from ..evaluation import ClusteringEvaluator, VectorScores
    from ..evaluation.clustering_scores import SeedScores

NAME = "cluster"
HELP = "k-means on train documents, applied to test: NMI and purity"
DESCRIPTION = """Fit k-means on the vectors of train documents, apply it to test documents, and hold its clusters
against their labels: NMI and purity, over several seeds. A linear probe (--probe) and pairs of documents (--pairs)
are measured on the same vectors.

The backbone of every model is measured too as it was before training, with a mean over its passages: what a model
adds to that is what its training is worth."""
EPILOG = """examples:
  graphdoc evaluate cluster --train train.jsonl.gz --test test.jsonl.gz --model mini --probe
  graphdoc evaluate cluster --data corpus.jsonl --model mini --model runs/a/model --plot tsne.png --json scores.json
  graphdoc evaluate cluster --data corpus.jsonl --pairs pairs.tsv --cls-baseline roberta-base
"""


@dataclass(frozen=True)
class Row:
    """One line of the table: an encoder, what it is there for, and what was measured."""

    encoder: DocumentEncoder
    name: str
    role: str
    scores: VectorScores
    normalized: bool
    coverage: dict[str, Any]
    points: Any = None
    same_as: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the points as plain values for JSON."""
        return {
            "name": self.name,
            "role": self.role,
            "same_vectors_as": self.same_as,
            **self.scores.to_dict(),
            "normalized": self.normalized,
            "coverage": self.coverage,
            "model": self.encoder.describe(),
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
    measures.add_argument(
        "--pairs", metavar="FILE", help="also AUC of the cosine on pairs: id_a, id_b, 0 or 1 by tabs"
    )
    add_baseline_arguments(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write everything as JSON (- for standard output)")
    output.add_argument("--csv", metavar="FILE", help="write the table as CSV")
    output.add_argument("--plot", metavar="FILE", help="draw test documents by t-SNE (.png, .svg, .pdf)")
    output.add_argument("--output", metavar="FOLDER", help="write scores.json, scores.csv and projection.png there")
    add_model_arguments(parser, several=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, encode, measure, print and write."""
    sources = check_parts(options)
    check_baselines(options)
    fill_outputs(options, *sources, options.pairs, json="scores.json", csv="scores.csv", plot="projection.png")
    check_image(options.plot)

    from ..documents.readers import ReadingReport
    from ..evaluation import ClusteringEvaluator, Pairs, read_pair_file

    pairs = read_pair_file(options.pairs) if options.pairs is not None else Pairs(())
    report = ReadingReport()
    # Of other parts than train and test pairs alone may need something.
    parts = read_parts(options, report, keep_others=bool(options.pairs))
    settings = {"clusters": options.clusters, "seeds": range(options.seeds), "probe": options.probe}
    settings |= {"pairs": pairs, "unknown": "leave_out" if options.on_error == "skip" else "stop"}
    # Labels that nothing can be measured on are reported before any model is loaded.
    evaluation = ClusteringEvaluator(parts.train, parts.test, others=parts.others, **settings)
    skipped: list[dict[str, str]] = []
    candidates = load_candidates(options, skipped)
    if options.on_error == "skip":
        parts = _with_passages(parts, candidates[0].encoder, report)
        evaluation = ClusteringEvaluator(parts.train, parts.test, others=parts.others, **settings)
    rows = _measure(evaluation, candidates, plot=bool(options.plot))
    shared = parts.shared_ids
    if options.json:
        content = {"format": "graphdoc.clustering/1", "data": _counts(evaluation, shared), "skipped": skipped}
        write_json(options.json, {**content, "rows": [row.to_dict() for row in rows]})
    if options.csv:
        _write_csv(options.csv, rows)
    if options.plot:
        from ..analysis.figures.projection import plot_projection
        from ..analysis.projection import sample_rows

        shown = [evaluation.test_labels[row] for row in sample_rows(len(evaluation.test_labels))]
        plot_projection({row.name: row.points for row in rows}, shown, options.plot)
    if options.json != "-":
        _print(options, evaluation, rows, skipped, shared, report)


def _with_passages(parts: Parts, encoder: DocumentEncoder, report: ReadingReport) -> Parts:
    return Parts(*(with_passages(part, encoder, report) for part in (parts.train, parts.test, parts.others)))


def _measure(evaluation: ClusteringEvaluator, candidates: list[Candidate], *, plot: bool) -> list[Row]:
    from ..analysis.projection import project, sample_rows
    from ..segmentation.coverage import Coverage

    rows: list[Row] = []
    for candidate, measuring in with_shared_passages(evaluation, candidates):
        if measuring is None:
            assert candidate.same_as is not None
            twin = rows[candidate.same_as]
            rows.append(
                replace(twin, encoder=candidate.encoder, name=candidate.name, role=candidate.role, same_as=twin.name)
            )
            continue
        totals = Coverage()
        vectors = measuring.vectors(candidate.encoder, totals=totals)
        points = project(vectors.test[sample_rows(len(vectors.test))]) if plot else None
        rows.append(
            Row(
                candidate.encoder,
                candidate.name,
                candidate.role,
                evaluation.score(vectors),
                evaluation.normalizes(candidate.encoder),
                totals.to_dict(),
                points,
            )
        )
    return rows


def _counts(evaluation: ClusteringEvaluator, shared: int) -> dict[str, Any]:
    return {
        "train": len(evaluation.train_labels),
        "test": len(evaluation.test_labels),
        "without_label": evaluation.left_out,
        "ids_in_train_and_test": shared,
        "labels": sorted(set(evaluation.train_labels) | set(evaluation.test_labels)),
        "pairs": len(evaluation.pairs),
    }


def _write_csv(path: str, rows: list[Row]) -> None:
    import pandas as pd

    from ..runtime.files import write_text

    frame = pd.DataFrame([{"model": row.name, "role": row.role, **row.scores.metrics()} for row in rows])
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))


def _spread(scores: SeedScores) -> str:
    return f"{scores.mean:.3f} ± {scores.std:.3f}"


def _print(
    options: argparse.Namespace,
    evaluation: ClusteringEvaluator,
    rows: list[Row],
    skipped: list[dict[str, str]],
    shared: int,
    report: ReadingReport,
) -> None:
    target = console()
    columns = [("vectors of", "left"), ("kind", "left"), ("coverage", "right"), ("NMI", "right"), ("purity", "right")]
    columns += [("accuracy", "right"), ("macro F1", "right")] if evaluation.probe else []
    columns += [("pair AUC", "right")] if evaluation.pairs else []
    shown = table(*columns)
    for row in rows:
        scores = row.scores
        cells = [f"{row.coverage['encoded_characters'] / row.coverage['characters']:.0%}"]
        cells += [_spread(scores.clustering.nmi), _spread(scores.clustering.purity)]
        if scores.probe is not None:
            cells += [f"{scores.probe.accuracy:.3f}", f"{scores.probe.macro_f1:.3f}"]
        if scores.pair_auc is not None:
            cells.append(f"{scores.pair_auc:.3f}")
        shown.add_row(plain(row.name, 44), plain(row.role), *cells)
    target.print(shown)
    target.print()
    train, test, seeds = len(evaluation.train_labels), len(evaluation.test_labels), len(evaluation.seeds)
    labels = len(set(evaluation.train_labels))
    target.print(
        f"{train:,} train and {test:,} test documents with {labels} labels; k-means with {evaluation.clusters} "
        f"clusters, {seeds} seeds"
    )
    if any(evaluation.left_out.values()):
        without = evaluation.left_out
        target.print(f"left out for want of one label: {without['train']:,} of train, {without['test']:,} of test")
    if shared:
        target.print(f"{shared:,} ids occur in train and in test")
    for row in rows:
        if row.same_as is not None:
            target.print(plain(f"{row.name} gives the same vectors as {row.same_as}"))
    for entry in skipped:
        target.print(plain(f"not measured: {entry['name']} ({entry['role']}): {entry['reason']}"), soft_wrap=True)
    list_left_out(target, report)
    written(target, (options.json, options.csv, options.plot))
