"""graphdoc evaluate cluster: do document vectors find the groups that documents are labelled with?"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import EvaluationError, ModelError
from .arguments import (
    add_model_arguments,
    add_reading_arguments,
    check_image,
    fill_outputs,
    load_encoder,
    positive,
    read_many,
    write_json,
)
from .summaries import console, list_left_out, plain, table, written

if TYPE_CHECKING:
    from ..documents import Document
    from ..encoder import DocumentEncoder
    from ..evaluation import ClusterEvaluation, EvaluationScores
    from ..evaluation.clustering import SeedScores
    from ..readers import ReadingReport

NAME = "cluster"
HELP = "k-means on train documents, applied to test: NMI and purity"
DESCRIPTION = """Fit k-means on the vectors of train documents, apply it to test documents, and hold its clusters
against their labels: NMI and purity, over several seeds. A linear probe (--probe) and pairs of documents (--pairs)
are measured on the same vectors.

The backbone of every model is measured too as it was before training, with a mean over its passages: what a model
adds to that is what its training is worth."""
EPILOG = """examples:
  graphdoc evaluate cluster --train train.jsonl.gz --test test.jsonl.gz --model mini --probe
  graphdoc evaluate cluster --data corpus.jsonl --model runs/a --model runs/b --plot tsne.png --json scores.json
  graphdoc evaluate cluster --data corpus.jsonl --pairs pairs.tsv --cls-baseline roberta-base
"""


@dataclass(frozen=True)
class Row:
    """One line of the table: an encoder, what it is there for, and what was measured."""

    encoder: DocumentEncoder
    name: str
    role: str
    scores: EvaluationScores
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


@dataclass(frozen=True)
class Candidate:
    """An encoder that will be measured; ``same_as`` is the place of another one that gives the same vectors."""

    encoder: DocumentEncoder
    name: str
    role: str
    same_as: int | None = None


@dataclass(frozen=True)
class Parts:
    """The documents that were read: train, test, and those of other parts, which only pairs may need."""

    train: list[Document]
    test: list[Document]
    others: list[Document]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    data = parser.add_argument_group("documents")
    data.add_argument("--data", metavar="SOURCE", nargs="+", help="corpora with a column that says train or test")
    data.add_argument(
        "--split-column", default="split", metavar="NAME", help="the column that says so (default: split)"
    )
    data.add_argument("--test-split", default="test", metavar="VALUE", help="what is measured (default: test)")
    data.add_argument("--train", metavar="SOURCE", nargs="+", help="documents that k-means is fitted on")
    data.add_argument("--test", metavar="SOURCE", nargs="+", help="documents that it is applied to")
    measures = parser.add_argument_group("measures")
    measures.add_argument("--seeds", type=positive, default=5, metavar="N", help="runs of k-means (default: 5)")
    measures.add_argument(
        "--clusters", type=positive, metavar="N", help="number of clusters (default: that of the labels in train)"
    )
    measures.add_argument("--probe", action="store_true", help="also fit a linear probe: accuracy, macro F1")
    measures.add_argument(
        "--pairs", metavar="FILE", help="also AUC of the cosine on pairs: id_a, id_b, 0 or 1 by tabs"
    )
    rows = parser.add_argument_group("what models are held against")
    rows.add_argument(
        "--baseline", metavar="BACKBONE", help="where the models' backbone is, if not under the name they know"
    )
    rows.add_argument("--no-baseline", action="store_true", help="leave out the untrained backbone")
    rows.add_argument(
        "--cls-baseline",
        metavar="NAME",
        action="append",
        default=[],
        help="an encoder by its [CLS] vector, such as roberta-base; may be given several times",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write everything as JSON (- for standard output)")
    output.add_argument("--csv", metavar="FILE", help="write the table as CSV")
    output.add_argument("--plot", metavar="FILE", help="draw test documents by t-SNE (.png, .svg, .pdf)")
    output.add_argument("--output", metavar="FOLDER", help="write scores.json, scores.csv and projection.png there")
    add_model_arguments(parser, several=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, encode, measure, print and write."""
    sources = [*(options.data or ()), *(options.train or ()), *(options.test or ())]
    if bool(options.data) == bool(options.train or options.test) or bool(options.train) != bool(options.test):
        raise EvaluationError("give the documents as --data SOURCE, or as --train SOURCE and --test SOURCE")
    if options.no_baseline and options.baseline is not None:
        raise EvaluationError("--baseline and --no-baseline contradict each other; give one of them")
    fill_outputs(options, *sources, options.pairs, json="scores.json", csv="scores.csv", plot="projection.png")
    check_image(options.plot)

    from ..evaluation import ClusterEvaluation, read_pairs
    from ..readers import ReadingReport

    pairs = read_pairs(options.pairs) if options.pairs is not None else []
    report = ReadingReport()
    parts = _read(options, sources, report)
    settings = {"clusters": options.clusters, "seeds": range(options.seeds), "probe": options.probe, "pairs": pairs}
    # Labels that nothing can be measured on are told before any model is loaded.
    evaluation = ClusterEvaluation(parts.train, parts.test, others=parts.others, **settings)
    skipped: list[dict[str, str]] = []
    candidates = _candidates(options, skipped)
    if options.on_error == "skip":
        parts = _with_passages(parts, candidates[0].encoder, report)
        evaluation = ClusterEvaluation(parts.train, parts.test, others=parts.others, **settings)
    rows = _measure(evaluation, candidates, plot=bool(options.plot))
    shared = len({document.id for document in parts.train} & {document.id for document in parts.test})
    if options.json:
        content = {"format": "graphdoc.clustering/1", "data": _counts(evaluation, shared), "skipped": skipped}
        write_json(options.json, {**content, "rows": [row.to_dict() for row in rows]})
    if options.csv:
        _write_csv(options.csv, rows)
    if options.plot:
        from ..analysis.plots import plot_projection
        from ..analysis.projection import sample_rows

        shown = [evaluation.test_labels[row] for row in sample_rows(len(evaluation.test_labels))]
        plot_projection({row.name: row.points for row in rows}, shown, options.plot)
    if options.json != "-":
        _print(options, evaluation, rows, skipped, shared, report)


def _read(options: argparse.Namespace, sources: list[str], report: ReadingReport) -> Parts:
    """Read the documents and tell train from test."""
    if not options.data:
        train, test = (list(read_many(part, options, report)) for part in (options.train, options.test))
        for name, part in (("train", train), ("test", test)):
            if not part:
                raise EvaluationError(f"there are no documents in {' '.join(getattr(options, name))}; check --{name}")
        return Parts(train, test, [])
    parts = Parts([], [], [])
    found: Counter[str] = Counter()
    for document in read_many(sources, options, report):
        value = document.metadata.get(options.split_column)
        found["" if value is None else str(value)] += 1
        target = {"train": parts.train, options.test_split: parts.test}.get(str(value), parts.others)
        # Of the other parts pairs alone may need something.
        if target is not parts.others or options.pairs:
            target.append(document)
    place, column = " ".join(sources), options.split_column
    if not found.keys() - {""}:
        raise EvaluationError(
            f"no document of {place} has a column {column!r}; name it with --split-column, or give --train and --test"
        )
    for split, documents in (("train", parts.train), (options.test_split, parts.test)):
        if not documents:
            values = ", ".join(repr(value) for value in sorted(found)[:5])
            raise EvaluationError(f"no document of {place} has {split!r} in column {column!r}, only {values}")
    return parts


def _with_passages(parts: Parts, encoder: DocumentEncoder, report: ReadingReport) -> Parts:
    """Leave out and list documents of nothing but invisible characters, which give no passages."""
    from ..readers import Skipped

    def kept(documents: list[Document]) -> list[Document]:
        result = []
        for document, segmented in zip(documents, encoder.segmenter.segment_many(documents), strict=True):
            if segmented.passages:
                result.append(document)
            else:
                report.skipped.append(Skipped(document.id, "it has no text to encode; leave it out"))
        return result

    return Parts(kept(parts.train), kept(parts.test), kept(parts.others))


def _candidates(options: argparse.Namespace, skipped: list[dict[str, str]]) -> list[Candidate]:
    """Load all encoders before the long work starts: other encoders, untrained backbones, then the models."""
    from ..evaluation.baselines import first_chunk_encoder, is_same_model, untrained_mean

    names = list(dict.fromkeys(options.model or ["mini"]))
    models = [load_encoder(options, name) for name in names]
    result: list[Candidate] = []
    for name in dict.fromkeys(options.cls_baseline):
        try:
            encoder = first_chunk_encoder(name, device=options.device, dtype=options.dtype)
            result.append(Candidate(encoder, encoder.name, "[CLS]"))
        except ModelError as error:
            skipped.append({"name": name, "role": "[CLS]", "reason": str(error)})
    untrained: list[Candidate] = []
    for name, model in zip(names, models, strict=True):
        if options.no_baseline:
            break
        try:
            encoder = untrained_mean(model, options.baseline, device=options.device, dtype=options.dtype)
        except ModelError as error:
            if options.baseline is not None:
                raise
            skipped.append({"name": f"backbone of {name}", "role": "untrained", "reason": str(error)})
            continue
        if not any(is_same_model(encoder, other.encoder) for other in untrained):
            taken = any(other.name == encoder.name for other in untrained)
            untrained.append(Candidate(encoder, f"{encoder.name} as {name}" if taken else encoder.name, "untrained"))
    result += untrained
    for name, model in zip(names, models, strict=True):
        same = next((place for place, other in enumerate(result) if is_same_model(model, other.encoder)), None)
        result.append(Candidate(model, name, "model", same))
    return result


def _measure(evaluation: ClusterEvaluation, candidates: list[Candidate], *, plot: bool) -> list[Row]:
    from ..analysis.projection import project, sample_rows
    from ..coverage_totals import CoverageTotals

    rows: list[Row] = []
    for candidate in candidates:
        if candidate.same_as is not None:
            twin = rows[candidate.same_as]
            rows.append(
                replace(twin, encoder=candidate.encoder, name=candidate.name, role=candidate.role, same_as=twin.name)
            )
            continue
        totals = CoverageTotals()
        vectors = evaluation.encode(candidate.encoder, totals=totals)
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


def _counts(evaluation: ClusterEvaluation, shared: int) -> dict[str, Any]:
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

    from ..files import write_text

    frame = pd.DataFrame([{"model": row.name, "role": row.role, **row.scores.metrics()} for row in rows])
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))


def _spread(scores: SeedScores) -> str:
    return f"{scores.mean:.3f} ± {scores.std:.3f}"


def _print(
    options: argparse.Namespace,
    evaluation: ClusterEvaluation,
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
