"""What all plots share: matplotlib's own canvas, so that no display is needed, colours, and files."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...errors import OutputError
from ...runtime.files import write_atomically
from ...runtime.text import one_line, require_path

INK, MUTED = "#1f2430", "#7a8190"
COLORS = ["#2f6f8f", "#c8693a", "#4f8a4c", "#8a5a9e", "#b3923b", "#a8485a", "#52796f", "#5b6abf"]
MAP = "viridis"
# Beyond it, names and points are too many to be shown one by one.
LONGEST_LABELLED = 40
IMAGE_SUFFIXES = (".png", ".svg", ".pdf")

logger = logging.getLogger(__name__)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, measured in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def finish(figure: Figure, path: str | Path | None) -> Figure:
    """Give all panels of a figure the same look, and write it as PNG, SVG or PDF where a file is named."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(color=MUTED)
    if path is not None:
        require_path("path", path)
        if Path(path).suffix.lower() not in IMAGE_SUFFIXES:
            raise OutputError(f"{path} has no image suffix; use one of {', '.join(IMAGE_SUFFIXES)}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=150))
        missing = {str(warning.message) for warning in caught if "missing from font" in str(warning.message)}
        if missing:
            logger.warning("%s: %d characters of headings are not in the font and show as boxes", path, len(missing))
    return figure


def shorten(text: str, width: int) -> str:
    """Text from outside on one line of limited length, as a figure can show it."""
    # A dollar sign would start mathematics in matplotlib.
    return one_line(text, width).replace("$", r"\$")


def count_in_whole_numbers(*axes: Axis) -> None:
    """Put ticks at whole numbers only."""
    for axis in axes:
        # Left to itself the locator takes fractions rather than show a single number.
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def draw_matrix(
    axes: Axes, values: Any, label: str, norm: Normalize | None = None, aspect: str = "equal", extend: str = "neither"
) -> None:
    """Draw a matrix as coloured cells, with a bar that says what the colours mean (options are matplotlib's)."""
    image = axes.imshow(values, cmap=MAP, norm=norm, aspect=aspect, interpolation="nearest")  # type: ignore[arg-type]
    axes.figure.colorbar(image, ax=axes, label=label, extend=extend, fraction=0.046, pad=0.03)


def write_cells(axes: Axes, scores: Any) -> None:
    """Write the values of a matrix into the cells of its image."""
    middle = sum(axes.images[-1].get_clim()) / 2
    for row, column in np.ndindex(scores.shape):
        value = float(scores[row, column])
        color = INK if value > middle else "white"
        # Adding zero takes the sign from a zero.
        axes.text(column, row, f"{round(value, 2) + 0.0:.2f}", ha="center", va="center", fontsize=8, color=color)
