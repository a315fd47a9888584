from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import lxml.etree
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from sklearn.metrics import auc

from graphdoc.analysis.figures.attention import LARGEST_IMAGE, plot_graph
from graphdoc.analysis.figures.comparison import plot_matrix
from graphdoc.analysis.figures.measured import plot_confusion, plot_pairs, plot_run
from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import GraphdocError, OutputError
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.graphs.kinds import NodeKind
from graphdoc.registry import GRAPH_KINDS

EncoderFactory = Callable[..., DocumentEncoder]
MAGIC = {".png": b"\x89PNG\r\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


def texts_of(figure: Figure) -> str:
    figure.canvas.draw()  # labels of axes are set while drawing
    found = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]
    return "\n".join(found)


@pytest.mark.parametrize(("subject", "suffix"), [("comparison", ".png"), ("attention", ".svg"), ("graph", ".pdf")])
def test_files(
    tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path, subject: str, suffix: str
) -> None:
    encoder = tiny_encoder(graph_kind="hierarchical")
    path = tmp_path / "new" / f"plot{suffix}"
    draw: dict[str, Callable[[Path], object]] = {
        "comparison": encoder.compare(structured[0], structured[1]).plot,
        "attention": encoder.attention(structured[0]).plot,
        "graph": lambda path: plot_graph(encoder.graph(structured[0]), "title", path),
    }
    draw[subject](path)
    assert path.read_bytes().startswith(MAGIC[suffix])
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    if suffix == ".png":
        pixels = imread(path)
        assert min(pixels.shape[:2]) > 500
        assert len(np.unique(pixels[::7, ::7].reshape(-1, pixels.shape[2]), axis=0)) > 8
    for name in ("plot", "plot.gif", ".png"):
        with pytest.raises(OutputError, match=re.escape(name)):
            draw[subject](tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_headings_stand_above_the_bars_of_their_sections(
    tiny_encoder: EncoderFactory, structured: list[Document], kind: str
) -> None:
    table = tiny_encoder(graph_kind=kind).attention(structured[0])
    axes = table.plot().axes[0]
    (top,) = axes.child_axes
    assert [text.get_text() for text in top.get_xticklabels()] == ["Opening", "Air & <wood>", "Salt"]
    weights = table.document_weights()
    looked_at = np.flatnonzero(weights[1:]) + 1
    sections = np.array(table.section_of)
    for place, number in zip(top.get_xticks(), dict.fromkeys(sections[looked_at].tolist()), strict=True):
        own = looked_at[sections[looked_at] == number]
        # A graph may look at the first passage of a section alone; its heading stands above all of them.
        assert own[0] <= place <= max(own[-1], np.flatnonzero(sections == number)[-1])
        assert table.node_kind[own[0]] != NodeKind.SECTION or place == own[0]


class TestComparison:
    @pytest.mark.parametrize("level", ["section", "passage", "sentence"])
    def test_the_matrix_is_drawn(self, tiny_encoder: EncoderFactory, structured: list[Document], level: str) -> None:
        comparison = tiny_encoder().compare(structured[0], structured[1], sentences=True)
        figure = comparison.plot(level=level)  # type: ignore[arg-type]
        np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), comparison.scores(level))  # type: ignore[arg-type]
        shown = texts_of(figure)
        assert f"document similarity {comparison.document:.3f}, by {level}, model {comparison.model['name']}" in shown
        if level == "section":
            labels = ("Opening", "Air & <wood>", "Salt", "Order", "Water", f"{comparison.sections[1, 1]:.2f}")
            assert all(label in shown for label in labels)


class TestAttention:
    def test_readout_and_graph_layer(self, tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
        table = tiny_encoder(readout="attention").attention(structured[0])
        figure = table.plot()
        heights = [bar.get_height() for bar in figure.axes[0].patches]
        np.testing.assert_allclose(heights, table.document_weights())
        shown = texts_of(figure)
        assert "attention readout: weight by node" in shown
        assert "layer 1, mean over heads: who attends to whom" in shown
        np.testing.assert_allclose(figure.axes[1].images[0].get_array().filled(0), table.matrix(1))

    def test_one_head_of_one_layer(self, tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
        table = tiny_encoder(readout="mean", graph_kind="section").attention(structured[0])
        for layer, number in ((0, 0), (-1, 1), (-2, 0)):
            figure = table.plot(layer=layer, head=1)
            np.testing.assert_allclose(
                [bar.get_height() for bar in figure.axes[0].patches], table.matrix(number, 1)[0]
            )
            shown = texts_of(figure)
            assert f"document node, layer {number}, head 1: weight by node" in shown
            assert f"layer {number}, head 1: who attends to whom" in shown
        with pytest.raises(GraphdocError, match="layer 1 has no head 2"):
            table.plot(head=2)

    def test_a_model_without_graph_layers_says_so(
        self, mini: DocumentEncoder, structured: list[Document], tmp_path: Path
    ) -> None:
        table = mini.attention(structured[0])
        figure = table.plot(tmp_path / "mean.png")
        assert len(figure.axes) == 1
        shown = texts_of(figure)
        assert "adds to the document vector" in shown and "1/3" in shown
        for label in ("Opening", "Air & <wood>", "Salt"):
            assert label in shown


class TestGraph:
    @pytest.mark.parametrize("kind", GRAPH_KINDS)
    def test_every_edge_is_drawn(self, kind: str) -> None:
        graph = graph_of_sections([0, 0, 1, 2, 2], kind)
        figure = plot_graph(graph, "title", None)
        cells = np.asarray(figure.axes[0].images[0].get_array())
        assert {(int(source), int(target)) for target, source in np.argwhere(cells)} == set(
            map(tuple, graph.edge_index.T.tolist())
        )
        legend = figure.axes[0].get_legend()
        assert legend is not None
        assert len(legend.get_texts()) == len(set(graph.edge_kind.tolist()))

    def test_a_long_document(self, tmp_path: Path) -> None:
        graph = graph_of_sections([0] * (LARGEST_IMAGE + 10), "window", window=1)
        plot_graph(graph, "long", tmp_path / "long.svg")
        assert (tmp_path / "long.svg").stat().st_size < 1_000_000


@pytest.mark.parametrize("heading", [r"$x_1$ \$ \frac $\frac$ <b>&amp; ]]>", "\x1b[31m \x07 \u202e\x00\nbreak"])
def test_headings_of_all_kinds(tiny_encoder: EncoderFactory, tmp_path: Path, heading: str) -> None:
    document = Document("a", (Section("Some text.", heading), Section("More text.", "Second")), heading)
    encoder = tiny_encoder()
    encoder.compare(document).plot(tmp_path / "a.svg")
    encoder.attention(document).plot(tmp_path / "b.svg")
    plot_graph(encoder.graph(document), heading, tmp_path / "c.svg")
    for path in tmp_path.iterdir():
        lxml.etree.parse(path)
        assert not any(byte in path.read_bytes() for byte in b"\x1b\x07\x00")


def test_characters_that_the_font_lacks(
    tiny_encoder: EncoderFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    document = Document("a", (Section("Some text.", "海の水"), Section("More text.", "Second")), "海")
    with caplog.at_level(logging.WARNING, "graphdoc"), warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny_encoder().attention(document).plot(tmp_path / "a.png")
    assert "a.png: 3 characters of headings are not in the font and show as boxes" in caplog.text


LABELS = [0, 1] * 30
DRAW = np.random.default_rng(0)
SIMILARITIES = {
    "TF-IDF cosine": DRAW.random(60),
    "runs/$a$ <b>[red]": np.array(LABELS) + DRAW.normal(size=60),
    "constant": np.full(60, 0.5),
}
THRESHOLDS = {"TF-IDF cosine": 0.4, "runs/$a$ <b>[red]": 0.7, "constant": 0.5}


def test_curves_and_similarities_of_pairs(tmp_path: Path) -> None:
    figure = plot_pairs(SIMILARITIES, LABELS, THRESHOLDS, tmp_path / "pairs.svg")
    lxml.etree.parse(tmp_path / "pairs.svg")
    curves, *histograms = figure.axes
    lines = curves.get_lines()[1:]
    areas = [auc(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in lines]
    assert [str(line.get_label()).rpartition(": ")[2] for line in lines] == [f"{area:.3f}" for area in areas]
    assert areas[2] == 0.5 < areas[1] and len({line.get_color() for line in lines}) == 3
    for axes, name, line in zip(histograms, SIMILARITIES, lines, strict=False):
        drawn = [sum(bar.get_height() for bar in container) for container in axes.containers]
        assert drawn == [30, 30]
        (mark,) = axes.get_lines()
        assert list(mark.get_xdata()) == [THRESHOLDS[name]] * 2
        # The similar pairs have the colour of the curve.
        assert axes.containers[1][0].get_facecolor()[:3] == to_rgb(line.get_color())
    several = {str(number): [0.2, 0.3] for number in range(4)}
    figure = plot_pairs(several, [1, 0], dict.fromkeys(several, 0.2), None)
    assert [axes.axison for axes in figure.axes] == [True, True, True, True, True, False]


def test_names_that_do_not_fit_are_left_out_of_a_matrix() -> None:
    few = plot_matrix(np.eye(8), [f"$name {row}" for row in range(8)], "cosine", "made up", None)
    assert len(few.axes[0].get_yticklabels()) == 8
    many = plot_matrix(np.eye(60), [str(row) for row in range(60)], "cosine", "made up", None)
    assert many.axes[0].get_yticklabels() == [] and "60 documents" in many.axes[0].get_xlabel()


class TestRun:
    ENTRIES: ClassVar[list[dict[str, float]]] = [
        {"step": 0, "eval_nmi": 0.5, "eval_loss": 3.0},
        {"step": 10, "loss": 2.5, "accuracy": 0.4},
        {"step": 20, "loss": 2.0, "accuracy": 0.5},
        {"step": 20, "eval_nmi": 0.6, "eval_loss": 2.2, "eval_negative_similarity": -0.1},
        {"step": 20, "train_runtime": 3.0},
    ]

    def test_losses_and_measures_are_drawn_over_the_steps(self, tmp_path: Path) -> None:
        figure = plot_run(self.ENTRIES, tmp_path / "curve.png")

        loss, measured = figure.axes
        curves = {
            line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
            for axes in (loss, measured)
            for line in axes.get_lines()
        }
        # What leaves the range of shares would squeeze all others.
        assert curves == {
            "trained on": ([10, 20], [2.5, 2.0]),
            "held out": ([0, 20], [3.0, 2.2]),
            "nmi": ([0, 20], [0.5, 0.6]),
        }
        assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_confusion_matrix(tmp_path: Path) -> None:
    counts = np.array([[2, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]])
    figure = plot_confusion(counts, ["a", "$b$", "<c>", "new"], "Title with a $ sign", tmp_path / "c.svg")
    np.testing.assert_allclose(
        figure.axes[0].images[0].get_array(), [[2 / 3, 1 / 3, 0], [0, 1, 0], [0] * 3, [1, 0, 0]]
    )
    shown = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]
    assert {"a", r"\$b\$", "<c>", "new", "2", r"Title with a \$ sign"} <= set(shown)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_confusion(np.eye(60, dtype=np.int64), [f"class {n}" for n in range(60)], "many", tmp_path / "many.svg")
