"""Plots of where the nodes of a document look."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...graphs.kinds import EdgeKind, NodeKind
from .canvas import COLORS, LONGEST_LABELLED, MUTED, count_in_whole_numbers, draw_matrix, finish, new_figure, shorten

if TYPE_CHECKING:
    from ...graphs.document_graph import DocumentGraph
    from ..attention import AttentionTable

HATCHES = ("", "////", "....", "xxxx")
# Beyond it headings would run into each other.
MOST_NAMED = 16
# Up to this number of nodes an adjacency matrix is drawn as an image, cell by cell; sparse ones may have more.
LARGEST_IMAGE = 4000


def plot_attention(table: AttentionTable, path: str | Path | None, layer: int, head: int | None) -> Figure:
    """Draw the document node's attention by node and, where nodes attend to each other, the whole matrix."""
    chosen = None if layer == -1 else layer
    weights = table.document_weights(chosen, head)
    has_matrix = bool(table.graph_layers) or table.is_chunkwise
    figure = new_figure(13.5 if has_matrix else 9.5, 5.4)
    panels = figure.subplots(1, 2, width_ratios=[1.6, 1]) if has_matrix else [figure.subplots()]
    _draw_document_weights(panels[0], table, weights, table.document_layer(chosen, head), head)
    if has_matrix:
        _draw_weights(panels[1], table, layer, head)
    figure.suptitle(shorten(table.segmented.document.title or table.segmented.document.id, 90), x=0.02, ha="left")
    return finish(figure, path)


def _draw_document_weights(axes: Axes, table: AttentionTable, weights: Any, layer: int, head: int | None) -> None:
    nodes, passages = np.arange(len(weights)), table.node_kind == NodeKind.PASSAGE
    sections = table.section_of
    numbers = list(dict.fromkeys(sections[passages].tolist()))
    order = {number: row for row, number in enumerate(numbers)}
    colors = [MUTED if number < 0 else COLORS[order[number] % len(COLORS)] for number in sections.tolist()]
    # Colours come again where there are many sections; hatches separate them.
    hatches = [HATCHES[order.get(number, 0) // len(COLORS) % len(HATCHES)] for number in sections.tolist()]
    axes.bar(nodes, weights, color=colors, width=0.85, hatch=hatches, edgecolor="white", linewidth=0)
    then = ", then sections" if NodeKind.SECTION in table.node_kind else ""
    axes.set(xlabel=f"node (0 = document node, then passages in reading order{then})", ylabel="attention weight")
    axes.set_xlim(-0.7, len(weights) - 0.3)
    count_in_whole_numbers(axes.xaxis)
    is_readout = layer == table.readout_layer
    seen = int((weights != 0).sum()) or 1
    axes.axhline(1 / seen, color=MUTED, linewidth=0.8, linestyle="--", zorder=0)
    axes.margins(y=0.12)
    name = f"{table.model.get('readout')} readout" if is_readout else f"document node, layer {layer}, {_heads(head)}"
    if is_readout and table.is_chunkwise:
        name = f"chunkwise attention, mean over passages, {_heads(head)}"
    if table.has_contributions:
        axes.set(xlabel="passage, in reading order", ylabel="share of the document vector", xlim=(0.3, None))
        axes.set_title("what each passage adds to the document vector (there is no graph)", loc="left", fontsize=11)
    else:
        axes.set_title(f"{name}: weight by node", loc="left", fontsize=11)
    text = f"dashed: even, 1/{seen}" + ("" if seen == len(weights) or table.has_contributions else "; no bar: no edge")
    axes.text(0.99, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=9, color=MUTED)
    if len(numbers) <= MOST_NAMED:
        # Headings stand where the bars are: hierarchical document nodes look at section nodes and at no passage.
        labelled = passages if weights[passages].any() else table.node_kind == NodeKind.SECTION
        ticks = [float(np.mean(nodes[(sections == number) & labelled])) for number in numbers]
        top = axes.secondary_xaxis("top")
        labels = [shorten(table.segmented.document.section_name(number), 30) for number in numbers]
        top.set_xticks(ticks, labels, rotation=28, ha="left", fontsize=8, color=MUTED)
        top.tick_params(length=0)
        top.spines["top"].set_visible(False)


def _draw_weights(axes: Axes, table: AttentionTable, layer: int, head: int | None) -> None:
    weights = np.ma.masked_equal(table.matrix(layer, head), 0.0)
    draw_matrix(axes, weights, "attention weight", norm=Normalize(vmin=0.0, vmax=float(weights.max())))
    axes.set(xlabel="source node", ylabel="target node")
    count_in_whole_numbers(axes.xaxis, axes.yaxis)
    name = f"layer {table.layer_number(layer)}, {_heads(head)}"
    axes.set_title(f"{name}: who attends to whom", loc="left", fontsize=11)


def _heads(head: int | None) -> str:
    return "mean over heads" if head is None else f"head {head}"


def plot_graph(graph: DocumentGraph, title: str, path: str | Path | None) -> Figure:
    """Draw the adjacency matrix of a document graph, one colour per edge kind."""
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
