"""Plots of the sentences of a pair before and after their subtopics are found by a model (SST, figure 8)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ...documents.document import Document
from ...errors import DocumentError
from ...inference.learned_subtopics import AdaptiveSubtopics
from ...runtime.text import counted
from ...similarity.cosine import similarity_matrix
from .canvas import COLORS, INK, MAP, MUTED, count_in_whole_numbers, document_name, finish, new_figure, shorten


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
