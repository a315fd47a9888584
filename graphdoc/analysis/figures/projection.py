"""Plots of document vectors in two dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .canvas import (
    COLORS,
    MUTED,
    finish,
    new_figure,
    shorten,
)

if TYPE_CHECKING:
    pass

# With the colours they separate 24 labels.
MARKERS = "o^s"
PANELS_IN_A_ROW = 2


def plot_projection(panels: Mapping[str, Any], labels: Sequence[str], path: str | Path | None) -> Figure:
    """Draw document vectors in two dimensions, one panel per model, one colour and shape per label.

    Args:
        panels: points ``(documents, 2)`` by name of the model; the documents are the same in all.
        labels: ``(documents,)``; beyond 24 the rarest ones share one colour.
        path: image file to write; None only returns the figure.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    columns = min(PANELS_IN_A_ROW, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(5.2 * columns + 2.6, 4.9 * rows)
    ranked = [label for label, _ in Counter(labels).most_common()]
    most = len(COLORS) * len(MARKERS)
    shown = sorted(ranked if len(ranked) <= most else ranked[: most - 1])
    looks = {label: (COLORS[n % len(COLORS)], MARKERS[n // len(COLORS)]) for n, label in enumerate(shown)}
    groups = {label: np.array([own == label for own in labels]) for label in shown}
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
