"""Plots of the similarity of the parts of two documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure, SubFigure

from ...documents.document import Document
from ..pages.page import number as as_text
from ..projection import order_of
from .canvas import (
    COLORS,
    INK,
    LONGEST_LABELLED,
    MUTED,
    count_in_whole_numbers,
    draw_matrix,
    finish,
    new_figure,
    shorten,
    write_cells,
)

if TYPE_CHECKING:
    from ...runtime.arrays import Floats
    from ...similarity.background import Background
    from ...similarity.comparison import Comparison
    from ...similarity.encoded_document import EncodedDocument
    from ...similarity.mutual_comparison import MutualComparison

# Beyond them numbers in cells, or names of sections, would run into each other.
MOST_WRITTEN, MOST_WRITTEN_CELLS, MOST_NAMED_SECTIONS = 14, 150, 44
MOST_LETTERS_OF_A_TITLE = 130
PAIRS_OF_PASSAGES = 3
WIDTH = 15.0
_LETTERS_IN_A_LINE, _LINES = 98, 3
_SLANTED: dict[str, Any] = {"ha": "right", "rotation_mode": "anchor"}


def plot_comparison(comparison: Comparison, path: str | Path | None, level: Any) -> Figure:
    """Draw the similarity matrix of one level with headings on both axes."""
    scores = comparison.scores(level)
    rows, columns = scores.shape
    figure = new_figure(float(np.clip(columns * 0.42, 5.5, 15)) + 3.2, float(np.clip(rows * 0.42, 4.5, 15)) + 2.2)
    axes = figure.subplots()
    norm = Normalize(0.0, 1.0) if comparison.background else None
    draw_matrix(axes, scores, comparison.kind.vector_similarity, norm=norm, aspect="auto")
    names = [_name(side.segmented.document, 50) for side in (comparison.a, comparison.b)]
    if level == "section" and max(rows, columns) <= LONGEST_LABELLED:
        axes.set_yticks(range(rows), _section_names(comparison.a, 34), fontsize=9)
        axes.set_xticks(range(columns), _section_names(comparison.b, 34), fontsize=9, rotation=35, **_SLANTED)
        axes.set_ylabel(names[0], color=MUTED)
        axes.set_xlabel(names[1], color=MUTED)
        if scores.size <= MOST_WRITTEN_CELLS:
            write_cells(axes, scores)
    else:
        axes.set(ylabel=f"{level} of {names[0]}", xlabel=f"{level} of {names[1]}")
        count_in_whole_numbers(axes.xaxis, axes.yaxis)
        if level == "passage":
            for side, line in ((comparison.a, axes.axhline), (comparison.b, axes.axvline)):
                for place in np.flatnonzero(np.diff(side.section_rows)):
                    line(place + 0.5, color="white", linewidth=0.7)
    model = shorten(str(comparison.model.get("name")), 40)
    title = f"document similarity {comparison.document:.3f}, by {level}, model {model}"
    axes.set_title(title, loc="left", fontsize=11)
    return finish(figure, path)


def _name(document: Document, width: int) -> str:
    return shorten(document.title or document.id, width)


def _section_names(encoded: EncodedDocument, width: int) -> list[str]:
    document = encoded.segmented.document
    return [shorten(document.section_name(number), width) for number in encoded.section_numbers]


def plot_matrix(
    scores: Floats, names: Sequence[str], similarity: str, model: str, path: Any, background: Background | None = None
) -> Figure:
    """Draw the similarities of documents, those that are alike next to each other.

    Beyond 40 documents their names are left out, and the axes say so.
    """
    count = len(scores)
    order = order_of(scores)
    shown = scores[np.ix_(order, order)]
    side = float(np.clip(0.36 * count, 4.5, 13))
    is_named = count <= LONGEST_LABELLED
    figure = new_figure(side + (4.4 if is_named else 1.6), side + (2.6 if is_named else 0.9))
    # The constrained layout would cut names off beside cells that stay square.
    figure.set_layout_engine("compressed")
    axes = figure.subplots()
    draw_matrix(axes, shown, similarity, norm=_of_others(shown, background), extend="max")
    if count <= MOST_WRITTEN:
        write_cells(axes, shown)
    if is_named:
        axes.set_yticks(range(count), [shorten(names[row], 44) for row in order], fontsize=8)
        axes.set_xticks(range(count), [shorten(names[row], 30) for row in order], fontsize=8, rotation=50, **_SLANTED)
    else:
        axes.set(xticks=[], yticks=[], ylabel="the same documents")
        axes.set_xlabel(f"{count:,} documents, too many to be named")
    axes.set_title(f"{count:,} documents, alike ones together, model {shorten(model, 40)}", loc="left", fontsize=11)
    return finish(figure, path)


def plot_mutual_comparison(comparison: MutualComparison, path: str | Path | None) -> Figure:
    """Draw what documents have in common: documents, sections, passages, and the texts of their closest passages.

    Darker lines are higher similarity, as in the paper.
    """
    pairs = list(combinations(range(len(comparison.documents)), 2))
    heights = [5.6, 7.4, *[2.05] * len(pairs)]
    titles = [
        f"D{number} = {_name(encoded.segmented.document, MOST_LETTERS_OF_A_TITLE)}"
        for number, encoded in enumerate(comparison.documents, start=1)
    ]
    figure = new_figure(WIDTH, sum(heights) + 0.2 * (1 + len(titles)))
    levels, passages, *texts = figure.subfigures(2 + len(pairs), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_levels(levels, comparison)
    _draw_passages(passages, comparison)
    strongest = {pair: _strongest(comparison, *pair) for pair in pairs}
    scores = [score for closest in strongest.values() for _, _, score in closest]
    norm = Normalize(min(scores) - 0.3 * (max(scores) - min(scores) or 1.0), max(scores))
    for place, (pair, closest) in zip(texts, strongest.items(), strict=True):
        _draw_texts(place.subplots(), comparison, pair, closest, norm)
    titles.append(f"model {shorten(str(comparison.model.get('name')), 40)}, {comparison.similarity}")
    figure.suptitle("\n".join(titles), x=0.01, ha="left", fontsize=11)
    return finish(figure, path)


def _draw_levels(place: SubFigure, comparison: MutualComparison) -> None:
    documents, sections = place.subplots(1, 2, width_ratios=[1, 2.1])
    draw_matrix(documents, comparison.document_scores, comparison.similarity)
    write_cells(documents, comparison.document_scores)
    count = len(comparison.documents)
    _name_parts(documents, range(count + 1), [(number, 1, number, f"D{number + 1}") for number in range(count)])
    documents.set_title("(a) documents", loc="left", fontsize=11)
    scores = comparison.sections
    _draw_parts(sections, scores, comparison)
    if len(scores) <= MOST_WRITTEN:
        write_cells(sections, scores)
    parts = [
        (first + row, 1, number, f"{name}  D{number + 1}")
        for number, (first, encoded) in enumerate(zip(comparison.first_sections, comparison.documents, strict=False))
        for row, name in enumerate(_section_names(encoded, 30))
    ]
    _name_parts(sections, comparison.first_sections, parts)
    sections.set_title("(b) sections", loc="left", fontsize=11)


def _draw_passages(place: SubFigure, comparison: MutualComparison) -> None:
    attention, scores = comparison.attention, comparison.passages
    panels = place.subplots(1, 1 if attention is None else 2, squeeze=False)[0]
    parts = []
    for number, (first, encoded) in enumerate(zip(comparison.first_passages, comparison.documents, strict=False)):
        for row, name in enumerate(_section_names(encoded, 26)):
            members = np.flatnonzero(encoded.section_rows == row)
            parts.append((first + int(members[0]), len(members), number, f"{name}  D{number + 1}"))
    # Alone it takes the width of both, as the sections do above.
    _draw_parts(panels[0], scores, comparison, "auto" if attention is None else "equal")
    panels[0].set_title("(c) passages: similarity", loc="left", fontsize=11)
    if attention is not None:
        weights = np.ma.masked_equal(attention.mean(axis=0), 0.0)
        # Most weights are far below the largest; a square-root scale keeps both visible.
        draw_matrix(panels[1], weights, "attention weight", norm=PowerNorm(0.5, 0.0, float(weights.max())))
        panels[1].set_title("(d) passages: attention of rows to columns, mean over heads", loc="left", fontsize=11)
        panels[1].set_facecolor("#e8e8e8")
    for axes in panels:
        _name_parts(axes, comparison.first_passages, parts)


def _draw_parts(axes: Axes, scores: Floats, comparison: MutualComparison, aspect: str = "auto") -> None:
    norm = _of_others(scores, comparison.background)
    draw_matrix(axes, scores, comparison.kind.vector_similarity, norm=norm, aspect=aspect, extend="max")


def _of_others(scores: Floats, background: Background | None) -> Normalize:
    """A scale without the diagonal, where every part meets itself and would take the colours from all others.

    Where it is known how alike unrelated documents are, a score has the same colour in every figure.
    """
    others = scores[~np.eye(len(scores), dtype=bool)]
    return Normalize(0.0, 1.0) if background else Normalize(float(others.min()), float(others.max()))


def _name_parts(axes: Axes, firsts: Sequence[int], parts: Sequence[tuple[int, int, int, str]]) -> None:
    """Name the sections on both axes in the colours of their documents, and part the documents by lines.

    ``parts`` are first row, number of rows, document and name of every section.
    """
    if len(parts) > MOST_NAMED_SECTIONS:
        parts = [(first, end - first, number, f"D{number + 1}") for number, (first, end) in enumerate(pairwise(firsts))]
    middles = [first + (size - 1) / 2 for first, size, _, _ in parts]
    labels = [name for *_, name in parts]
    size = 8 if len(parts) <= 24 else 6.5
    axes.set_yticks(middles, labels, fontsize=size)
    axes.set_xticks(middles, labels, fontsize=size, rotation=50, **_SLANTED)
    for axis in (axes.xaxis, axes.yaxis):
        for label, (_, _, number, _) in zip(axis.get_ticklabels(), parts, strict=True):
            label.set_color(COLORS[number])
    for first, _, _, _ in parts[1:]:
        if first in firsts or len(parts) < firsts[-1]:
            for line in (axes.axhline, axes.axvline):
                line(first - 0.5, color="white", linewidth=2.4 if first in firsts else 0.5)


def _strongest(comparison: MutualComparison, i: int, j: int) -> list[tuple[int, int, float]]:
    """The closest passages of two documents: every passage once, best pairs first."""
    starts = comparison.first_passages
    scores = comparison.passages[starts[i] : starts[i + 1], starts[j] : starts[j + 1]].copy()
    closest: list[tuple[int, int, float]] = []
    for _ in range(min(PAIRS_OF_PASSAGES, *scores.shape)):
        row, column = (int(place) for place in np.unravel_index(np.argmax(scores), scores.shape))
        closest.append((row, column, float(scores[row, column])))
        scores[row], scores[:, column] = -np.inf, -np.inf
    return closest


def _draw_texts(
    axes: Axes,
    comparison: MutualComparison,
    pair: tuple[int, int],
    closest: Sequence[tuple[int, int, float]],
    norm: Normalize,
) -> None:
    """Write the closest passages of two documents in reading order, with a line for every pair."""
    axes.set(xlim=(0, 1), ylim=(PAIRS_OF_PASSAGES - 0.4, -0.6), xticks=[], yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_title(f"D{pair[0] + 1} and D{pair[1] + 1}: closest passages", loc="left", fontsize=10)
    heights: list[dict[int, int]] = []
    for side, (number, left) in enumerate(zip(pair, (0.0, 0.6), strict=True)):
        heights.append({row: place for place, row in enumerate(sorted(int(match[side]) for match in closest))})
        for row, place in heights[side].items():
            box = {"boxstyle": "round,pad=0.35", "fc": "#f7f5f0", "ec": COLORS[number], "lw": 1.1}
            text = _passage_text(comparison.documents[number], number, row)
            axes.text(left, place, text, fontsize=8, va="center", color=INK, linespacing=1.25, bbox=box)
    for row, column, score in closest:
        ends = [heights[0][row], heights[1][column]]
        darkness = float(norm(score))
        color = tuple(1 - darkness * (1 - part) for part in (0.12, 0.14, 0.19))
        axes.plot([0.45, 0.58], ends, color=color, linewidth=1.2 + 2.4 * darkness, solid_capstyle="round")
        axes.text(0.43, ends[0], as_text(score, 2), fontsize=8, ha="center", va="center", color=MUTED)


def _passage_text(encoded: EncodedDocument, number: int, row: int) -> str:
    segmented = encoded.segmented
    passage = segmented.passages[row]
    name = segmented.document.section_name(passage.section)
    text = shorten(segmented.text(passage), _LETTERS_IN_A_LINE * (_LINES - 1) - 8)
    return "\n".join([f"D{number + 1}, passage {row + 1}: {shorten(name, 56)}", *wrap(text, _LETTERS_IN_A_LINE)])
