"""What an evaluation of predicted classes prints and writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..runtime.wording import counted
from .summaries import MOST_ROWS, console, list_left_out, more_rows, plain, table, written

if TYPE_CHECKING:
    from rich.console import Console

    from ..documents.readers import ReadingReport
    from ..evaluation import ClassificationScores, LabelledDocuments
    from ..evaluation.classification import ExplainedMistake
    from ..segmentation.coverage import Coverage

FORMAT = "graphdoc.classification/1"
SHOWN_MISTAKES = 5
_MOST_NAMED = 10


@dataclass(frozen=True)
class Row:
    """One line of the table: who gave the labels, what it is there for, and what was measured."""

    name: str
    role: str
    scores: ClassificationScores


@dataclass(frozen=True)
class Measured:
    """All that is printed and written; the first row is the model.

    Args:
        name: name of the model.
        model: what the predictions were made with.
        rows: the model and what it is held against.
        mistakes: the mistakes that the model is most sure of.
        labelled: the documents that were measured, and those that were left out.
        classes: names of the classes that the model knows.
        threshold: probability from which on a document gets a class; None where it gets the most likely one.
        exact: whether contributions of passages are exact.
        totals: what of the documents was encoded.
        shared_ids: ids that occur in train and in test.
        learned_from: train documents of the baseline; None without one.
        report: what became of all that was found.
    """

    name: str
    model: Mapping[str, Any]
    rows: list[Row]
    mistakes: list[ExplainedMistake]
    labelled: LabelledDocuments
    classes: tuple[str, ...]
    threshold: float | None
    exact: bool
    totals: Coverage
    shared_ids: int
    learned_from: int | None
    report: ReadingReport


def to_json(measured: Measured, passages: int) -> dict[str, Any]:
    """Everything as plain values for JSON.

    Args:
        measured: what was measured.
        passages: most passages of a mistake.
    """
    places = measured.report.places or {}
    return {
        "format": FORMAT,
        "model": dict(measured.model),
        "classes": list(measured.classes),
        "multi_label": measured.labelled.multi_label,
        "threshold": measured.threshold,
        "data": {
            "documents": len(measured.labelled),
            "without_label": len(measured.labelled.without_label),
            "with_several_labels": len(measured.labelled.with_several),
            "train": measured.learned_from,
            "ids_in_train_and_test": measured.shared_ids,
        },
        "coverage": measured.totals.to_dict(),
        "rows": [{"name": row.name, "role": row.role, **row.scores.to_dict()} for row in measured.rows],
        "contributions": "exact" if measured.exact else "gradients",
        "mistakes": [
            {**mistake.to_dict(passages), "place": places.get(mistake.prediction.id)} for mistake in measured.mistakes
        ],
    }


def to_csv(measured: Measured) -> str:
    """The table by class of every row as CSV."""
    target = io.StringIO()
    lines = csv.DictWriter(
        target,
        ["name", "role", "label", "precision", "recall", "f1", "documents", "given"],
        lineterminator="\n",
    )
    lines.writeheader()
    for row in measured.rows:
        for scores in row.scores.classes:
            lines.writerow({"name": row.name, "role": row.role, **asdict(scores)})
    return target.getvalue()


def print_tables(measured: Measured, files: Iterable[str | None]) -> None:
    """Print what was measured, what was left out, and which files were written."""
    target = console()
    _print_rows(target, measured)
    _print_classes(target, measured.rows[0].scores)
    _print_mistakes(target, measured)
    _print_notes(target, measured)
    list_left_out(target, measured.report)
    written(target, files)


def _print_rows(target: Console, measured: Measured) -> None:
    several = measured.labelled.multi_label
    columns = [("labels by", "left"), ("kind", "left"), ("all right" if several else "accuracy", "right")]
    columns += [("micro F1", "right")] if several else []
    columns += [("macro F1", "right"), ("calibration error", "right")]
    shown = table(*columns)
    for row in measured.rows:
        scores = row.scores
        cells = [f"{scores.accuracy:.3f}", *([f"{scores.micro_f1:.3f}"] if several else []), f"{scores.macro_f1:.3f}"]
        cells.append("" if scores.calibration is None else f"{scores.calibration.error:.3f}")
        shown.add_row(plain(row.name, 44), plain(row.role), *cells)
    target.print(shown)
    target.print()


def _print_classes(target: Console, scores: ClassificationScores) -> None:
    columns = ("precision", "recall", "F1", "documents", "given")
    shown = table(("label", "left"), *((name, "right") for name in columns))
    for entry in scores.classes[:MOST_ROWS]:
        name = f"{entry.label} (unknown to the model)" if entry.label in scores.unknown else entry.label
        numbers = (f"{value:.3f}" for value in (entry.precision, entry.recall, entry.f1))
        shown.add_row(plain(name, 60), *numbers, f"{entry.documents:,}", f"{entry.given:,}")
    target.print(shown)
    more_rows(target, MOST_ROWS, len(scores.classes), "label")
    target.print()


def _print_mistakes(target: Console, measured: Measured) -> None:
    if not measured.mistakes:
        return
    target.print("[bold]mistakes that the model is most sure of[/bold]")
    for explained in measured.mistakes[:SHOWN_MISTAKES]:
        mistake = explained.mistake
        does = "misses" if mistake.missed else "gets"
        labels = ", ".join(explained.truth) or "none"
        line = f"{mistake.confidence:.3f} {explained.prediction.id} {does} {mistake.label}, labelled {labels}"
        target.print(plain(line, 118), no_wrap=True, overflow="ellipsis")
    target.print()


def _print_notes(target: Console, measured: Measured) -> None:
    labelled, scores = measured.labelled, measured.rows[0].scores
    line = f"{counted(len(labelled), 'document')} with labels, {len(measured.classes):,} classes"
    if measured.learned_from is not None:
        line += f"; {measured.rows[1].name} learned from {counted(measured.learned_from, 'train document')}"
    target.print(plain(line))
    if labelled.without_label or labelled.with_several:
        without, several = len(labelled.without_label), len(labelled.with_several)
        target.print(f"left out: {without:,} without a label, {several:,} with several or an empty list")
    if scores.unknown:
        names = [f"{name} ({count:,})" for name, count in list(scores.unknown.items())[:_MOST_NAMED]]
        more = ", ..." if len(scores.unknown) > _MOST_NAMED else ""
        known = "" if scores.accuracy_known is None else f"; without these documents {scores.accuracy_known:.3f}"
        note = f"labels that the model does not know count as missed: {', '.join(names)}{more}{known}"
        target.print(plain(note), soft_wrap=True)
    if measured.shared_ids:
        target.print(f"{measured.shared_ids:,} ids occur in train and in test")
