from __future__ import annotations

from pathlib import Path

import lxml.etree
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from sklearn.metrics import auc

from graphdoc.analysis.figures.measured import plot_pairs
from graphdoc.errors import OutputError

LABELS = [0, 1] * 30
DRAW = np.random.default_rng(0)
SIMILARITIES = {
    "TF-IDF cosine": DRAW.random(60),
    "runs/$a$ <b>[red]": np.array(LABELS) + DRAW.normal(size=60),
    "constant": np.full(60, 0.5),
}
THRESHOLDS = {"TF-IDF cosine": 0.4, "runs/$a$ <b>[red]": 0.7, "constant": 0.5}


def test_curves_and_similarities(tmp_path: Path) -> None:
    figure = plot_pairs(SIMILARITIES, LABELS, THRESHOLDS, tmp_path / "pairs.png")
    curves, *histograms = figure.axes
    lines = curves.get_lines()[1:]
    areas = [auc(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in lines]
    assert [str(line.get_label()).rpartition(": ")[2] for line in lines] == [f"{area:.3f}" for area in areas]
    assert areas[2] == 0.5 < areas[1]
    assert len({line.get_color() for line in lines}) == 3
    for axes, (name, values), line in zip(histograms, SIMILARITIES.items(), lines, strict=False):
        drawn = [sum(bar.get_height() for bar in container) for container in axes.containers]
        assert drawn == [30, 30]
        (mark,) = axes.get_lines()
        assert list(mark.get_xdata()) == [THRESHOLDS[name]] * 2
        # The similar pairs have the colour of the curve.
        assert axes.containers[1][0].get_facecolor()[:3] == to_rgb(line.get_color())
        assert line.get_label().startswith(axes.get_title(loc="left"))  # type: ignore[union-attr]
        assert len(values) == 60
    assert len(figure.axes) == 4
    pixels = imread(tmp_path / "pairs.png")
    assert len(np.unique(pixels[::7, ::7].reshape(-1, pixels.shape[2]), axis=0)) > 8


def test_names_are_text(tmp_path: Path) -> None:
    plot_pairs(SIMILARITIES, LABELS, THRESHOLDS, tmp_path / "pairs.svg")
    lxml.etree.parse(tmp_path / "pairs.svg")


def test_few_pairs() -> None:
    figure = plot_pairs({"one": [0.2, 0.3]}, [1, 0], {"one": 0.2}, None)
    assert len(figure.axes) == 2
    several = {str(number): [0.2, 0.3] for number in range(4)}
    figure = plot_pairs(several, [1, 0], dict.fromkeys(several, 0.2), None)
    assert [axes.axison for axes in figure.axes] == [True, True, True, True, True, False]


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="has no image suffix"):
        plot_pairs(SIMILARITIES, LABELS, THRESHOLDS, tmp_path / "pairs.gif")
