"""Plots of document graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...graphs.kinds import EdgeKind
from .canvas import COLORS, LONGEST_LABELLED, count_in_whole_numbers, finish, new_figure, shorten

if TYPE_CHECKING:
    from ...graphs.joined_graphs import DocumentGraph

# Up to this number of nodes an adjacency matrix is drawn as an image, cell by cell; sparse ones may have more.
LARGEST_IMAGE = 4000


def plot_graph(graph: DocumentGraph, title: str, path: str | Path | None) -> Figure:
    """Draw the adjacency matrix of a document graph, one colour per edge kind.

    Args:
        graph: the graph.
        title: what to write above it.
        path: image file to write; None only returns the figure.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    figure = new_figure(8.2, 6.4)
    axes = figure.subplots()
    (source, target), kinds, nodes = graph.edge_index.numpy(), graph.edge_kind.numpy(), int(graph.num_nodes)
    if nodes <= LARGEST_IMAGE:
        cells = np.zeros((nodes, nodes), np.uint8)
        cells[target, source] = kinds + 1
        norm = Normalize(0, len(COLORS))
        axes.imshow(cells, cmap=ListedColormap(["white", *COLORS]), norm=norm, interpolation="nearest")
        if nodes <= LONGEST_LABELLED:
            axes.set_xticks(np.arange(nodes + 1) - 0.5, minor=True)
            axes.set_yticks(np.arange(nodes + 1) - 0.5, minor=True)
            axes.grid(which="minor", color="white", linewidth=1.5)
            axes.tick_params(which="minor", length=0)
    else:
        axes.scatter(source, target, s=1, c=[COLORS[kind] for kind in kinds.tolist()], linewidths=0, rasterized=True)
    axes.set(xlim=(-0.5, nodes - 0.5), ylim=(nodes - 0.5, -0.5), aspect="equal")
    axes.set(xlabel="source node (0 = document)", ylabel="target node")
    count_in_whole_numbers(axes.xaxis, axes.yaxis)
    patches = [Patch(color=COLORS[kind], label=EdgeKind(kind).label) for kind in sorted(set(kinds.tolist()))]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    axes.set_title(shorten(title, 70), loc="left", fontsize=11)
    return finish(figure, path)
