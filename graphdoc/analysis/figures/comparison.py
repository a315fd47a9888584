"""Plots of the similarity of the parts of two documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure, SubFigure

from ...documents.document import Document
from ...errors import DocumentError
from ...inference.learned_subtopics import AdaptiveSubtopics
from ...runtime.text import counted
from ...similarity.cosine import similarity_matrix
from ..pages.page import number as as_text
from ..projection import order_of
from .canvas import (
    COLORS,
    INK,
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
    from ...similarity.cosine import Floats
    from ...similarity.encoded_document import EncodedDocument
    from ...similarity.mutual_comparison import MutualComparison


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


MOST_WRITTEN = 14


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


# Beyond it the names of sections would run into each other; the documents stay named.
MOST_NAMED_SECTIONS = 44
MOST_WRITTEN_SECTIONS = 14
MOST_LETTERS_OF_A_TITLE = 130
PAIRS_OF_PASSAGES = 3
WIDTH = 15.0
_LETTERS_IN_A_LINE, _LINES = 98, 3


def plot_mutual_comparison(comparison: MutualComparison, path: str | Path | None) -> Figure:
    """Draw what documents have in common, within and across.

    The first row has documents and sections, the second passages (similarity, and chunkwise attention where the model
    has it, as mean over heads), then one row for every two documents with the texts of their closest passages. Darker
    lines are higher similarity, as in the paper.

    Args:
        comparison: two documents or more; five are still readable.
        path: image file to write; None only returns the figure.

    Raises:
        OutputError: the file cannot be written or its suffix is unknown.
    """
    pairs = list(combinations(range(len(comparison.documents)), 2))
    heights = [5.6, 7.4, *[2.05] * len(pairs)]
    named = [
        f"D{number} = {shorten(_name(encoded), MOST_LETTERS_OF_A_TITLE)}"
        for number, encoded in enumerate(comparison.documents, start=1)
    ]
    figure = new_figure(WIDTH, sum(heights) + 0.2 * (1 + len(named)))
    levels, passages, *texts = figure.subfigures(2 + len(pairs), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_levels(levels, comparison)
    _draw_passages(passages, comparison)
    strongest = {pair: _strongest(comparison, *pair) for pair in pairs}
    scores = [score for found in strongest.values() for _, _, score in found]
    norm = Normalize(min(scores) - 0.3 * (max(scores) - min(scores) or 1.0), max(scores))
    for place, ((i, j), found) in zip(texts, strongest.items(), strict=True):
        _draw_texts(place.subplots(), comparison, i, j, found, norm)
    model = shorten(str(comparison.model.get("name")), 40)
    named.append(f"model {model}, {comparison.similarity}")
    figure.suptitle("\n".join(named), x=0.01, ha="left", fontsize=11)
    return finish(figure, path)


def _draw_levels(place: SubFigure, comparison: MutualComparison) -> None:
    documents, sections = place.subplots(1, 2, width_ratios=[1, 2.1])
    scores = comparison.document_scores
    image = documents.imshow(scores, cmap=MAP)
    place.colorbar(image, ax=documents, label=comparison.similarity, fraction=0.046, pad=0.03)
    write_cells(documents, scores)
    names = [f"D{number}" for number in range(1, len(scores) + 1)]
    documents.set_xticks(range(len(scores)), names)
    documents.set_yticks(range(len(scores)), names)
    for axis in (documents.xaxis, documents.yaxis):
        _colour(axis.get_ticklabels(), list(range(len(scores))))
    documents.set_title("(a) documents", loc="left", fontsize=11)
    scores = comparison.sections
    image = sections.imshow(scores, cmap=MAP, norm=_of_others(scores), aspect="auto", interpolation="nearest")
    place.colorbar(image, ax=sections, label=comparison.similarity, extend="max", fraction=0.046, pad=0.02)
    if len(scores) <= MOST_WRITTEN_SECTIONS:
        write_cells(sections, scores)
    parts = [
        (first + row, 1, number, f"{shorten(encoded.segmented.document.section_name(section), 30)}  D{number + 1}")
        for number, (first, encoded) in enumerate(zip(comparison.first_sections, comparison.documents, strict=False))
        for row, section in enumerate(encoded.section_numbers)
    ]
    _name_parts(sections, comparison.first_sections, parts)
    sections.set_title("(b) sections", loc="left", fontsize=11)


def _draw_passages(place: SubFigure, comparison: MutualComparison) -> None:
    attention = comparison.attention
    panels = place.subplots(1, 1 if attention is None else 2, squeeze=False)[0]
    parts = []
    for number, (first, encoded) in enumerate(zip(comparison.first_passages, comparison.documents, strict=False)):
        for row, section in enumerate(encoded.section_numbers):
            members = np.flatnonzero(encoded.section_rows == row)
            name = shorten(encoded.segmented.document.section_name(section), 26)
            parts.append((first + int(members[0]), len(members), number, f"{name}  D{number + 1}"))
    image = panels[0].imshow(
        comparison.passages,
        cmap=MAP,
        norm=_of_others(comparison.passages),
        # Alone it takes the width of both, as the sections do above.
        aspect="auto" if attention is None else "equal",
        interpolation="nearest",
    )
    place.colorbar(image, ax=panels[0], label=comparison.similarity, extend="max", fraction=0.04, pad=0.02)
    panels[0].set_title("(c) passages: similarity", loc="left", fontsize=11)
    if attention is not None:
        shown = np.ma.masked_equal(attention.mean(axis=0), 0.0)
        # Most weights are far below the largest; a square-root scale keeps both visible.
        image = panels[1].imshow(
            shown, cmap=MAP, norm=PowerNorm(0.5, 0.0, float(shown.max())), interpolation="nearest"
        )
        place.colorbar(image, ax=panels[1], label="attention weight", fraction=0.04, pad=0.02)
        panels[1].set_title("(d) passages: attention of rows to columns, mean over heads", loc="left", fontsize=11)
        panels[1].set_facecolor("#e8e8e8")
    for axes in panels:
        _name_parts(axes, comparison.first_passages, parts)


def _of_others(scores: Floats) -> Normalize:
    """A scale without the diagonal, where every part meets itself and would take the colours from all others."""
    others = scores[~np.eye(len(scores), dtype=bool)]
    return Normalize(float(others.min()), float(others.max()))


def _name_parts(axes: Axes, firsts: Sequence[int], parts: Sequence[tuple[int, int, int, str]]) -> None:
    """Name the sections on both axes in the colours of their documents, and part the documents by lines.

    Args:
        axes: where the matrix is.
        firsts: first row of every document, and the number of rows.
        parts: first row, number of rows, document and name of every section.
    """
    if len(parts) > MOST_NAMED_SECTIONS:
        parts = [
            (first, end - first, number, f"D{number + 1}") for number, (first, end) in enumerate(pairwise(firsts))
        ]
    middles = [first + (size - 1) / 2 for first, size, _, _ in parts]
    labels = [name for *_, name in parts]
    size = 8 if len(parts) <= 24 else 6.5
    axes.set_yticks(middles, labels, fontsize=size)
    axes.set_xticks(middles, labels, fontsize=size, rotation=50, ha="right", rotation_mode="anchor")
    for axis in (axes.xaxis, axes.yaxis):
        _colour(axis.get_ticklabels(), [number for _, _, number, _ in parts])
    for first, _, _, _ in parts[1:]:
        if first in firsts:
            axes.axhline(first - 0.5, color="white", linewidth=2.4)
            axes.axvline(first - 0.5, color="white", linewidth=2.4)
        elif len(parts) < firsts[-1]:
            axes.axhline(first - 0.5, color="white", linewidth=0.5)
            axes.axvline(first - 0.5, color="white", linewidth=0.5)


def _strongest(comparison: MutualComparison, i: int, j: int) -> list[tuple[int, int, float]]:
    """The closest passages of two documents: every passage once, best pairs first."""
    starts = comparison.first_passages
    scores = comparison.passages[starts[i] : starts[i + 1], starts[j] : starts[j + 1]].copy()
    found: list[tuple[int, int, float]] = []
    for _ in range(min(PAIRS_OF_PASSAGES, *scores.shape)):
        row, column = (int(place) for place in np.unravel_index(np.argmax(scores), scores.shape))
        found.append((row, column, float(scores[row, column])))
        scores[row], scores[:, column] = -np.inf, -np.inf
    return found


def _draw_texts(
    axes: Axes,
    comparison: MutualComparison,
    i: int,
    j: int,
    pairs: Sequence[tuple[int, int, float]],
    norm: Normalize,
) -> None:
    """Write the closest passages of two documents in reading order, with a line for every pair."""
    axes.set(xlim=(0, 1), ylim=(PAIRS_OF_PASSAGES - 0.4, -0.6), xticks=[], yticks=[])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_title(f"D{i + 1} and D{j + 1}: closest passages", loc="left", fontsize=10)
    heights = []
    for side, number in enumerate((i, j)):
        encoded = comparison.documents[number]
        rows = sorted(int(pair[side]) for pair in pairs)
        heights.append({row: place for place, row in enumerate(rows)})
        for place, row in enumerate(rows):
            axes.text(
                (0.0, 0.6)[side],
                place,
                _passage_text(encoded, number, row),
                fontsize=8,
                va="center",
                color=INK,
                linespacing=1.25,
                bbox={"boxstyle": "round,pad=0.35", "fc": "#f7f5f0", "ec": COLORS[number], "lw": 1.1},
            )
    for row, column, score in pairs:
        left, right = heights[0][row], heights[1][column]
        darkness = float(norm(score))
        color = tuple(1 - darkness * (1 - part) for part in (0.12, 0.14, 0.19))
        axes.plot([0.45, 0.58], [left, right], color=color, linewidth=1.2 + 2.4 * darkness, solid_capstyle="round")
        axes.text(0.43, left, as_text(score, 2), fontsize=8, ha="center", va="center", color=MUTED)


def _passage_text(encoded: EncodedDocument, number: int, row: int) -> str:
    segmented = encoded.segmented
    passage = segmented.passages[row]
    name = segmented.document.section_name(passage.section)
    text = shorten(segmented.text(passage), _LETTERS_IN_A_LINE * (_LINES - 1) - 8)
    return "\n".join([f"D{number + 1}, passage {row + 1}: {shorten(name, 56)}", *wrap(text, _LETTERS_IN_A_LINE)])


def _colour(labels: Sequence[Any], documents: Sequence[int]) -> None:
    for label, number in zip(labels, documents, strict=True):
        label.set_color(COLORS[number])


def _name(encoded: EncodedDocument) -> str:
    document = encoded.segmented.document
    return str(document.title or document.id)


def plot_adaptive_subtopics(
    finder: AdaptiveSubtopics,
    a: Document,
    b: Document,
    path: str | Path | None = None,
    *,
    cluster_size: int | None = None,
    receptive_field: int | None = None,
) -> Figure:
    """Draw how alike the sentences of two documents are, by their vectors and by the subtopics that they belong to.

    The left map has cosines between sentence vectors, the right one cosines between the rows of the assignment: 1 for
    two sentences that belong to the same subtopics, 0 for two that have none in common. Lines part the documents.

    Args:
        finder: a model that has learned to find subtopics.
        a: first document.
        b: second document.
        path: image file to write (PNG, SVG or PDF by its suffix); None only returns the figure.
        cluster_size: sentences of a subtopic, about; None for those that the model was trained with.
        receptive_field: sentences of a document that are shown, its first ones; None for as many as in training.

    Raises:
        DocumentError: a document has no text.
        OutputError: the file cannot be written or its suffix is unknown.
    """
    most = receptive_field or finder.settings.receptive_field
    features, beyond = [], 0
    for document in (a, b):
        cut = finder.segmenter.segment(document)
        if not cut.passages:
            raise DocumentError(f"document {document.id!r} has no text to find subtopics in")
        beyond += max(len(cut.passages) - most, 0)
        features.append(finder.features([cut.text(span) for span in cut.passages[:most]]))
    first, second = features
    vectors = np.concatenate(features)
    assigned = finder.assignments(first, second, cluster_size=cluster_size)
    number = len(np.unique(assigned.argmax(axis=1)))
    figure = new_figure(12, 6.2)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, title, matrix in (
        (panels[0], "before: by vectors", similarity_matrix(vectors, vectors, "cosine")),
        (panels[1], f"after: by {number} subtopics", similarity_matrix(assigned, assigned, "cosine")),
    ):
        image = axes.imshow(matrix, cmap=MAP, norm=Normalize(0, 1), interpolation="nearest")
        axes.set_title(title, loc="left", fontsize=11, pad=20)
        _part(axes, len(first), len(vectors))
        count_in_whole_numbers(axes.xaxis, axes.yaxis)
    figure.colorbar(image, ax=panels, label="cosine", fraction=0.03, pad=0.02)
    names = [shorten(document_name(document), 60) for document in (a, b)]
    panels[0].set_ylabel("sentence")
    cut_off = f"; not shown: {counted(beyond, 'more sentence')}" if beyond else ""
    figure.supxlabel(f"A  {names[0]}    B  {names[1]}{cut_off}", fontsize=9, color=MUTED)
    return finish(figure, path)


def _part(axes: Axes, first: int, sentences: int) -> None:
    """Mark the ranges of both documents."""
    for line in (axes.axhline, axes.axvline):
        line(first - 0.5, color=COLORS[1], linewidth=1.5)
    for name, middle in (("A", (first - 1) / 2), ("B", (first + sentences - 1) / 2)):
        axes.text(middle, -0.8, name, ha="center", va="bottom", color=INK, fontsize=10)
