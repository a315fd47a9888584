"""graphdoc evaluate compare: do document vectors separate similar pairs of documents from others?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..documents.readers import ReadingReport
from ..errors import EvaluationError
from ..runtime.memory import quick_imports
from ..runtime.processes import Processes, usable_device
from ..runtime.text import counted
from .evaluate import Candidate, load_candidates, show, with_shared_passages
from .options import Csv, File, Json, MeasuredModels
from .output import Outputs
from .printing import Column, Table, half_interval, names, percent, shown, signed_interval
from .sources import CorpusReading, encodable

if TYPE_CHECKING:
    from ..evaluation import ComparisonScores, Estimate, PairEvaluator, PairSimilarities
    from ..segmentation.spans import Coverage

HEADINGS = {
    "precision": "P",
    "recall": "R",
    "f1": "F1",
    "accuracy": "accuracy",
    "auc": "AUC",
    "average_precision": "AP",
}
# As long as a backbone, what became of it, and what it is fused with.
LONGEST_NAME = 52


@dataclass(frozen=True)
class Row:
    """One line of the tables: a way to compare, what it is there for, and what was measured."""

    name: str
    role: str
    similarities: PairSimilarities
    scores: ComparisonScores
    coverage: Coverage | None = None
    model: Mapping[str, Any] | None = None
    same_as: str | None = None

    def ahead_of(self, other: Row) -> dict[str, Estimate]:
        """By how much it is ahead of another on the same resamples, by metric."""
        from ..evaluation.pair_scores import differences

        return differences(self.scores.test, other.scores.test)

    def to_dict(self, words: Row) -> dict[str, Any]:
        """Everything but the similarities as plain values for JSON."""
        return {
            "name": self.name,
            "role": self.role,
            "same_vectors_as": self.same_as,
            **self.scores.to_dict(),
            "coverage": self.coverage and self.coverage.to_dict(),
            "model": self.model,
            "more_than_words": {name: difference.to_dict() for name, difference in self.ahead_of(words).items()},
        }


def evaluate_compare(
    *corpus: str,
    pairs: str,
    validation_pairs: str | None = None,
    leave_out_section: tuple[str, ...] = (),
    fuse_words: bool = False,
    baseline: str | None = None,
    json: Json = None,
    csv: Csv = None,
    plot: File = None,
    model: MeasuredModels = MeasuredModels(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Compare the documents of labelled pairs by the cosine of their vectors, and measure how well it separates them.

    AUC and average precision of pairs that belong together against pairs that do not, and precision, recall, F1 and
    accuracy at a threshold. The threshold has the best F1 on the validation pairs; without them on the test pairs
    themselves, so that these four are upper bounds. All have 95 % bootstrap intervals over pairs. TF-IDF cosine, which
    goes by words alone, is measured on the same pairs, and so is the backbone of every model before training.

    Usage examples:
      graphdoc evaluate compare corpus.jsonl --pairs test.tsv --validation-pairs dev.tsv --model runs/a/model
      graphdoc evaluate compare papers.jsonl.gz --pairs test.tsv --leave-out-section Abstract --csv scores.csv

    Args:
        corpus: files, folders or corpora that the documents of the pairs are in
        pairs: the test pairs: two ids and 1 (similar) or 0 in a line, with tabs between
        validation_pairs: pairs that thresholds are chosen on
        leave_out_section: take sections of this heading out of all documents, such as Abstract; may be repeated
        fuse_words: also measure every model together with words: the sum of the z-scores of its similarity and of the
            TF-IDF cosine of the same passages
        baseline: where the models' backbone is, if not under the name they know
        csv: write the tables as CSV
        plot: draw ROC curves and similarities (.png, .svg, .pdf)
    """
    outputs = Outputs([*corpus, pairs, validation_pairs], json=json, csv=csv, plot=plot)

    from ..documents.readers.streams import LeftOutSections

    with quick_imports():
        from ..evaluation import PairEvaluator, Pairs, read_pair_file

    with Processes(usable_device(model.device)) as processes:
        test = read_pair_file(pairs)
        validation = Pairs(()) if validation_pairs is None else read_pair_file(validation_pairs)
        report = ReadingReport()
        sections = LeftOutSections(tuple(dict.fromkeys(leave_out_section)))
        wanted = {id for part in (test, validation) for pair in part for id in (pair.a, pair.b)}
        read = reading.many(corpus, report)
        documents = [document for document in sections.without(read) if document.id in wanted]
        if unused := [heading for heading, count in sections.counts.items() if not count]:
            raise EvaluationError(f"no document has a section {unused[0]!r} (--leave-out-section)")
        evaluator_of = partial(
            PairEvaluator,
            pairs=test,
            validation=validation,
            unknown="leave_out" if reading.on_error == "skip" else "stop",
        )
        # Pairs that nothing can be measured on are refused before any model is loaded.
        evaluator = evaluator_of(documents)
        candidates, missing = load_candidates(model, baseline)
        if reading.skips_unencodable(corpus):
            evaluator = evaluator_of(list(encodable(documents, candidates[0].encoder, report)))
        rows = _measure(evaluator, candidates, processes, fuse_words=fuse_words)
        if not processes.is_first:
            return

    def draw(path: str) -> None:
        from ..analysis.figures.measured import plot_pairs

        similarities = {row.name: row.similarities.test for row in rows}
        plot_pairs(similarities, evaluator.labels, {row.name: row.scores.test.threshold for row in rows}, path)

    content = {
        "format": "graphdoc.pair_comparison/1",
        "data": {
            "documents": len(evaluator.documents),
            "pairs": len(evaluator.pairs),
            "similar": sum(evaluator.labels),
            "validation_pairs": len(evaluator.validation),
            "left_out": evaluator.left_out,
            "test_pairs_in_validation": evaluator.shared,
            "repeated": evaluator.pairs.repeated,
            "sections_left_out": dict(sections.counts),
        },
        "bootstrap": {"resamples": evaluator.resamples, "seed": evaluator.seed, "confidence": 0.95},
        "rows": [row.to_dict(rows[0]) for row in rows],
    }
    show(
        outputs,
        content,
        [table for table in (_scores(rows), _by_length(rows)) if table.rows],
        [*_notes(evaluator, sections.counts), *_findings(rows), *missing],
        report,
        csv=_all_scores(rows).write_csv,
        plot=draw,
    )


def _measure(
    evaluator: PairEvaluator, candidates: list[Candidate], processes: Processes, *, fuse_words: bool
) -> list[Row]:
    """Encode every candidate, and measure in the first process, with TF-IDF; those that give the same vectors once."""
    from ..evaluation.baselines import TFIDF
    from ..segmentation.spans import Coverage

    rows: list[Row] = []
    if processes.is_first:
        words = evaluator.tfidf()
        rows.append(Row(TFIDF, "words", words, evaluator.score(words)))
    for candidate, sharing in with_shared_passages(evaluator, candidates, processes):
        name, role, model = candidate.name, candidate.role, candidate.encoder.describe()
        coverage = Coverage()
        similarities = sharing.similarities(candidate.encoder, processes, totals=coverage)
        twin = next((row for row in rows[1:] if similarities.same_as(row.similarities)), None)
        if twin is not None:
            rows.append(replace(twin, name=name, role=role, model=model, same_as=twin.name))
        elif processes.is_first:
            rows.append(Row(name, role, similarities, evaluator.score(similarities), coverage, model))
            if fuse_words:
                fused = similarities.fused_with(evaluator.passage_words(candidate.encoder))
                scores = evaluator.score(fused)
                rows.append(Row(f"{name} + words", f"{role}, fused", fused, scores, coverage, model))
    return rows


def _scores(rows: list[Row]) -> Table:
    """A line for every row, over all test pairs."""
    # A terminal has no room for all intervals.
    short = {"precision": shown, "recall": shown}
    metrics = [Column(heading, short.get(name, half_interval)) for name, heading in HEADINGS.items()]
    result = Table([names("similarity of", LONGEST_NAME), Column("text", percent), *metrics])
    for row in rows:
        share = 1.0 if row.coverage is None else row.coverage.share
        result.add(row.name, share, *map(row.scores.test.estimate, HEADINGS))
    return result


def _by_length(rows: list[Row]) -> Table:
    """AUC of every row by the length of the longer document."""
    buckets = rows[0].scores.lengths
    # The corner has the unit.
    result = Table([names("AUC by words", LONGEST_NAME), *(bucket.name.replace(" words", "") for bucket in buckets)])
    result.add("pairs", *(bucket.scores.pairs for bucket in buckets))
    for row in rows:
        result.add(row.name, *(bucket.scores.estimate("auc") for bucket in row.scores.lengths))
    return result


def _all_scores(rows: list[Row]) -> Table:
    """A line for every row, with all pairs and by length."""
    ends = [name for metric in HEADINGS for name in (metric, f"{metric}_low", f"{metric}_high")]
    result = Table(["model", "role", "words", "pairs", "similar", "threshold", *ends])
    for row in rows:
        for words, scores in [("all", row.scores.test), *((part.name, part.scores) for part in row.scores.lengths)]:
            cells = [row.name, row.role, words, scores.pairs, scores.similar, scores.threshold]
            for metric in HEADINGS:
                cells += [scores.values[metric], *(scores.interval(metric) or (None, None))]
            result.add(*cells)
    return result


def _notes(evaluator: PairEvaluator, sections: Mapping[str, int]) -> list[str]:
    """What has to be known to read the tables, one line each."""
    chosen = counted(len(evaluator.validation), "validation pair")
    if not len(evaluator.validation):
        chosen = "the test pairs themselves: P, R, F1 and accuracy are upper bounds; give --validation-pairs"
    lines = [
        f"{counted(len(evaluator.pairs), 'test pair')}, {sum(evaluator.labels):,} similar, of "
        f"{counted(len(evaluator.documents), 'document')}",
        f"thresholds have the best F1 on {chosen}",
        f"intervals: 95 % of {counted(evaluator.resamples, 'bootstrap resample')} of the test pairs",
    ]
    reasons = {"unknown": "of documents that are not there", "with_themselves": "of a document with itself"}
    lines += [f"left out: {count:,} pairs {reasons[key]}" for key, count in evaluator.left_out.items() if count]
    if evaluator.shared:
        lines.append(f"{counted(evaluator.shared, 'test pair')} among the validation pairs as well")
    if repeated := evaluator.pairs.repeated:
        lines.append(f"{counted(repeated, 'test pair')} given before, and counted again")
    return [*lines, *(f"{counted(count, 'section')} {heading!r} left out" for heading, count in sections.items())]


def _findings(rows: list[Row]) -> list[str]:
    """By how much every other row is better than TF-IDF."""
    lines = []
    for row in rows[1:]:
        if row.same_as is not None:
            lines.append(f"{row.name} gives the same vectors as {row.same_as}")
            continue
        ahead = row.ahead_of(rows[0])
        parts = (f"{HEADINGS[name]} {signed_interval(ahead[name])}" for name in ("auc", "f1", "accuracy"))
        lines.append(f"against TF-IDF, {row.name}: {', '.join(parts)}")
    return lines
