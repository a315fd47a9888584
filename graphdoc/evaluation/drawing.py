"""Pictures of how well classes are predicted, and the page of a classifier's mistakes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..analysis.figures.canvas import COLORS, INK, MUTED, count_in_whole_numbers, finish, new_figure, shorten
from ..analysis.pages import page
from ..analysis.pages.marks import marked
from ..runtime.text import counted
from .classification import Calibration, ClassificationScores, Mistake

ACCENT = COLORS[0]
# Up to this number of classes each has its name at the axes, and up to the next a cell is large enough for its count.
LONGEST_LABELLED = 40
_MOST_WRITTEN = 24
_LONGEST_NAME = 30


def plot_confusion(scores: ClassificationScores, title: str, path: str | Path | None) -> Figure:
    """Draw which classes are taken for which: rows are labels, columns the classes that documents get.

    Colours are shares of a row, numbers are documents. With several labels, where no class is taken for another, bars
    show for every class how many documents get it rightly, miss it, or get it wrongly. Without a path the figure is
    only returned.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    if scores.confusion is None:
        return _plot_decisions(scores, title, path)
    counts = scores.confusion
    rows, columns = counts.shape
    longest = max(min(len(entry.label), _LONGEST_NAME) for entry in scores.classes)
    figure = new_figure(
        float(np.clip(columns * 0.4, 3.5, 15)) + 0.09 * longest + 1.4,
        float(np.clip(rows * 0.4, 3.0, 15)) + 0.07 * longest + 1.2,
    )
    axes: Axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", norm=Normalize(0, 1), aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=axes, label="share of the documents with the label", fraction=0.045, pad=0.02)
    if rows <= LONGEST_LABELLED:
        labels = [shorten(entry.label, _LONGEST_NAME) for entry in scores.classes]
        unknown = len(scores.unknown)
        axes.set_yticks(range(rows), [*labels[: rows - unknown], *(f"{name} (unknown)" for name in labels[columns:])])
        axes.set_xticks(range(columns), labels[:columns], rotation=40, ha="right", rotation_mode="anchor")
        axes.tick_params(labelsize=8)
    else:
        count_in_whole_numbers(axes.xaxis, axes.yaxis)
    if rows <= _MOST_WRITTEN:
        for row, column in np.argwhere(counts).tolist():
            color = "white" if shares[row, column] > 0.55 else INK
            axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", fontsize=7, color=color)
    axes.set(xlabel="class given", ylabel="label")
    axes.set_title(shorten(title, 90), loc="left", fontsize=11)
    return finish(figure, path)


def plot_reliability(calibration: Calibration, title: str, path: str | Path | None) -> Figure:
    """Draw how often predictions of a probability are right, and how many there are (see :func:`plot_confusion`)."""
    figure = new_figure(5.6, 6.4)
    upper: Axes
    lower: Axes
    upper, lower = figure.subplots(2, 1, height_ratios=[3, 1], sharex=True)
    counts = np.array(calibration.counts)
    bins = len(counts)
    middles = (np.arange(bins) + 0.5) / bins
    filled = counts > 0
    accuracies, confidences = np.array(calibration.accuracies), np.array(calibration.confidences)
    upper.plot([0, 1], [0, 1], color=MUTED, linestyle="--", linewidth=1, label="as sure as right")
    upper.bar(middles[filled], accuracies[filled], width=0.92 / bins, color=ACCENT, label="share that is right")
    upper.plot(
        *(confidences[filled], accuracies[filled]), "o", color=COLORS[1], ms=4, label="mean probability of the bin"
    )
    upper.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="right")
    figure.legend(*upper.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    lower.bar(middles, counts, width=0.92 / bins, color=MUTED)
    lower.set(xlabel="probability", ylabel="predictions")
    count_in_whole_numbers(lower.yaxis)
    upper.set_title(f"{shorten(title, 60)}\ncalibration error {calibration.error:.3f}", loc="left", fontsize=11)
    return finish(figure, path)


def _plot_decisions(scores: ClassificationScores, title: str, path: str | Path | None) -> Figure:
    """Bars of right, missed and wrong decisions by class, most frequent classes first."""
    ranked = sorted(scores.classes, key=lambda entry: -entry.documents)[:LONGEST_LABELLED]
    rows = np.arange(len(ranked))
    right = np.array([round(entry.recall * entry.documents) for entry in ranked])
    missed = np.array([entry.documents for entry in ranked]) - right
    wrong = np.array([entry.given for entry in ranked]) - right
    figure = new_figure(9.0, 1.8 + 0.3 * len(ranked))
    axes: Axes = figure.subplots()
    start = np.zeros(len(ranked))
    for name, values, color in (("right", right, ACCENT), ("missed", missed, MUTED), ("wrong", wrong, COLORS[1])):
        axes.barh(rows, values, left=start, color=color, label=name, height=0.75)
        start = start + values
    axes.set_yticks(rows, [shorten(entry.label, _LONGEST_NAME) for entry in ranked], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("documents")
    count_in_whole_numbers(axes.xaxis)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    more = f" ({len(ranked)} of {len(scores.classes)} classes)" if len(ranked) < len(scores.classes) else ""
    axes.set_title(shorten(title, 90) + more, loc="left", fontsize=11)
    return finish(figure, path)


# A page of twenty books would be slow to open; the whole text is a link away.
MOST_CHARACTERS = 20_000

_TEMPLATE = Path(__file__).parent / "mistakes.html"
_STYLE = Path(page.__file__).parent / "page.css"


def mistakes_page(
    mistakes: Sequence[Mistake],
    scores: ClassificationScores,
    model: str,
    places: Mapping[str, str] | None = None,
    passages: int = 3,
    folder: str | Path = ".",
) -> str:
    """The page of a classifier's mistakes, which needs no network.

    Args:
        mistakes: the mistakes, in the order in which they are shown.
        scores: what was measured on all documents.
        model: name of the model.
        places: where documents were found, by id: a file, or a file and the row in it.
        passages: most passages of a mistake.
        folder: where the page will lie, to which links to documents are relative.
    """
    folder = Path(os.path.realpath(folder))
    wrong = scores.documents - round(scores.accuracy * scores.documents)
    summary = (
        f"{wrong:,} of {counted(scores.documents, 'document')} got other labels than theirs "
        f"(accuracy {scores.accuracy:.3f}, macro F1 {scores.macro_f1:.3f})"
    )
    if mistakes:
        subject = "is the mistake" if len(mistakes) == 1 else f"are the {len(mistakes):,} mistakes"
        summary += f"; below {subject} that the model is most sure of"
    shown = []
    for mistake in mistakes:
        content = mistake.to_dict(passages)
        place = (places or {}).get(content["id"], "")
        shown.append(
            {**content, **_text_of(mistake, content["passages"]), "place": place, "href": _link(place, folder)}
        )
    return page.render(_TEMPLATE, {"model": model, "summary": f"{summary}.", "mistakes": shown}, styles=[_STYLE])


def _text_of(mistake: Mistake, listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sections of a document in marked and unmarked pieces, and what is left out of them."""
    sections, room, left_out = [], MOST_CHARACTERS, 0
    for number, section in enumerate(mistake.prediction.document.sections):
        text = section.text[:room]
        left_out += len(section.text) - len(text)
        room -= len(text)
        spans = [(entry["start"], entry["end"]) for entry in listed if entry["section"] == number]
        if text or not section.text:
            sections.append({"heading": section.heading, "pieces": marked(text, spans)})
    shown = f"{counted(left_out, 'more character')} are not shown" if left_out else ""
    return {"sections": sections, "left_out": shown}


def _link(place: str, folder: Path) -> str | None:
    """A link from a folder to the file that a place names; None if it names none."""
    file = place
    while file and not Path(file).is_file():
        # What follows the last colon is a row or line.
        file = file.rpartition(":")[0]
    return quote(Path(os.path.relpath(os.path.realpath(file), folder)).as_posix()) if file else None
