"""What an evaluation of explanations prints and writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..runtime.plain_text import markdown
from ..runtime.wording import counted
from .summaries import console, list_left_out, plain, table, written

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..evaluation.bootstrap import Estimate
    from ..evaluation.faithfulness.removal_curves import Kind
    from ..evaluation.faithfulness.scores import FaithfulnessScores
    from ..evaluation.faithfulness.study import FaithfulnessEvaluation

FORMAT = "graphdoc.faithfulness/1"
KINDS: tuple[Kind, Kind] = ("deletion", "insertion")
COLUMNS = ("model", "passages by", "deletion", "better than random", "insertion", "better than random")
LONGEST_NAME = 36
LEFT_OUT = {
    "unknown": ("pair", "left out for documents that are not there"),
    "with_themselves": ("pair", "of a document with itself left out"),
    "repeated": ("pair", "given before, and left out"),
    "one_passage": ("document", "of one passage, too short to be shortened"),
}


@dataclass(frozen=True)
class Row:
    """A model and what was measured of it."""

    name: str
    scores: FaithfulnessScores
    coverage: Mapping[str, Any]
    model: Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """All that is printed and written."""

    evaluation: FaithfulnessEvaluation
    rows: list[Row]
    report: ReadingReport

    @property
    def notes(self) -> list[str]:
        """What has to be known to read the tables, one line each."""
        evaluation, lines = self.evaluation, []
        for row in self.rows:
            scores, name = row.scores, f"{row.name}: " if len(self.rows) > 1 else ""
            documents, cases = counted(len(scores.documents), "document"), f"{len(scores.cases):,}"
            if evaluation.pairs is None:
                lines.append(f"{name}probability of the predicted class of {documents}")
            else:
                of = counted(len(evaluation.pairs), "pair")
                lines.append(f"{name}similarity of {of}; {documents} shortened, {cases} cases")
            lines += [f"{name}{note}" for note in scores.notes]
            for reason, count in scores.left_out.items():
                noun, why = LEFT_OUT[reason]
                if count:
                    lines.append(f"{name}{counted(count, noun)} {why}")
        intervals = "no intervals, which need two documents"
        if any(row.scores.samples is not None for row in self.rows):
            intervals = f"intervals: 95 % of {counted(evaluation.resamples, 'bootstrap resample')} of the documents"
        lines.append(f"random: mean of {counted(evaluation.orders, 'order')}; {intervals}")
        return lines

    @property
    def findings(self) -> list[str]:
        """By how much contributions explain better than what else there is, in words."""
        lines = []
        for row in self.rows:
            name = f"{row.name}: " if len(self.rows) > 1 else ""
            for other in row.scores.methods[1:-1]:
                parts = [f"{kind} {_signed(row.scores.ahead('contribution', kind, other))}" for kind in KINDS]
                lines.append(f"{name}contribution against {other}: {', '.join(parts)}")
        return lines


def to_json(measured: Measured) -> dict[str, Any]:
    """Everything as plain values."""
    evaluation = measured.evaluation
    return {
        "format": FORMAT,
        "data": {
            "documents": len(evaluation.documents),
            "pairs": None if evaluation.pairs is None else len(evaluation.pairs),
        },
        "steps": evaluation.steps,
        "random_orders": evaluation.orders,
        "bootstrap": {"resamples": evaluation.resamples, "seed": evaluation.seed, "confidence": 0.95},
        "rows": [
            {"name": row.name, **row.scores.to_dict(), "coverage": row.coverage, "model": row.model}
            for row in measured.rows
        ],
    }


def to_csv(measured: Measured) -> str:
    """A line for every point of every curve, with the ends of its band."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["model", "watched", "curve", "passages_by", "fraction", "value", "low", "high"])
    for row in measured.rows:
        scores = row.scores
        for kind in KINDS:
            for method in scores.methods:
                points = zip(
                    scores.fractions.tolist(),
                    scores.curve(method, kind).tolist(),
                    scores.band(method, kind),
                    strict=True,
                )
                for fraction, value, ends in points:
                    low, high = ends or (None, None)
                    writer.writerow([row.name, scores.watched, kind, method, round(fraction, 6), value, low, high])
    return target.getvalue()


def to_markdown(measured: Measured) -> str:
    """The table with its intervals, and what has to be known to read it."""
    rule = ["---", "---", *["---:"] * 4]
    lines = [COLUMNS, rule]
    for row in measured.rows:
        for method in row.scores.methods:
            lines.append([markdown(row.name), method, *_cells(row.scores, method)])
    text = "# Faithfulness\n\n" + "".join("| " + " | ".join(cells) + " |\n" for cells in lines) + "\n"
    text += "".join(f"- {markdown(line)}\n" for line in measured.notes)
    if measured.findings:
        text += "\nBetter by, in area:\n\n" + "".join(f"- {markdown(line)}\n" for line in measured.findings)
    return text


def print_tables(measured: Measured, paths: Iterable[str | None]) -> None:
    """Print the table for people to read, and which files were written."""
    target = console()
    shown = table(*((name, "left" if place < 2 else "right") for place, name in enumerate(COLUMNS)))
    for row in measured.rows:
        for number, method in enumerate(row.scores.methods):
            name = plain(row.name if not number else "", LONGEST_NAME)
            shown.add_row(name, method, *_cells(row.scores, method))
    target.print(shown)
    target.print()
    target.print("areas under the curves: what explains has less in deletion and more in insertion", soft_wrap=True)
    for line in [*measured.findings, *measured.notes]:
        target.print(plain(line), soft_wrap=True)
    list_left_out(target, measured.report)
    written(target, paths)


def _cells(scores: FaithfulnessScores, method: str) -> list[str]:
    cells = []
    for kind in KINDS:
        cells.append(f"{scores.area(method, kind).value:.3f}")
        cells.append("" if method == scores.methods[-1] else _signed(scores.ahead(method, kind)))
    return cells


def _signed(difference: Estimate) -> str:
    ends = f" [{difference.interval[0]:+.3f}, {difference.interval[1]:+.3f}]" if difference.interval else ""
    return f"{difference.value:+.3f}{ends}"
