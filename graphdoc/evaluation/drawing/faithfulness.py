"""Plots of deletion and insertion curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...analysis.figures.canvas import COLORS, MUTED, finish, new_figure, shorten
from ..faithfulness.removal_curves import Kind
from ..faithfulness.scores import FaithfulnessScores

LONGEST_NAME = 36
# A method has its colour in all panels, also where another one is not measured.
METHOD_COLORS = {"contribution": COLORS[0], "attention": COLORS[1], "words": COLORS[2], "random": MUTED}


def plot_faithfulness(measured: Mapping[str, FaithfulnessScores], path: str | Path | None = None) -> Figure:
    """Draw the curves of models, one row of panels each: deletion on the left, insertion on the right.

    Bands are the middle 95 % of the bootstrap resamples at every point.

    Args:
        measured: what was measured, by the name of the model; at least one.
        path: image file to write; None only returns the figure.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    figure = new_figure(9.6, 3.9 * len(measured))
    panels = figure.subplots(len(measured), 2, squeeze=False, sharey="row")
    kinds: tuple[Kind, Kind] = ("deletion", "insertion")
    for row, (name, scores) in zip(panels, measured.items(), strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            _draw(axes, scores, kind)
            axes.set_title(f"{shorten(name, LONGEST_NAME)}: {kind}", loc="left", fontsize=11)
        row[0].set_ylabel(scores.watched)
    return finish(figure, path)


def _draw(axes: Axes, scores: FaithfulnessScores, kind: Kind) -> None:
    for method in scores.methods:
        color = METHOD_COLORS[method]
        label = f"{method}: {scores.area(method, kind).value:.3f}"
        style = ":" if method == "random" else "-"
        axes.plot(
            scores.fractions, scores.curve(method, kind), color=color, linewidth=1.6, linestyle=style, label=label
        )
        ends = [one for one in scores.band(method, kind) if one is not None]
        if ends:
            low, high = np.array(ends).T
            axes.fill_between(scores.fractions, low, high, color=color, alpha=0.15, linewidth=0)
    done = "taken out" if kind == "deletion" else "put in"
    axes.set(xlim=(0, 1), xlabel=f"share of passages {done}")
    wanted = "less is better" if kind == "deletion" else "more is better"
    axes.legend(frameon=False, fontsize=8, title=f"area ({wanted})", title_fontsize=8)
