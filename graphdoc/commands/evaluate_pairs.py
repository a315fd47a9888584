"""graphdoc evaluate compare: does its similarity separate similar pairs of documents from others?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..documents.readers import ReadingReport
from ..errors import EvaluationError
from ..runtime.imports import quick_imports
from ..runtime.text import counted
from .evaluate import MeasuredRow, load_candidates, prepared_for, show
from .options import File, Json, MeasuredModels
from .output import Outputs, Table, TableColumn, half_interval, names, shown, signed_interval, whole_percent
from .sources import CorpusReading

if TYPE_CHECKING:
    from ..evaluation import PairEvaluator

METRICS = {"precision": "P", "recall": "R", "f1": "F1", "accuracy": "accuracy", "auc": "AUC", "average_precision": "AP"}
# Long enough for a backbone, what was done to it, and what it is fused with.
LONGEST_NAME = 52


def evaluate_compare(
    *corpus: str,
    pairs: str,
    validation_pairs: str | None = None,
    leave_out_section: tuple[str, ...] = (),
    fuse_words: bool = False,
    baseline: str | None = None,
    json: Json = None,
    csv: File = None,
    plot: File = None,
    model: MeasuredModels = MeasuredModels(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Measure how well the similarity by which a model compares two documents separates labelled pairs.

    That is the similarity of their vectors, or what the name of a row says.

    AUC and average precision of pairs that belong together against pairs that do not, and precision, recall, F1 and
    accuracy at a threshold. The threshold has the best F1 on the validation pairs; without them on the test pairs
    themselves, so that these four are upper bounds. All have 95 % bootstrap intervals over pairs. TF-IDF cosine, which
    goes by words alone, is measured on the same pairs, and so is the backbone of every model before training.

    Usage examples:
      graphdoc evaluate compare corpus.jsonl --pairs test.tsv --validation-pairs dev.tsv --model runs/a/model

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
        from ..evaluation.baselines import TFIDF
        from ..runtime.processes import Processes, usable_device

    rows: list[MeasuredRow] = []
    with Processes(usable_device(model.device)) as processes:
        test = read_pair_file(pairs)
        validation = Pairs(()) if validation_pairs is None else read_pair_file(validation_pairs)
        report = ReadingReport()
        sections = LeftOutSections(tuple(dict.fromkeys(leave_out_section)))
        wanted = {id for part in (test, validation) for pair in part for id in (pair.a, pair.b)}
        read = sections.without(reading.documents(corpus, report))
        documents = [document for document in read if document.id in wanted]
        if unused := [heading for heading, count in sections.counts.items() if not count]:
            raise EvaluationError(f"no document has a section {unused[0]!r} (--leave-out-section)")
        candidates, missing = load_candidates(model, baseline)
        documents = list(reading.encodable(documents, candidates[0].encoder, corpus, report))
        unknown = "leave_out" if reading.on_error == "skip" else "stop"
        evaluator = PairEvaluator(documents, test, validation, unknown=unknown)  # type: ignore[arg-type]
        if processes.is_first:
            words = evaluator.tfidf()
            rows.append(MeasuredRow(TFIDF, "words", evaluator.score(words), values=words))
        for candidate, prepared, coverage in prepared_for(candidates, evaluator, processes):
            similarities = prepared.similarities(candidate.encoder, processes, totals=coverage)
            name = candidate.name if candidate.encoder.evidence is None else f"{candidate.name}, evidence"
            measured = [(name, candidate.role, similarities)]
            if fuse_words and processes.is_first:
                fused = evaluator.fused(similarities, evaluator.tfidf(candidate.encoder))
                measured.append((f"{name} + words", f"{candidate.role}, fused", fused))
            about = candidate.encoder.describe()
            for name, role, values in measured if processes.is_first else ():
                rows.append(MeasuredRow(name, role, evaluator.score(values), coverage, about, values))
        if not processes.is_first:
            return

    def draw(path: str) -> None:
        from ..analysis.figures.measured import plot_pairs

        thresholds = {row.name: row.scores.test.threshold for row in rows}
        plot_pairs({row.name: row.values[: len(evaluator.pairs)] for row in rows}, evaluator.labels, thresholds, path)

    found = {row.name: row.scores.test.estimates for row in rows}
    ahead = {row: {name: one - found[rows[0].name][name] for name, one in own.items()} for row, own in found.items()}
    content = {
        "format": "graphdoc.pair_comparison/1",
        "data": {
            "documents": len(evaluator.documents),
            "pairs": len(evaluator.pairs),
            "similar": sum(evaluator.labels),
            "validation_pairs": len(evaluator.validation),
            "left_out": evaluator.left_out,
            "test_pairs_in_validation": evaluator.repeated_in_validation,
            "repeated": evaluator.pairs.repeated,
            "sections_left_out": dict(sections.counts),
        },
        "bootstrap": {"resamples": evaluator.resamples, "seed": evaluator.seed, "confidence": 0.95},
        "rows": [
            row.to_dict() | {"more_than_words": {name: more.to_dict() for name, more in ahead[row.name].items()}}
            for row in rows
        ],
    }
    findings = [
        f"against TF-IDF, {row.name}: "
        + ", ".join(f"{METRICS[name]} {signed_interval(ahead[row.name][name])}" for name in ("auc", "f1", "accuracy"))
        for row in rows[1:]
    ]
    # A terminal has no room for all intervals.
    short = {"precision": shown, "recall": shown}
    metrics = [TableColumn(heading, short.get(name, half_interval)) for name, heading in METRICS.items()]
    table = Table([names("similarity of", LONGEST_NAME), TableColumn("text", whole_percent), *metrics])
    # The corner has the unit.
    buckets = rows[0].scores.lengths
    by_length = Table([names("AUC by words", LONGEST_NAME), *(name.replace(" words", "") for name in buckets)])
    by_length.add("pairs", *(scores.pairs for scores in buckets.values()))
    for row in rows:
        share = 1.0 if row.coverage is None else row.coverage.share
        table.add(row.name, share, *map(row.scores.test.estimates.get, METRICS))
        by_length.add(row.name, *(scores.estimates.get("auc") for scores in row.scores.lengths.values()))
    notes = [*_notes(evaluator, sections.counts), *findings, *missing]
    show(outputs, content, [table, by_length], notes, report, csv=_all_scores(rows).write_csv, plot=draw)


def _all_scores(rows: list[MeasuredRow]) -> Table:
    ends = [name for metric in METRICS for name in (metric, f"{metric}_low", f"{metric}_high")]
    result = Table(["model", "role", "words", "pairs", "similar", "threshold", *ends])
    for row in rows:
        for words, scores in {"all": row.scores.test, **row.scores.lengths}.items():
            plain = scores.to_dict()
            cells = [row.name, row.role, words, scores.pairs, scores.similar, scores.threshold]
            for metric in METRICS:
                cells += [plain[metric], *(plain["intervals"][metric] or (None, None))]
            result.add(*cells)
    return result


def _notes(evaluator: PairEvaluator, sections: Mapping[str, int]) -> list[str]:
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
    if shared := evaluator.repeated_in_validation:
        lines.append(f"{counted(shared, 'test pair')} among the validation pairs as well")
    return [*lines, *(f"{counted(count, 'section')} {heading!r} left out" for heading, count in sections.items())]
