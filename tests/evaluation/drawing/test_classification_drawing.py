from __future__ import annotations

import warnings
from pathlib import Path

import lxml.etree
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from graphdoc.errors import OutputError
from graphdoc.evaluation import classification_scores
from graphdoc.evaluation.classification import ClassificationScores, calibration
from graphdoc.evaluation.drawing import plot_confusion, plot_reliability

CLASSES = ("a", "$b$", "<c>")


def one(*names: str) -> list[tuple[str, ...]]:
    return [(name,) for name in names]


@pytest.fixture
def scores() -> ClassificationScores:
    return classification_scores(one("a", "a", "$b$", "new", "a"), one("a", "$b$", "$b$", "a", "a"), CLASSES)


def texts_of(figure: Figure) -> list[str]:
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def test_confusion(scores: ClassificationScores) -> None:
    figure = plot_confusion(scores, "Title with a $ sign", None)
    drawn = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(drawn, [[2 / 3, 1 / 3, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]])
    shown = texts_of(figure)
    assert {"a", r"\$b\$", "<c>", "new (unknown)", "2", r"Title with a \$ sign"} <= set(shown)
    assert figure.axes[0].get_ylabel() == "label"


@pytest.mark.parametrize("classes", [2, 60])
def test_confusion_of_few_and_many_classes(classes: int, tmp_path: Path) -> None:
    names = [f"class {n}" for n in range(classes)]
    found = classification_scores(one(*names), one(*names[1:], names[0]), names)
    figure = plot_confusion(found, "many", tmp_path / "c.png")
    shown = texts_of(figure)
    assert ("class 1" in shown) == (classes <= 40)
    assert (shown.count("1") >= classes) == (classes <= 24)
    pixels = imread(tmp_path / "c.png")
    assert min(pixels.shape[:2]) > 400


def test_several_labels_are_bars_by_class() -> None:
    truth = [("a", "$b$"), ("a",), ("a",), ()]
    found = classification_scores(truth, [("a",), ("a", "<c>"), (), ("<c>",)], CLASSES, multi_label=True)
    figure = plot_confusion(found, "several", None)
    axes = figure.axes[0]
    widths = [[bar.get_width() for bar in container] for container in axes.containers]
    assert widths == [[2, 0, 0], [1, 1, 0], [0, 0, 2]]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", r"\$b\$", "<c>"]


def test_reliability() -> None:
    measured = calibration(np.array([0.15, 0.19, 0.95, 0.9]), np.array([False, True, True, True]), bins=5)
    figure = plot_reliability(measured, "model", None)
    upper, lower = figure.axes
    assert [round(bar.get_height(), 6) for bar in upper.containers[0]] == [0.5, 1]
    assert [bar.get_height() for bar in lower.containers[0]] == [2, 0, 0, 0, 2]
    assert any(f"calibration error {measured.error:.3f}" in text for text in texts_of(figure))


def test_files(scores: ClassificationScores, tmp_path: Path) -> None:
    measured = calibration(np.array([0.5]), np.array([True]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_confusion(scores, "t", tmp_path / "new" / "c.svg")
        plot_reliability(measured, "t", tmp_path / "new" / "r.svg")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["c.svg", "r.svg"]
    lxml.etree.parse(tmp_path / "new" / "c.svg")
    for draw in (lambda path: plot_confusion(scores, "t", path), lambda path: plot_reliability(measured, "t", path)):
        with pytest.raises(OutputError, match="has no image suffix"):
            draw(tmp_path / "c.gif")
