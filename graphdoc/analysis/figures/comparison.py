"""Plots of the similarity of the parts of two documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .canvas import (
    LONGEST_LABELLED,
    MAP,
    MUTED,
    count_in_whole_numbers,
    document_name,
    finish,
    new_figure,
    shorten,
    write_cells,
)

if TYPE_CHECKING:
    from ...similarity.comparison import Comparison


def plot_comparison(comparison: Comparison, path: str | Path | None, level: Any) -> Figure:
    """Draw the similarity matrix of one level with headings on both axes.

    Args:
        comparison: the comparison.
        path: image file to write; None only returns the figure.
        level: ``section``, ``passage``, ``paragraph`` or ``sentence``.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    scores = comparison.scores(level)
    rows, columns = scores.shape
    width = float(np.clip(columns * 0.42, 5.5, 15)) + 3.2
    height = float(np.clip(rows * 0.42, 4.5, 15)) + 2.2
    figure = new_figure(width, height)
    axes = figure.subplots()
    image = axes.imshow(scores, cmap=MAP, aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=axes, label=comparison.similarity, fraction=0.045, pad=0.02)
    if level == "section" and max(rows, columns) <= LONGEST_LABELLED:
        _label_sections(axes, comparison)
        if rows * columns <= 150:
            write_cells(axes, scores)
    else:
        axes.set_ylabel(f"{level} of {shorten(document_name(comparison.a.segmented.document), 50)}")
        axes.set_xlabel(f"{level} of {shorten(document_name(comparison.b.segmented.document), 50)}")
        count_in_whole_numbers(axes.xaxis, axes.yaxis)
        if level == "passage":
            _draw_borders(axes, comparison)
    model = shorten(str(comparison.model.get("name")), 40)
    title = f"document similarity {comparison.document:.3f}, by {level}, model {model}"
    axes.set_title(title, loc="left", fontsize=11)
    return finish(figure, path)


def _label_sections(axes: Axes, comparison: Comparison) -> None:
    for side, encoded in (("y", comparison.a), ("x", comparison.b)):
        document = encoded.segmented.document
        labels = [shorten(document.section_name(number), 34) for number in encoded.section_numbers]
        if side == "y":
            axes.set_yticks(range(len(labels)), labels, fontsize=9)
            axes.set_ylabel(shorten(document_name(document), 60), color=MUTED)
        else:
            axes.set_xticks(range(len(labels)), labels, fontsize=9, rotation=35, ha="right", rotation_mode="anchor")
            axes.set_xlabel(shorten(document_name(document), 60), color=MUTED)


def _draw_borders(axes: Axes, comparison: Comparison) -> None:
    for place in np.flatnonzero(np.diff(comparison.a.section_rows)):
        axes.axhline(place + 0.5, color="white", linewidth=0.7)
    for place in np.flatnonzero(np.diff(comparison.b.section_rows)):
        axes.axvline(place + 0.5, color="white", linewidth=0.7)
