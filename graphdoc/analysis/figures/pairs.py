"""Plots of pairs: how well similarities separate similar pairs from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import roc_auc_score, roc_curve

from .canvas import COLORS, MUTED, finish, new_figure, shorten

MOST_BINS = 40
LONGEST_NAME = 44


def plot_pairs(
    similarities: Mapping[str, Any], labels: Sequence[int], thresholds: Mapping[str, float], path: str | Path | None
) -> Figure:
    """Draw the ROC curves of several ways to compare in one panel, and the similarities of each in one of its own.

    Args:
        similarities: ``(pairs,)`` by name; the pairs are the same for all.
        labels: ``(pairs,)``, 1 for pairs that belong together, else 0; both occur.
        thresholds: the threshold of each, by name.
        path: image file to write; None only returns the figure.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
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
        false, found, _ = roc_curve(truth, values)
        label = f"{shorten(name, LONGEST_NAME)}: {roc_auc_score(truth, values):.3f}"
        axes.plot(false, found, color=COLORS[number % len(COLORS)], linewidth=1.6, label=label)
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
