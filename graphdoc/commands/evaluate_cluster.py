"""graphdoc evaluate cluster: do document vectors find the groups that documents are labelled with?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from ..documents.readers import ReadingReport
from ..runtime.memory import quick_imports
from ..runtime.processes import Processes, usable_device
from .evaluate import Candidate, PartOptions, load_candidates, show, with_shared_passages
from .options import COUNT, Csv, File, Json, MeasuredModels
from .output import Outputs
from .printing import Column, Table, names, percent
from .sources import LabelledReading

if TYPE_CHECKING:
    from ..evaluation import ClusteringEvaluator, VectorScores
    from ..evaluation.clustering import LabelledVectors, SeedScores
    from ..segmentation.spans import Coverage


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


def evaluate_cluster(
    *corpora: str,
    parts: PartOptions = PartOptions(),
    seeds: Annotated[int, COUNT] = 5,
    probe: bool = False,
    baseline: str | None = None,
    json: Json = None,
    csv: Csv = None,
    plot: File = None,
    model: MeasuredModels = MeasuredModels(),
    reading: LabelledReading = LabelledReading(),
) -> None:
    """Fit k-means on the vectors of train documents, apply it to test documents, and compare clusters with labels.

    NMI and purity over several seeds, and a linear probe (--probe). The backbone of every model is measured too as it
    was before training, with a mean over its passages: the gap shows what training contributes.

    Usage examples:
      graphdoc evaluate cluster corpus.jsonl --model mini --model runs/a/model --plot tsne.png
      graphdoc evaluate cluster --train train.jsonl.gz --test test.jsonl.gz --model mini --probe

    Args:
        corpora: labelled documents whose column split says train or test
        seeds: runs of k-means
        probe: also fit a linear probe: accuracy, macro F1
        baseline: where the models' backbone is, if not under the name they know
        csv: write the table as CSV
        plot: draw test documents by t-SNE (.png, .svg, .pdf)
    """
    sources = parts.sources(corpora)
    outputs = Outputs(sources, json=json, csv=csv, plot=plot)

    with quick_imports():
        from ..evaluation import ClusteringEvaluator

    with Processes(usable_device(model.device)) as processes:
        report = ReadingReport()
        found = parts.read(corpora, reading, report)
        evaluator_of = partial(ClusteringEvaluator, seeds=range(seeds), probe=probe)
        # What nothing can be measured on is refused before any model is loaded.
        evaluator = evaluator_of(found.train, found.test)
        candidates, notes = load_candidates(model, baseline)
        if reading.skips_unencodable(sources):
            found = found.encodable(candidates[0].encoder, report)
            evaluator = evaluator_of(found.train, found.test)
        rows = _measure(evaluator, candidates, processes)
        if not processes.is_first:
            return

    def draw(path: str) -> None:
        from ..analysis.figures.measured import plot_projection
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
    lines += found.notes()
    lines += [f"{row.candidate.name} gives the same vectors as {row.same_as}" for row in rows if row.same_as]
    content = {
        "format": "graphdoc.clustering/1",
        "data": {"train": train, "test": test, "without_label": without},
        "rows": [row.to_dict() for row in rows],
    }
    measures = rows[0].scores.metrics()
    cells = ((row.candidate.name, row.candidate.role, *row.scores.metrics().values()) for row in rows)
    write_csv = Table(["model", "role", *measures], cells).write_csv
    show(outputs, content, [_table(rows)], [*lines, *notes], report, csv=write_csv, plot=draw)


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
