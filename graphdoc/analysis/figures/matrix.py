"""The picture of many documents compared with each other: one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from .canvas import LONGEST_LABELLED, MAP, finish, new_figure, shorten, write_cells

MOST_WRITTEN = 14
# To find the best of all orders takes the third power of the number of documents.
_BEST_ORDER = 300


def plot_matrix(
    scores: npt.NDArray[np.float64], names: Sequence[str], similarity: str, model: str, path: str | Path | None
) -> Figure:
    """Draw the similarities of documents, those that are alike next to each other.

    Beyond 40 documents their names are left out, and the axes say so.

    Args:
        scores: ``(documents, documents)``, symmetric.
        names: names of the documents.
        similarity: what the scores are.
        model: what the vectors were made with.
        path: image file to write; None only returns the figure.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    count = len(scores)
    order = order_of(scores)
    shown = scores[np.ix_(order, order)]
    side = float(np.clip(0.36 * count, 4.5, 13))
    is_named = count <= LONGEST_LABELLED
    figure = new_figure(side + (4.4 if is_named else 1.6), side + (2.6 if is_named else 0.9))
    axes = figure.subplots()
    others = shown[~np.eye(count, dtype=bool)]
    # The diagonal, where every document meets itself, would take the colours from all others.
    image = axes.imshow(shown, cmap=MAP, vmin=float(others.min()), vmax=float(others.max()))
    figure.colorbar(image, ax=axes, label=similarity, fraction=0.045, pad=0.02, extend="max")
    if count <= MOST_WRITTEN:
        write_cells(axes, shown)
    if is_named:
        labels = [shorten(names[row], 44) for row in order]
        axes.set_yticks(range(count), labels, fontsize=8)
        labels = [shorten(names[row], 30) for row in order]
        axes.set_xticks(range(count), labels, fontsize=8, rotation=50, ha="right", rotation_mode="anchor")
    else:
        axes.set(
            xticks=[], yticks=[], xlabel=f"{count:,} documents, too many to be named", ylabel="the same documents"
        )
    axes.set_title(f"{count:,} documents, alike ones together, model {shorten(model, 40)}", loc="left", fontsize=11)
    return finish(figure, path)


def order_of(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """An order in which documents that are alike stand next to each other, by average linkage.

    Args:
        scores: ``(documents, documents)``, symmetric.
    """
    if len(scores) < 3:
        return np.arange(len(scores))
    distances = float(scores.max()) - (scores + scores.T) / 2
    np.fill_diagonal(distances, 0)
    condensed = squareform(distances, checks=False)
    tree = linkage(condensed, "average")
    if len(scores) <= _BEST_ORDER:
        tree = optimal_leaf_ordering(tree, condensed)
    return np.asarray(leaves_list(tree), np.int64)
