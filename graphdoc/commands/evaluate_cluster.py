"""graphdoc evaluate cluster: do document vectors find the groups that documents are labelled with?"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..runtime.memory import quick_imports
from .arguments import add_model_arguments, add_reading_arguments, positive
from .labelled_parts import add_part_arguments, check_parts, read_parts
from .measured_models import (
    Candidate,
    add_baseline_arguments,
    check_baselines,
    load_candidates,
    processes_of,
    with_shared_passages,
)
from .outputs import JSON, Outputs, write_json
from .sources import skips_unencodable
from .summaries import list_left_out, print_lines
from .tables import Column, Table, names, percent

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..evaluation import ClusteringEvaluator, LabelledVectors, SeedScores, VectorScores
    from ..runtime.processes import Processes
    from ..segmentation.spans import Coverage

HELP = "k-means on train documents, applied to test: NMI and purity"
DESCRIPTION = """Fit k-means on the vectors of train documents, apply it to test documents, and compare its
clusters with their labels: NMI and purity, over several seeds. A linear probe (--probe) and pairs of documents
(--pairs) are measured on the same vectors.

The backbone of every model is measured too as it was before training, with a mean over its passages: what a model
adds to that is what its training is worth."""
EPILOG = """examples:
  graphdoc evaluate cluster --train train.jsonl.gz --test test.jsonl.gz --model mini --probe
  graphdoc evaluate cluster --data corpus.jsonl --model mini --model runs/a/model --plot tsne.png --json scores.json
  graphdoc evaluate cluster --data corpus.jsonl --pairs pairs.tsv --cls-baseline roberta-base
"""

OUTPUTS = Outputs(
    json=("scores.json", JSON),
    csv=("scores.csv", "write the table as CSV"),
    plot=("projection.png", "draw test documents by t-SNE (.png, .svg, .pdf)"),
)


@dataclass(frozen=True)
class Row:
    """One line of the table: an encoder, what it is there for, and what was measured."""

    encoder: DocumentEncoder
    name: str
    role: str
    scores: VectorScores
    normalized: bool
    coverage: Coverage
    vectors: LabelledVectors
    same_as: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the vectors as plain values for JSON."""
        return {
            "name": self.name,
            "role": self.role,
            "same_vectors_as": self.same_as,
            **self.scores.to_dict(),
            "normalized": self.normalized,
            "coverage": self.coverage.to_dict(),
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
    OUTPUTS.add_to(parser)
    add_model_arguments(parser, several=True, measures=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, encode, measure, print and write."""
    sources = check_parts(options)
    check_baselines(options)
    OUTPUTS.prepare(options, [*sources, options.pairs])

    from ..documents.readers import ReadingReport

    with quick_imports():
        from ..evaluation import ClusteringEvaluator, Pairs, read_pair_file

    with processes_of(options) as processes:
        pairs = read_pair_file(options.pairs) if options.pairs is not None else Pairs(())
        report = ReadingReport()
        # Of other parts than train and test pairs alone may need something.
        parts = read_parts(options, report, keep_others=bool(options.pairs))
        evaluator_of = partial(
            ClusteringEvaluator,
            clusters=options.clusters,
            seeds=range(options.seeds),
            probe=options.probe,
            pairs=pairs,
            unknown="leave_out" if options.on_error == "skip" else "stop",
        )
        # What nothing can be measured on is refused before any model is loaded.
        evaluator = evaluator_of(parts.train, parts.test, others=parts.others)
        candidates, skipped = load_candidates(options)
        if skips_unencodable(options, sources):
            parts = parts.encodable(candidates[0].encoder, report)
            evaluator = evaluator_of(parts.train, parts.test, others=parts.others)
        rows = _measure(evaluator, candidates, processes)
        if not processes.is_first:
            return
    left_out_pairs = len(pairs) - len(evaluator.pairs)
    data = {
        "train": len(evaluator.train_labels),
        "test": len(evaluator.test_labels),
        "without_label": evaluator.left_out,
        "ids_in_train_and_test": parts.shared_ids,
        "labels": sorted({*evaluator.train_labels, *evaluator.test_labels}),
        "pairs": len(evaluator.pairs),
        "pairs_left_out": left_out_pairs,
    }

    def content() -> dict[str, Any]:
        not_measured = [asdict(entry) for entry in skipped]
        about = {"format": "graphdoc.clustering/1", "data": data, "skipped": not_measured}
        return {**about, "rows": [row.to_dict() for row in rows]}

    def plot(path: str) -> None:
        from ..analysis.figures.projection import plot_projection
        from ..analysis.projection import project, sample_rows

        chosen = sample_rows(len(evaluator.test_labels))
        points = {row.name: project(row.vectors.test[chosen]) for row in rows}
        plot_projection(points, [evaluator.test_labels[row] for row in chosen], path)

    target = OUTPUTS.write(
        options,
        json=lambda path: write_json(path, content()),
        csv=lambda path: Table(
            ["model", "role", *rows[0].scores.metrics()],
            [(row.name, row.role, *row.scores.metrics().values()) for row in rows],
        ).write_csv(path),
        plot=plot,
    )
    if target is None:
        return
    _table(evaluator, rows).print(target)
    target.print()
    labels, without = len(set(evaluator.train_labels)), evaluator.left_out
    lines = [
        f"{data['train']:,} train and {data['test']:,} test documents with {labels} labels; k-means with "
        f"{evaluator.clusters} clusters, {len(evaluator.seeds)} seeds"
    ]
    if any(without.values()):
        lines.append(f"left out for want of one label: {without['train']:,} of train, {without['test']:,} of test")
    if left_out_pairs:
        lines.append(f"pairs left out: {left_out_pairs:,} of documents that are not there")
    if parts.shared_ids:
        lines.append(f"{parts.shared_ids:,} ids occur in train and in test")
    lines += [f"{row.name} gives the same vectors as {row.same_as}" for row in rows if row.same_as is not None]
    print_lines(target, [*lines, *map(str, skipped)])
    list_left_out(target, report)
    OUTPUTS.report(options, target)


def _measure(evaluator: ClusteringEvaluator, candidates: list[Candidate], processes: Processes) -> list[Row]:
    """Encode every candidate, and measure in the first process; those that give the same vectors once."""
    from ..segmentation.spans import Coverage

    rows: list[Row] = []
    for candidate, sharing in with_shared_passages(evaluator, candidates, processes):
        encoder, name, role = candidate.encoder, candidate.name, candidate.role
        coverage = Coverage()
        vectors = sharing.vectors(encoder, processes, totals=coverage)
        twin = next((row for row in rows if vectors.same_as(row.vectors)), None)
        if twin is not None:
            rows.append(replace(twin, encoder=encoder, name=name, role=role, same_as=twin.name))
        elif processes.is_first:
            scores, normalizes = evaluator.score(vectors), evaluator.normalizes(encoder)
            rows.append(Row(encoder, name, role, scores, normalizes, coverage, vectors))
    return rows


def _table(evaluator: ClusteringEvaluator, rows: list[Row]) -> Table:
    columns = [names("vectors of", 44), names("kind"), Column("coverage", percent)]
    columns += [Column("NMI", _spread), Column("purity", _spread)]
    columns += map(Column, ["accuracy", "macro F1"] if evaluator.probe else [])
    columns += map(Column, ["pair AUC"] if evaluator.pairs else [])
    result = Table(columns)
    for row in rows:
        scores = row.scores
        cells = [row.name, row.role, row.coverage.share]
        cells += [scores.clustering.nmi, scores.clustering.purity]
        if scores.probe is not None:
            cells += [scores.probe.accuracy, scores.probe.macro_f1]
        if scores.pair_auc is not None:
            cells.append(scores.pair_auc)
        result.add(*cells)
    return result


def _spread(scores: SeedScores) -> str:
    return f"{scores.mean:.3f} ± {scores.std:.3f}"
