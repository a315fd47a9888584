"""Plots of what was measured: pairs, vectors in two dimensions, classes, and the course of a training run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import roc_auc_score, roc_curve

from .canvas import COLORS, INK, LONGEST_LABELLED, MUTED, count_in_whole_numbers, finish, new_figure, shorten

MOST_BINS = 40
LONGEST_NAME = 44
# With the colours they separate 24 labels.
MARKERS = "o^s"
# Up to this number of classes a cell of a confusion matrix is large enough for its count.
_MOST_COUNTS = 24


def plot_pairs(
    similarities: Mapping[str, Any], labels: Sequence[int], thresholds: Mapping[str, float], path: str | Path | None
) -> Figure:
    """Draw the ROC curves of several ways to compare, and in a panel each the similarities of labelled pairs."""
    panels = 1 + len(similarities)
    columns = 2 if panels <= 4 else 3
    rows = -(-panels // columns)
    figure = new_figure(4.6 * columns, 4.1 * rows)
    curves, *histograms = figure.subplots(rows, columns, squeeze=False).flat
    truth = np.asarray(labels) == 1
    _draw_curves(curves, similarities, truth)
    for number, (axes, (name, values)) in enumerate(zip(histograms, similarities.items(), strict=False)):
        _draw_histogram(axes, np.asarray(values), truth, thresholds[name], COLORS[number % len(COLORS)])
        axes.set_title(shorten(name, LONGEST_NAME), loc="left", fontsize=11)
    for axes in figure.axes[panels:]:
        axes.set_axis_off()
    return finish(figure, path)


def _draw_curves(axes: Axes, similarities: Mapping[str, Any], truth: Any) -> None:
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=":")
    for number, (name, values) in enumerate(similarities.items()):
        false_rates, true_rates, _ = roc_curve(truth, values)
        label = f"{shorten(name, LONGEST_NAME)}: {roc_auc_score(truth, values):.3f}"
        axes.plot(false_rates, true_rates, color=COLORS[number % len(COLORS)], linewidth=1.6, label=label)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    axes.set(xlabel="share of dissimilar pairs above the threshold", ylabel="share of similar pairs above it")
    axes.legend(loc="lower right", frameon=False, fontsize=8, title="area under the curve", title_fontsize=8)
    axes.set_title("ROC", loc="left", fontsize=11)


def _draw_histogram(axes: Axes, values: Any, truth: Any, threshold: float, color: str) -> None:
    low, high = float(values.min()), float(values.max())
    bins = np.linspace(low, high, min(MOST_BINS, 6 + len(values) // 20)).tolist() if low < high else 1
    for chosen, look, name in ((~truth, MUTED, "dissimilar"), (truth, color, "similar")):
        axes.hist(values[chosen], bins=bins, color=look, alpha=0.6, label=f"{int(chosen.sum()):,} {name}")
    axes.axvline(threshold, color="black", linewidth=1, linestyle="--", label=f"threshold {threshold:.3f}")
    axes.set(xlabel="similarity", ylabel="pairs")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=8)


def plot_projection(panels: Mapping[str, Any], labels: Sequence[str], path: str | Path | None) -> Figure:
    """Draw vectors as points ``(documents, 2)``, a panel for every model, a colour and shape for every label."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(5.2 * columns + 2.6, 4.9 * rows)
    ranked = [label for label, _ in Counter(labels).most_common()]
    most = len(COLORS) * len(MARKERS)
    shown = sorted(ranked if len(ranked) <= most else ranked[: most - 1])
    looks = {label: (COLORS[n % len(COLORS)], MARKERS[n // len(COLORS)]) for n, label in enumerate(shown)}
    groups = {label: np.array([other == label for other in labels]) for label in shown}
    if len(shown) < len(ranked):
        others = f"{len(ranked) - len(shown)} others"
        looks[others], groups[others] = (MUTED, "x"), np.array([label not in looks for label in labels])
    axes: Axes
    for axes, (name, points) in zip(figure.subplots(rows, columns, squeeze=False).flat, panels.items(), strict=False):
        for label, (color, marker) in looks.items():
            x, y = points[groups[label]].T
            axes.scatter(x, y, s=13, c=color, marker=marker, alpha=0.8, linewidths=0.6, label=shorten(label, 26))
        axes.set(xticks=[], yticks=[])
        axes.set_title(shorten(name, 56), loc="left", fontsize=11)
    for axes in figure.axes[len(panels) :]:
        axes.set_axis_off()
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=8, markerscale=1.4)
    return finish(figure, path)


def plot_confusion(counts: npt.NDArray[np.int64], names: Sequence[str], title: str, path: str | Path | None) -> Figure:
    """Draw which classes are taken for which; colours are shares of a row."""
    rows, columns = counts.shape
    labels = [shorten(name, LONGEST_NAME) for name in names]
    figure = new_figure(*(float(np.clip(0.4 * size, 3.5, 15)) + 3 for size in (columns, rows)))
    axes: Axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", norm=Normalize(0, 1), aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=axes, label="share of the documents with the label", fraction=0.045, pad=0.02)
    if rows <= LONGEST_LABELLED:
        axes.set_yticks(range(rows), labels, fontsize=8)
        axes.set_xticks(range(columns), labels[:columns], fontsize=8, rotation=40, ha="right", rotation_mode="anchor")
    for row, column in np.argwhere(counts).tolist() if rows <= _MOST_COUNTS else ():
        color = "white" if shares[row, column] > 0.55 else INK
        axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", fontsize=7, color=color)
    axes.set(xlabel="class given", ylabel="label")
    axes.set_title(shorten(title, 90), loc="left", fontsize=11)
    return finish(figure, path)


def plot_run(entries: Sequence[Mapping[str, Any]], path: str | Path | None) -> Figure:
    """Draw the course of a training run: its loss, and what was measured (Graph-RoBERTa, figure 5)."""
    measured: dict[str, dict[int, float]] = {}
    for entry in entries:
        for name, value in entry.items():
            if name.startswith("eval_") and value is not None:
                measured.setdefault(name.removeprefix("eval_"), {})[entry["step"]] = value
    # Only shares fit on one scale; the log has the rest.
    shares = {name: points for name, points in measured.items() if all(0 <= value <= 1 for value in points.values())}
    losses = [("trained on", {entry["step"]: entry["loss"] for entry in entries if "loss" in entry})]
    if "loss" in measured:
        losses.append(("held out", measured["loss"]))
    curves = {"loss": losses, **({"measured": list(shares.items())} if shares else {})}
    figure = new_figure(5.5 * len(curves), 4.2)
    axes: Axes
    for axes, (title, lines) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        for number, (name, points) in enumerate(lines):
            marker = "o" if len(points) <= LONGEST_LABELLED else None
            color = COLORS[number % len(COLORS)]
            axes.plot(list(points), list(points.values()), color=color, marker=marker, ms=3, label=name)
        axes.set_title(title, loc="left", fontsize=11)
        axes.set_xlabel("step")
        count_in_whole_numbers(axes.xaxis)
        axes.legend(frameon=False, fontsize=8)
    return finish(figure, path)
