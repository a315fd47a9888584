"""Plots of several documents: what they have in common, and their subtopics."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

from graphdoc.analysis.figures.comparison import MOST_NAMED_SECTIONS, plot_adaptive_subtopics
from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError
from graphdoc.inference.learned_subtopics import AdaptiveSubtopics
from graphdoc.settings.document import ClusteringSettings
from graphdoc.similarity.mutual_comparison import MutualComparison

EncoderFactory = Callable[..., DocumentEncoder]
COLDE: dict[str, Any] = {"readout": "sections", "graph_layers": 0, "projection_size": None}


def make(encoder: DocumentEncoder, *parts: int, heading: str = "Part") -> MutualComparison:
    documents = [
        Document(
            f"d{n}",
            tuple(Section(f"Words of number {m} in {n}.", f"{heading} {n}.{m}") for m in range(count)),
            f"Title {n}",
        )
        for n, count in enumerate(parts, start=1)
    ]
    return encoder.compare_all(documents)


def texts_of(figure: Figure) -> list[str]:
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def titles(figure: Figure) -> list[str]:
    return [title for axes in figure.axes if (title := axes.get_title(loc="left"))]


def matrix(figure: Figure, letter: str) -> np.ma.MaskedArray:
    axes = next(axes for axes in figure.axes if axes.get_title(loc="left").startswith(f"({letter})"))
    return axes.images[0].get_array()


def test_all_levels_of_three_documents_with_attention(tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
    comparison = make(tiny_encoder("bert", **COLDE), 2, 3, 2)
    figure = comparison.plot(tmp_path / "new" / "levels.png")
    assert min(imread(tmp_path / "new" / "levels.png").shape[:2]) > 1000
    np.testing.assert_array_equal(matrix(figure, "a"), comparison.document_scores)
    np.testing.assert_array_equal(matrix(figure, "b"), comparison.sections)
    np.testing.assert_array_equal(matrix(figure, "c"), comparison.passages)
    assert comparison.attention is not None
    shown = matrix(figure, "d")
    np.testing.assert_allclose(shown.filled(0), comparison.attention.mean(axis=0))
    assert shown.mask.any() and not shown.mask[:2, 2:].any()
    assert [title for title in titles(figure) if "closest" in title] == [
        f"D{i} and D{j}: closest passages" for i, j in ((1, 2), (1, 3), (2, 3))
    ]
    found = texts_of(figure)
    assert {"Part 1.0  D1", "Part 2.2  D2", "Part 3.1  D3"} <= set(found)
    assert any("D1 = Title 1" in text and "D3 = Title 3" in text for text in found)
    named = [match for text in found if (match := re.match(r"D2, passage (\d): Part 2\.(\d)\n(Words .*?\.)", text))]
    assert named
    for match in named:
        passage, part, words = match.groups()
        assert (int(passage), words) == (int(part) + 1, f"Words of number {part} in 2.")


def test_models_without_attention_have_no_panel_of_it(tiny_encoder: EncoderFactory) -> None:
    figure = make(tiny_encoder("bert"), 2, 2).plot()
    assert [title[:3] for title in titles(figure)] == ["(a)", "(b)", "(c)", "D1 "]
    passages = next(axes for axes in figure.axes if axes.get_title(loc="left").startswith("(c)"))
    figure.canvas.draw()
    assert passages.get_window_extent().width > 0.6 * figure.bbox.width, "it takes the room of the other panel"


def test_too_many_sections_leave_the_documents_named(tiny_encoder: EncoderFactory) -> None:
    figure = make(tiny_encoder("bert", max_passages=100), MOST_NAMED_SECTIONS, 1).plot()
    axes = next(axes for axes in figure.axes if axes.get_title(loc="left") == "(b) sections")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["D1", "D2"]


A = Document.from_text("Rice is steamed. Koji grows. Malt is sweet. Brine is salt.", id="$a$", title="Koji & $rice$")
B = Document.from_text("Tides rise. The sea floods. A dike holds.", id="b")


@pytest.fixture
def finder(backbone_folder: Callable[[str], Path]) -> AdaptiveSubtopics:
    encoder = DocumentEncoder.from_backbone(
        backbone_folder("bert"), device="cpu", pooling="mean", projection_size=None, graph_layers=1,
        readout="initial_mean", unit="sentence",
    )  # fmt: skip
    torch.manual_seed(0)
    encoder.model.add_subtopic_head(ClusteringSettings(columns=3, neighbours=3, receptive_field=3, cluster_size=2))
    return AdaptiveSubtopics(encoder)


def test_both_maps_are_cosines_with_the_documents_parted(finder: AdaptiveSubtopics, tmp_path: Path) -> None:
    path = tmp_path / "maps.png"
    figure = plot_adaptive_subtopics(finder, A, B, path, receptive_field=9)
    assert path.read_bytes().startswith(b"\x89PNG")
    before, after = (axes.images[0].get_array() for axes in figure.axes[:2])
    texts = [
        ["Rice is steamed.", "Koji grows.", "Malt is sweet.", "Brine is salt."],
        ["Tides rise.", "The sea floods.", "A dike holds."],
    ]
    first, second = map(finder.features, texts)
    vectors, assigned = np.concatenate([first, second]), finder.assignments(first, second)
    for shown, rows in ((before, vectors), (after, assigned)):
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(np.asarray(shown), unit @ unit.T, atol=1e-5)
    for axes in figure.axes[:2]:
        borders = {tuple(map(tuple, np.unique(line.get_xydata(), axis=0).tolist())) for line in axes.lines}
        assert borders == {((0.0, 3.5), (1.0, 3.5)), ((3.5, 0.0), (3.5, 1.0))}


def test_sentences_that_are_not_shown_are_counted(finder: AdaptiveSubtopics) -> None:
    figure = plot_adaptive_subtopics(finder, A, B)
    assert figure.axes[0].images[0].get_array().shape == (6, 6) and "1 more sentence" in figure.get_supxlabel()
    with pytest.raises(DocumentError, match="empty"):
        plot_adaptive_subtopics(finder, A, Document.from_text(" ", id="empty"))
