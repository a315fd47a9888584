from __future__ import annotations

from pathlib import Path
from typing import Any

import lxml.etree
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from graphdoc.errors import OutputError
from graphdoc.evaluation.drawing.faithfulness import plot_faithfulness
from graphdoc.evaluation.faithfulness.scores import Case, FaithfulnessScores


def scores(methods: tuple[str, ...], documents: int = 5) -> FaithfulnessScores:
    curves = np.random.default_rng(len(methods)).random((documents, len(methods), 2, 6))
    cases = tuple(Case(f"d{row}", "other", 7, 0.5) for row in range(documents))
    return FaithfulnessScores("similarity", methods, cases, curves, resamples=50)


MEASURED = {
    "mini": scores(("contribution", "words", "random")),
    "runs/$a$ <b>[red]": scores(("contribution", "attention", "words", "random")),
}


def test_curves_with_bands(tmp_path: Path) -> None:
    figure = plot_faithfulness(MEASURED, tmp_path / "curves.png")
    assert len(figure.axes) == 4
    colors: dict[str, Any] = {}
    for number, axes in enumerate(figure.axes):
        found = list(MEASURED.values())[number // 2]
        kind = ("deletion", "insertion")[number % 2]
        assert axes.get_title(loc="left").endswith(f": {kind}")
        lines = axes.get_lines()
        for line, band, method in zip(lines, axes.collections, found.methods, strict=True):
            np.testing.assert_allclose(np.asarray(line.get_xdata()), np.linspace(0, 1, 6))
            np.testing.assert_allclose(np.asarray(line.get_ydata()), found.curve(method, kind))  # type: ignore[arg-type]
            assert line.get_label() == f"{method}: {found.area(method, kind).value:.3f}"  # type: ignore[arg-type]
            corners = band.get_paths()[0].vertices
            limits = np.array(found.band(method, kind), np.float64)  # type: ignore[arg-type]
            assert np.asarray(corners)[:, 1].max() == pytest.approx(limits[:, 1].max())
            assert np.asarray(corners)[:, 1].min() == pytest.approx(limits[:, 0].min())
            assert colors.setdefault(method, to_rgb(line.get_color())) == to_rgb(line.get_color())
    assert len(set(colors.values())) == 4
    pixels = imread(tmp_path / "curves.png")
    assert len(np.unique(pixels[::7, ::7].reshape(-1, pixels.shape[2]), axis=0)) > 8


def test_names_are_text_and_one_document_has_no_band(tmp_path: Path) -> None:
    figure = plot_faithfulness({"runs/$a$ <b>[red]": scores(("contribution", "random"), 1)}, tmp_path / "curves.svg")
    assert [len(axes.collections) for axes in figure.axes] == [0, 0]
    lxml.etree.parse(tmp_path / "curves.svg")


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="has no image suffix"):
        plot_faithfulness(MEASURED, tmp_path / "curves.gif")
