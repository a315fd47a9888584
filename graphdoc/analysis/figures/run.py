"""Plots of the course of a training run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .canvas import (
    COLORS,
    LONGEST_LABELLED,
    count_in_whole_numbers,
    finish,
    new_figure,
)

if TYPE_CHECKING:
    pass


def plot_run(entries: Sequence[Mapping[str, Any]], path: str | Path | None) -> Figure:
    """Draw the course of a training run: its loss, and what was measured meanwhile (Graph-RoBERTa, figure 5).

    Args:
        entries: entries of the run's log; those with ``loss`` make the first panel, what begins with ``eval_`` the
            second.
        path: image file to write; None only returns the figure.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    measured: dict[str, dict[int, float]] = {}
    for entry in entries:
        for name, value in entry.items():
            if name.startswith("eval_"):
                measured.setdefault(name.removeprefix("eval_"), {})[entry["step"]] = value
    # What is no share has a scale of its own; the log has it.
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
