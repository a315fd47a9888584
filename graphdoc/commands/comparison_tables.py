"""What an evaluation on pairs of documents prints and writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..runtime.plain_text import markdown
from ..runtime.wording import counted
from .summaries import console, list_left_out, plain, table, written

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..evaluation import ComparisonScores, PairEvaluator, PairScores, PairSimilarities
    from ..evaluation.bootstrap import Estimate

FORMAT = "graphdoc.pair_comparison/1"
HEADINGS = {
    "precision": "P",
    "recall": "R",
    "f1": "F1",
    "accuracy": "accuracy",
    "auc": "AUC",
    "average_precision": "AP",
}
LONGEST_NAME = 36


@dataclass(frozen=True)
class Row:
    """One line of the tables: a way to compare, what it is there for, and what was measured."""

    name: str
    role: str
    similarities: PairSimilarities
    scores: ComparisonScores
    coverage: Mapping[str, Any] | None = None
    model: Mapping[str, Any] | None = None
    same_as: str | None = None


@dataclass(frozen=True)
class Measured:
    """All that is printed and written; the first row is TF-IDF."""

    comparison: PairEvaluator
    rows: list[Row]
    skipped: list[dict[str, str]]
    sections: Mapping[str, int]
    report: ReadingReport
    differences: list[Mapping[str, Estimate]] = field(init=False)

    def __post_init__(self) -> None:
        from ..evaluation.pair_scores import differences

        first = self.rows[0].scores.test
        object.__setattr__(self, "differences", [differences(row.scores.test, first) for row in self.rows])

    @property
    def threshold(self) -> str:
        """How thresholds were chosen."""
        best = {"f1": "F1", "accuracy": "accuracy"}[self.comparison.by]
        if len(self.comparison.validation):
            return f"thresholds have the best {best} on {counted(len(self.comparison.validation), 'validation pair')}"
        return (
            f"thresholds have the best {best} on the test pairs themselves: P, R, F1 and accuracy are upper bounds; "
            "give --validation-pairs"
        )

    @property
    def notes(self) -> list[str]:
        """What has to be known to read the tables, one line each."""
        comparison = self.comparison
        pairs, similar = len(comparison.pairs), sum(comparison.labels)
        lines = [
            f"{counted(pairs, 'test pair')}, {similar:,} similar, of {counted(len(comparison.documents), 'document')}",
            self.threshold,
            f"intervals: 95 % of {counted(comparison.resamples, 'bootstrap resample')} of the test pairs",
        ]
        left_out = {"unknown": "of documents that are not there", "with_themselves": "of a document with itself"}
        told = [f"{comparison.left_out[key]:,} {words}" for key, words in left_out.items() if comparison.left_out[key]]
        if told:
            lines.append(f"pairs left out: {', '.join(told)}")
        if comparison.shared:
            lines.append(f"{counted(comparison.shared, 'test pair')} among the validation pairs as well")
        if repeated := comparison.pairs.repeated:
            lines.append(f"{counted(repeated, 'test pair')} given before, and counted again")
        for heading, count in self.sections.items():
            lines.append(f"{counted(count, 'section')} left out for the heading {heading!r}")
        return lines


def to_json(measured: Measured) -> dict[str, Any]:
    """Everything as plain values."""
    comparison = measured.comparison
    rows = [
        {
            "name": row.name,
            "role": row.role,
            "same_vectors_as": row.same_as,
            **row.scores.to_dict(),
            "more_than_words": {name: one.to_dict() for name, one in differences.items()},
            "coverage": row.coverage,
            "model": row.model,
        }
        for row, differences in zip(measured.rows, measured.differences, strict=True)
    ]
    return {
        "format": FORMAT,
        "data": {
            "documents": len(comparison.documents),
            "pairs": len(comparison.pairs),
            "similar": sum(comparison.labels),
            "validation_pairs": len(comparison.validation),
            "left_out": comparison.left_out,
            "test_pairs_in_validation": comparison.shared,
            "repeated": comparison.pairs.repeated,
            "sections_left_out": dict(measured.sections),
        },
        "threshold": {"by": comparison.by, "chosen_on": "validation" if len(comparison.validation) else "test"},
        "bootstrap": {"resamples": comparison.resamples, "seed": comparison.seed, "confidence": 0.95},
        "skipped": measured.skipped,
        "rows": rows,
    }


def to_csv(measured: Measured) -> str:
    """A line for every row, with all pairs and by length."""
    lines = []
    for row in measured.rows:
        parts = [("all", row.scores.test), *((part.name, part.scores) for part in row.scores.lengths)]
        for words, scores in parts:
            line = {"model": row.name, "role": row.role, "words": words, "pairs": scores.pairs}
            line |= {"similar": scores.similar, "threshold": scores.threshold}
            for name in HEADINGS:
                low, high = scores.interval(name) or (None, None)
                line |= {name: scores.values[name], f"{name}_low": low, f"{name}_high": high}
            lines.append(line)
    return _csv(list(lines[0]), (line.values() for line in lines))


def to_scored_pairs(measured: Measured) -> str:
    """A line for every pair: its documents, label, length, and what every row gives it."""
    comparison = measured.comparison
    columns = ["part", "id_a", "id_b", "label", "words"]
    for row in measured.rows:
        columns += [row.name, f"{row.name}: similar"]
    parts = [("test", comparison.pairs, comparison.words.tolist())]
    parts.append(("validation", comparison.validation, comparison.validation_words.tolist()))
    lines = []
    for part, pairs, words in parts:
        for number, pair in enumerate(pairs):
            line: list[Any] = [part, pair.a, pair.b, pair.label, words[number]]
            for row in measured.rows:
                similarity = float(getattr(row.similarities, part)[number])
                line += [f"{similarity:.6f}", int(similarity >= row.scores.test.threshold)]
            lines.append(line)
    return _csv(columns, lines)


def _csv(columns: Sequence[str], lines: Iterable[Iterable[Any]]) -> str:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(lines)
    return target.getvalue()


def to_markdown(measured: Measured) -> str:
    """The tables with their intervals, and what has to be known to read them."""
    text = "# Comparison of documents\n\n"
    text += _markdown_table(
        ["similarity", *HEADINGS.values(), "threshold"],
        [
            [markdown(row.name), *(_with_interval(row.scores.test, name) for name in HEADINGS), _threshold(row)]
            for row in measured.rows
        ],
    )
    text += "\n".join(f"- {markdown(line)}" for line in measured.notes) + "\n"
    if lines := _told(measured):
        text += "\nAgainst TF-IDF, on the same resamples:\n\n"
        text += "\n".join(f"- {markdown(line)}" for line in lines) + "\n"
    for entry in measured.skipped:
        text += f"- {markdown(_not_measured(entry))}\n"
    if buckets := measured.rows[0].scores.lengths:
        text += "\nAUC by the length of the longer document:\n\n"
        heads = [f"{part.name} ({counted(part.scores.pairs, 'pair')})" for part in buckets]
        text += _markdown_table(
            ["similarity", *heads],
            [
                [markdown(row.name), *(_with_interval(part.scores, "auc") for part in row.scores.lengths)]
                for row in measured.rows
            ],
        )
    return text


def _markdown_table(heads: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in (heads, rule, *lines)) + "\n"


def _with_interval(scores: PairScores, name: str) -> str:
    value, ends = scores.values[name], scores.interval(name)
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else "")


def _threshold(row: Row) -> str:
    return f"{row.scores.test.threshold:.3f}"


def _half(scores: PairScores, name: str) -> str:
    """A value with half of its interval, as a terminal has room for."""
    value, ends = scores.values[name], scores.interval(name)
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" ± {(ends[1] - ends[0]) / 2:.3f}" if ends else "")


def _told(measured: Measured) -> list[str]:
    """By how much every other row is better than TF-IDF."""
    lines = []
    for row, differences in zip(measured.rows[1:], measured.differences[1:], strict=True):
        if row.same_as is None:
            parts = []
            for name in ("auc", "f1", "accuracy"):
                one = differences[name]
                ends = f" [{one.interval[0]:+.3f}, {one.interval[1]:+.3f}]" if one.interval else ""
                parts.append(f"{HEADINGS[name]} {one.value:+.3f}{ends}")
            lines.append(f"{row.name}: {', '.join(parts)}")
    return lines


def _not_measured(entry: Mapping[str, str]) -> str:
    return f"not measured: {entry['name']} ({entry['role']}): {entry['reason']}"


def print_tables(measured: Measured, paths: Iterable[str | None]) -> None:
    """Print the tables for people to read, and which files were written."""
    target = console()
    ranked = ("f1", "accuracy", "auc", "average_precision")
    shown = table(("similarity of", "left"), ("text", "right"), *((head, "right") for head in HEADINGS.values()))
    for row in measured.rows:
        read = row.coverage and row.coverage["encoded_characters"] / max(row.coverage["characters"], 1)
        cells = ["100%" if read is None else f"{read:.0%}"]
        cells += [_half(row.scores.test, name) if name in ranked else f"{row.scores.test.values[name]:.3f}"
                  for name in HEADINGS]  # fmt: skip
        shown.add_row(plain(row.name, LONGEST_NAME), *cells)
    target.print(shown)
    target.print()
    if buckets := measured.rows[0].scores.lengths:
        shown = table(("AUC by words", "left"), *((_short(part.name), "right") for part in buckets))
        shown.add_row("pairs", *(f"{part.scores.pairs:,}" for part in buckets))
        for row in measured.rows:
            values = [part.scores.values["auc"] for part in row.scores.lengths]
            cells = ["-" if value is None else f"{value:.3f}" for value in values]
            shown.add_row(plain(row.name, LONGEST_NAME), *cells)
        target.print(shown)
        target.print()
    for line in measured.notes:
        target.print(plain(line), soft_wrap=True)
    for line in _told(measured):
        target.print(plain(f"against TF-IDF, {line}"), soft_wrap=True)
    for row in measured.rows:
        if row.same_as is not None:
            target.print(plain(f"{row.name} gives the same vectors as {row.same_as}"), soft_wrap=True)
    for entry in measured.skipped:
        target.print(plain(_not_measured(entry)), soft_wrap=True)
    list_left_out(target, measured.report)
    written(target, paths)


def _short(name: str) -> str:
    """A bucket's name without its unit, which the table has in its corner."""
    return name.replace(" words", "")
