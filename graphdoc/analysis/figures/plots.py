"""Plots of attention, similarity, graphs, clusters and the course of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...graphs.kinds import EdgeKind, NodeKind
from .canvas import COLORS, INK, MUTED, count_in_whole_numbers, finish, new_figure, shorten

if TYPE_CHECKING:
    from ...graphs.document_graph import DocumentGraph
    from ...similarity.comparison import Comparison
    from ..attention import AttentionTable

MAP = "viridis"
LONGEST_LABELLED = 40
# With the colours they tell 24 labels apart.
MARKERS = "o^s"
HATCHES = ("", "////", "....", "xxxx")
PANELS_IN_A_ROW = 2
# Up to this number of nodes an adjacency matrix is drawn as an image, cell by cell; sparse ones may have more.
LARGEST_IMAGE = 4000


def plot_attention(table: AttentionTable, path: str | Path | None, layer: int, head: int | None) -> Figure:
    """Draw the document node's attention by node and, where nodes attend to each other, the whole matrix.

    Args:
        table: the attention of one document.
        path: image file to write; None only returns the figure.
        layer: layer of the matrix.
        head: head to draw; None for the mean.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    chosen = None if layer == -1 else layer
    weights = table.document_weights(chosen, head)
    has_matrix = bool(table.graph_layers) or table.is_chunkwise
    figure = new_figure(13.5 if has_matrix else 9.5, 5.4)
    panels = figure.subplots(1, 2, width_ratios=[1.6, 1]) if has_matrix else [figure.subplots()]
    _draw_document_weights(panels[0], table, weights, table.document_layer(chosen, head), head)
    if has_matrix:
        _draw_matrix(figure, panels[1], table, layer, head)
    figure.suptitle(shorten(table.segmented.document.title or table.segmented.document.id, 90), x=0.02, ha="left")
    return finish(figure, path)


def plot_comparison(comparison: Comparison, path: str | Path | None, level: Any) -> Figure:
    """Draw the similarity matrix of one level with headings on both axes.

    Args:
        comparison: the comparison.
        path: image file to write; None only returns the figure.
        level: ``section``, ``passage`` or ``sentence``.

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
        axes.set_ylabel(f"{level} of {shorten(_name(comparison.a.segmented.document), 50)}")
        axes.set_xlabel(f"{level} of {shorten(_name(comparison.b.segmented.document), 50)}")
        count_in_whole_numbers(axes.xaxis, axes.yaxis)
        if level == "passage":
            _draw_borders(axes, comparison)
    model = shorten(str(comparison.model.get("name")), 40)
    title = f"document similarity {comparison.document:.3f}, by {level}, model {model}"
    axes.set_title(title, loc="left", fontsize=11)
    return finish(figure, path)


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
    # What is no share has a scale of its own, and is told by the log.
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


def write_cells(axes: Axes, scores: Any) -> None:
    """Write the values of a matrix into its cells.

    Args:
        axes: where its image is.
        scores: the matrix.
    """
    middle = (scores.min() + scores.max()) / 2
    for row, column in np.ndindex(scores.shape):
        value = float(scores[row, column])
        color = INK if value > middle else "white"
        # Adding zero takes the sign from a zero.
        axes.text(column, row, f"{round(value, 2) + 0.0:.2f}", ha="center", va="center", fontsize=8, color=color)


def _draw_document_weights(axes: Axes, table: AttentionTable, weights: Any, layer: int, head: int | None) -> None:
    nodes = np.arange(len(weights))
    sections = np.array(table.section_of)
    numbers = list(dict.fromkeys(sections[table.node_kind == NodeKind.PASSAGE].tolist()))
    order = {number: row for row, number in enumerate(numbers)}
    colors = [MUTED if number < 0 else COLORS[order[number] % len(COLORS)] for number in sections.tolist()]
    # Colours come again where there are many sections; hatches tell them apart.
    rounds = [0 if number < 0 else order[number] // len(COLORS) for number in sections.tolist()]
    hatches = [HATCHES[number % len(HATCHES)] for number in rounds]
    axes.bar(nodes, weights, color=colors, width=0.85, hatch=hatches, edgecolor="white", linewidth=0)
    then = ", then sections" if NodeKind.SECTION in table.node_kind else ""
    axes.set(xlabel=f"node (0 = document node, then passages in reading order{then})", ylabel="attention weight")
    axes.set_xlim(-0.7, len(weights) - 0.3)
    count_in_whole_numbers(axes.xaxis)
    is_readout = layer == table.readout_layer
    uniform = (
        is_readout and not table.is_chunkwise and float(np.ptp(weights[table.node_kind == NodeKind.PASSAGE])) < 1e-7
    )
    axes.margins(y=0.2 if uniform else 0.12)
    name = f"{table.model.get('readout')} readout" if is_readout else f"document node, layer {layer}, {_heads(head)}"
    if is_readout and table.is_chunkwise:
        name = f"chunkwise attention, mean over passages, {_heads(head)}"
    axes.set_title(f"{name}: weight by node", loc="left", fontsize=11)
    if uniform:
        axes.text(
            0.99,
            0.97,
            "a mean readout gives every passage the same weight;\na model with graph layers shows where it looks",
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=9,
            color=MUTED,
        )
    if len(numbers) <= 16:
        # Headings stand where the bars are: hierarchical document nodes look at section nodes and at no passage.
        passages = table.node_kind == NodeKind.PASSAGE
        labelled = passages if weights[passages].any() else table.node_kind == NodeKind.SECTION
        ticks = [float(np.mean(nodes[(sections == number) & labelled])) for number in numbers]
        top = axes.secondary_xaxis("top")
        document = table.segmented.document
        labels = [shorten(document.section_name(number), 30) for number in numbers]
        top.set_xticks(ticks, labels, rotation=28, ha="left", fontsize=8, color=MUTED)
        top.tick_params(length=0)
        top.spines["top"].set_visible(False)


def _draw_matrix(figure: Figure, axes: Axes, table: AttentionTable, layer: int, head: int | None) -> None:
    matrix = table.matrix(layer, head)
    shown = np.ma.masked_equal(matrix, 0.0)
    least, most = float(shown.min()), float(matrix.max())
    # Where most weights are far below the largest, a square-root scale keeps both visible; where all are alike, a
    # scale from the least to the largest shows what differs.
    alike = 0.25 * most < least < most
    norm = Normalize(vmin=least, vmax=most) if alike else PowerNorm(0.5, vmin=0.0, vmax=most)
    image = axes.imshow(shown, cmap=MAP, norm=norm, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="attention weight", fraction=0.046, pad=0.03)
    axes.set(xlabel="source node", ylabel="target node")
    count_in_whole_numbers(axes.xaxis, axes.yaxis)
    name = f"layer {table.layer_number(layer)}, {_heads(head)}"
    axes.set_title(f"{name}: who attends to whom", loc="left", fontsize=11)


def _label_sections(axes: Axes, comparison: Comparison) -> None:
    for side, encoded in (("y", comparison.a), ("x", comparison.b)):
        document = encoded.segmented.document
        labels = [shorten(document.section_name(number), 34) for number in encoded.section_numbers]
        if side == "y":
            axes.set_yticks(range(len(labels)), labels, fontsize=9)
            axes.set_ylabel(shorten(_name(document), 60), color=MUTED)
        else:
            axes.set_xticks(range(len(labels)), labels, fontsize=9, rotation=35, ha="right", rotation_mode="anchor")
            axes.set_xlabel(shorten(_name(document), 60), color=MUTED)


def _draw_borders(axes: Axes, comparison: Comparison) -> None:
    for place in np.flatnonzero(np.diff(comparison.a.section_rows)):
        axes.axhline(place + 0.5, color="white", linewidth=0.7)
    for place in np.flatnonzero(np.diff(comparison.b.section_rows)):
        axes.axvline(place + 0.5, color="white", linewidth=0.7)


def _heads(head: int | None) -> str:
    return "mean over heads" if head is None else f"head {head}"


def _name(document: Any) -> str:
    return str(document.title or document.id)
