"""Plots: what they show against the numbers they are of, and files that open whatever a heading holds."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lxml.etree
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from sklearn.metrics import auc
from typed import Documents, Encoders, Log

from graphdoc.analysis.figures.attention import LARGEST_IMAGE, plot_graph
from graphdoc.analysis.figures.comparison import MOST_NAMED_SECTIONS, plot_matrix
from graphdoc.analysis.figures.measured import plot_confusion, plot_pairs, plot_projection, plot_run
from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import GraphdocError, OutputError
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.graphs.kinds import NodeKind
from graphdoc.registry import GRAPH_KINDS
from graphdoc.similarity.mutual_comparison import MutualComparison

MAGIC = {".png": b"\x89PNG\r\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}
COLDE: dict[str, Any] = {"readout": "sections", "graph_layers": 0, "projection_size": None}


def texts_of(figure: Figure) -> list[str]:
    figure.canvas.draw()  # labels of axes are set while drawing
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def heights(figure: Figure) -> list[float]:
    return [bar.get_height() for bar in figure.axes[0].patches]


def cells(figure: Figure, number: int) -> Any:
    return figure.axes[number].images[0].get_array()


@pytest.mark.parametrize(("subject", "suffix"), [("comparison", ".png"), ("attention", ".svg"), ("graph", ".pdf")])
def test_files(tiny_encoder: Encoders, structured: Documents, tmp_path: Path, subject: str, suffix: str) -> None:
    encoder = tiny_encoder(graph_kind="hierarchical")
    path = tmp_path / "new" / f"plot{suffix}"
    draw: dict[str, Callable[[Path], object]] = {
        "comparison": encoder.compare(structured[0], structured[1]).plot,
        "attention": encoder.attention(structured[0]).plot,
        "graph": lambda path: plot_graph(encoder.graph(structured[0]), "title", path),
    }
    draw[subject](path)
    assert path.read_bytes().startswith(MAGIC[suffix]) and list(path.parent.iterdir()) == [path]
    if suffix == ".png":
        pixels = imread(path)
        assert min(pixels.shape[:2]) > 500
        assert len(np.unique(pixels[::7, ::7].reshape(-1, pixels.shape[2]), axis=0)) > 8
    for name in ("plot", "plot.gif", ".png"):
        with pytest.raises(OutputError, match=re.escape(name)):
            draw[subject](tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("heading", [r"$x_1$ \$ \frac $\frac$ <b>&amp; ]]>", "\x1b[31m \x07 \u202e\x00\nbreak"])
def test_headings_of_all_kinds(tiny_encoder: Encoders, tmp_path: Path, heading: str) -> None:
    document = Document("a", (Section("Some text.", heading), Section("More text.", "Second")), heading)
    encoder = tiny_encoder()
    encoder.compare(document).plot(tmp_path / "a.svg")
    encoder.attention(document).plot(tmp_path / "b.svg")
    plot_graph(encoder.graph(document), heading, tmp_path / "c.svg")
    for path in tmp_path.iterdir():
        lxml.etree.parse(path)
        assert not any(byte in path.read_bytes() for byte in b"\x1b\x07\x00")


def test_characters_that_the_font_lacks(tiny_encoder: Encoders, tmp_path: Path, caplog: Log) -> None:
    document = Document("a", (Section("Some text.", "海の水"), Section("More text.", "Second")), "海")
    with caplog.at_level(logging.WARNING, "graphdoc"), warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny_encoder().attention(document).plot(tmp_path / "a.png")
    assert "a.png: 3 characters" in caplog.text


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_graphs_and_the_bars_of_their_sections(tiny_encoder: Encoders, structured: Documents, kind: str) -> None:
    graph = graph_of_sections([0, 0, 1, 2, 2], kind)
    figure = plot_graph(graph, "title", None)
    drawn = {(int(source), int(target)) for target, source in np.argwhere(np.asarray(cells(figure, 0)))}
    assert drawn == set(map(tuple, graph.edge_index.T.tolist()))
    legend = figure.axes[0].get_legend()
    assert legend is not None and len(legend.get_texts()) == len(set(graph.edge_kind.tolist()))
    table = tiny_encoder(graph_kind=kind).attention(structured[0])
    (top,) = table.plot().axes[0].child_axes
    assert [text.get_text() for text in top.get_xticklabels()] == ["Opening", "Air & <wood>", "Salt"]
    looked_at = np.flatnonzero(table.document_weights()[1:]) + 1
    sections = np.array(table.section_of)
    for place, number in zip(top.get_xticks(), dict.fromkeys(sections[looked_at].tolist()), strict=True):
        own = looked_at[sections[looked_at] == number]
        # A graph may look at the first passage of a section alone; its heading stands above all of them.
        assert own[0] <= place <= max(own[-1], np.flatnonzero(sections == number)[-1])
        assert table.node_kind[own[0]] != NodeKind.SECTION or place == own[0]


def test_the_graph_of_a_long_document(tmp_path: Path) -> None:
    plot_graph(graph_of_sections([0] * (LARGEST_IMAGE + 10), "window", window=1), "long", tmp_path / "long.svg")
    assert (tmp_path / "long.svg").stat().st_size < 1_000_000


@pytest.mark.parametrize("level", ["section", "passage", "sentence"])
def test_the_matrix_of_a_comparison(tiny_encoder: Encoders, structured: Documents, level: Any) -> None:
    comparison = tiny_encoder().compare(structured[0], structured[1], sentences=True)
    figure = comparison.plot(level=level)
    np.testing.assert_array_equal(cells(figure, 0), comparison.scores(level))
    shown = "\n".join(texts_of(figure))
    assert f"{comparison.document:.3f}" in shown and comparison.model["name"] in shown
    if level == "section":
        labels = ("Opening", "Air & <wood>", "Salt", "Order", "Water", f"{comparison.sections[1, 1]:.2f}")
        assert all(label in shown for label in labels)


def test_attention_of_readouts_and_layers(tiny_encoder: Encoders, mini: DocumentEncoder, structured: Documents) -> None:
    table = tiny_encoder(readout="attention").attention(structured[0])
    figure = table.plot()
    np.testing.assert_allclose(heights(figure), table.document_weights())
    np.testing.assert_allclose(cells(figure, 1).filled(0), table.matrix(1))
    table = tiny_encoder(readout="mean", graph_kind="section").attention(structured[0])
    for layer, number in ((0, 0), (-1, 1)):
        figure = table.plot(layer=layer, head=1)
        np.testing.assert_allclose(heights(figure), table.matrix(number, 1)[0])
        assert any(f"layer {number}, head 1" in text for text in texts_of(figure))
    with pytest.raises(GraphdocError, match="layer 1 has no head 2"):
        table.plot(head=2)
    # Without a graph the bars are what passages add to the vector.
    figure = mini.attention(structured[0]).plot()
    assert len(figure.axes) == 1
    assert {"Opening", "Air & <wood>", "Salt"} <= set("\n".join(texts_of(figure)).split("\n"))


def test_curves_and_similarities_of_pairs(tmp_path: Path) -> None:
    labels, draw = [0, 1] * 30, np.random.default_rng(0)
    similarities = {
        "TF-IDF cosine": draw.random(60),
        "runs/$a$ <b>[red]": np.array(labels) + draw.normal(size=60),
        "constant": np.full(60, 0.5),
    }
    thresholds = dict(zip(similarities, (0.4, 0.7, 0.5), strict=True))
    figure = plot_pairs(similarities, labels, thresholds, tmp_path / "pairs.svg")
    lxml.etree.parse(tmp_path / "pairs.svg")
    curves, *histograms = figure.axes
    lines = curves.get_lines()[1:]
    areas = [auc(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in lines]
    assert [str(line.get_label()).rpartition(": ")[2] for line in lines] == [f"{area:.3f}" for area in areas]
    assert areas[2] == 0.5 < areas[1]
    for axes, name in zip(histograms, similarities, strict=False):
        assert [sum(bar.get_height() for bar in container) for container in axes.containers] == [30, 30]
        assert list(axes.get_lines()[0].get_xdata()) == [thresholds[name]] * 2
    several = {str(number): [0.2, 0.3] for number in range(4)}
    figure = plot_pairs(several, [1, 0], dict.fromkeys(several, 0.2), None)
    assert [axes.axison for axes in figure.axes] == [True, True, True, True, True, False]


def test_names_that_do_not_fit_are_left_out_of_a_matrix(tiny_encoder: Encoders, tmp_path: Path) -> None:
    for rows, shown in ((8, 8), (60, 0)):
        names = [f"$a name that takes up to forty-four letters {row}" for row in range(rows)]
        figure = plot_matrix(np.eye(rows), names, "cosine", "made up", tmp_path / "matrix.png")
        assert imread(tmp_path / "matrix.png")[:, 0].min() == 1
        assert len(figure.axes[0].get_yticklabels()) == shown
    figure = mutual(tiny_encoder("bert", max_passages=100), MOST_NAMED_SECTIONS, 1).plot()
    axes = next(axes for axes in figure.axes if axes.get_title(loc="left") == "(b) sections")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["D1", "D2"]


def test_a_confusion_matrix(tmp_path: Path) -> None:
    counts = np.array([[2, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]])
    figure = plot_confusion(counts, ["a", "$b$", "<c>", "new"], "Title with a $ sign", tmp_path / "c.svg")
    np.testing.assert_allclose(cells(figure, 0), [[2 / 3, 1 / 3, 0], [0, 1, 0], [0] * 3, [1, 0, 0]])
    assert {"a", r"\$b\$", "<c>", "new", "2", r"Title with a \$ sign"} <= set(texts_of(figure))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_confusion(np.eye(60, dtype=np.int64), [f"class {n}" for n in range(60)], "many", tmp_path / "many.svg")


def test_losses_and_measures_are_drawn_over_the_steps(tmp_path: Path) -> None:
    entries = [
        {"step": 0, "eval_nmi": 0.5, "eval_loss": 3.0},
        {"step": 10, "loss": 2.5, "accuracy": 0.4},
        {"step": 20, "loss": 2.0, "accuracy": 0.5},
        {"step": 20, "eval_nmi": 0.6, "eval_loss": 2.2, "eval_negative_similarity": -0.1},
        {"step": 20, "train_runtime": 3.0},
    ]
    figure = plot_run(entries, tmp_path / "curve.png")
    # What leaves the range of shares would squeeze all others.
    assert {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for axes in figure.axes
        for line in axes.get_lines()
    } == {"trained on": ([10, 20], [2.5, 2.0]), "held out": ([0, 20], [3.0, 2.2]), "nmi": ([0, 20], [0.5, 0.6])}
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_every_document_is_drawn_in_every_panel_of_a_projection(tmp_path: Path) -> None:
    draw, labels = np.random.default_rng(0), ["b", "a", "$c", "a", "b"]
    panels = {name: draw.normal(size=(5, 2)) for name in ("first", "second", "third")}
    figure = plot_projection(panels, labels, tmp_path / "plot.png")
    for axes, (name, points) in zip(figure.axes, panels.items(), strict=False):
        assert axes.get_title(loc="left") == name
        drawn = {group.get_label(): np.asarray(group.get_offsets()) for group in axes.collections}
        assert list(drawn) == [r"\$c", "a", "b"]
        np.testing.assert_allclose(drawn["a"], points[[1, 3]])
        np.testing.assert_allclose(drawn["b"], points[[0, 4]])
    assert not figure.axes[3].axison


def mutual(encoder: DocumentEncoder, *parts: int) -> MutualComparison:
    documents = [
        Document(f"d{n}", tuple(Section(f"Words of {m} in {n}.", f"Part {n}.{m}") for m in range(count)), f"Title {n}")
        for n, count in enumerate(parts, start=1)
    ]
    return encoder.compare_all(documents)


def test_all_levels_of_several_documents(tiny_encoder: Encoders, tmp_path: Path) -> None:
    comparison = mutual(tiny_encoder("bert", **COLDE), 2, 3, 2)
    figure = comparison.plot(tmp_path / "new" / "levels.png")
    assert min(imread(tmp_path / "new" / "levels.png").shape[:2]) > 1000
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    panels = {title[1]: number for number, title in enumerate(titles) if title.startswith("(")}
    assert comparison.attention is not None
    np.testing.assert_array_equal(cells(figure, panels["a"]), comparison.document_scores)
    np.testing.assert_array_equal(cells(figure, panels["b"]), comparison.sections)
    np.testing.assert_array_equal(cells(figure, panels["c"]), comparison.passages)
    shown = cells(figure, panels["d"])
    np.testing.assert_allclose(shown.filled(0), comparison.attention.mean(axis=0))
    assert shown.mask.any() and not shown.mask[:2, 2:].any()
    assert sum("closest" in title for title in titles) == 3
    found = texts_of(figure)
    assert {"Part 1.0  D1", "Part 2.2  D2", "Part 3.1  D3"} <= set(found)
    named = [match for text in found if (match := re.match(r"D2, passage (\d): Part 2\.(\d)\n(Words .*?\.)", text))]
    assert named
    for match in named:
        passage, part, words = match.groups()
        assert (int(passage), words) == (int(part) + 1, f"Words of {part} in 2.")
    # Models without attention have no panel of it.
    figure = mutual(tiny_encoder("bert"), 2, 2).plot()
    titles = [title for axes in figure.axes if (title := axes.get_title(loc="left"))]
    assert [title[:3] for title in titles] == ["(a)", "(b)", "(c)", "D1 "]
