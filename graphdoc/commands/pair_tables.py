"""Tables of how well document vectors separate pairs: all pairs, by length, and pair by pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..runtime.text import markdown
from .measured_models import Skipped
from .tables import Column, Table, half_interval, names, percent, shown, whole_interval

if TYPE_CHECKING:
    from ..evaluation import ComparisonScores, PairEvaluator, PairSimilarities
    from ..segmentation.spans import Coverage

HEADINGS = {
    "precision": "P",
    "recall": "R",
    "f1": "F1",
    "accuracy": "accuracy",
    "auc": "AUC",
    "average_precision": "AP",
}
# As long as a backbone, what became of it, and all that it is fused with.
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

    def to_dict(self) -> dict[str, Any]:
        """Everything but the similarities as plain values for JSON."""
        return {
            "name": self.name,
            "role": self.role,
            "same_vectors_as": self.same_as,
            **self.scores.to_dict(),
            "coverage": self.coverage and self.coverage.to_dict(),
            "model": self.model,
        }


def score_table(rows: list[Row]) -> Table:
    """A line for every row, over all test pairs."""
    # A terminal has no room for all intervals.
    short = {"precision": shown, "recall": shown}
    metrics = [Column(head, short.get(name, half_interval), whole_interval) for name, head in HEADINGS.items()]
    result = Table(
        [names("similarity of", LONGEST_NAME), Column("text", percent), *metrics, Column("threshold", None)]
    )
    for row in rows:
        scores = row.scores.test
        share = 1.0 if row.coverage is None else row.coverage.share
        result.add(row.name, share, *(scores.estimate(name) for name in HEADINGS), scores.threshold)
    return result


def scores_by_length(rows: list[Row]) -> Table:
    """AUC of every row by the length of the longer document; no columns where lengths were not asked for."""
    buckets = rows[0].scores.lengths
    if not buckets:
        return Table([])
    # The corner has the unit.
    heads = [Column(bucket.name.replace(" words", ""), shown, whole_interval) for bucket in buckets]
    result = Table([names("AUC by words", LONGEST_NAME), *heads])
    result.add("pairs", *(bucket.scores.pairs for bucket in buckets))
    for row in rows:
        result.add(row.name, *(bucket.scores.estimate("auc") for bucket in row.scores.lengths))
    return result


def all_scores(rows: list[Row]) -> Table:
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


def scored_pairs(evaluator: PairEvaluator, rows: list[Row]) -> Table:
    """A line for every pair: its documents, label, length, and what every row gives it."""
    columns = [head for row in rows for head in (row.name, f"{row.name}: similar")]
    result = Table(["part", "id_a", "id_b", "label", "words", *columns])
    for part, pairs, words in (
        ("test", evaluator.pairs, evaluator.words.tolist()),
        ("validation", evaluator.validation, evaluator.validation_words.tolist()),
    ):
        for number, pair in enumerate(pairs):
            cells = [part, pair.a, pair.b, pair.label, words[number]]
            for row in rows:
                similarity = float(getattr(row.similarities, part)[number])
                cells += [round(similarity, 6), int(similarity >= row.scores.test.threshold)]
            result.add(*cells)
    return result


def pair_markdown(rows: list[Row], notes: list[str], findings: list[str], skipped: list[Skipped]) -> str:
    """The tables with their intervals, and what has to be known to read them."""

    def listed(lines: list[str]) -> str:
        return "".join(f"- {markdown(line)}\n" for line in lines)

    text = f"# Comparison of documents\n\n{score_table(rows).markdown()}\n{listed([*notes, *map(str, skipped)])}"
    if findings:
        text += f"\nAgainst TF-IDF, on the same resamples:\n\n{listed(findings)}"
    if (table := scores_by_length(rows)).rows:
        text += f"\nAUC by the length of the longer document:\n\n{table.markdown()}"
    return text
