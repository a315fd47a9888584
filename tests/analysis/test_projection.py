from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from graphdoc.analysis.figures.measured import plot_projection
from graphdoc.analysis.projection import order_of, project, sample_rows
from graphdoc.errors import EvaluationError


def test_neighbours_stay_together() -> None:
    draw = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    vectors = (np.eye(3, 10)[labels] * 20 + draw.normal(size=(60, 10))).astype(np.float32)
    points = project(vectors)
    assert points.shape == (60, 2)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(60)
    assert (labels[distances.argmin(axis=1)] == labels).all()
    np.testing.assert_array_equal(project(vectors), points)


def test_too_few_documents() -> None:
    with pytest.raises(EvaluationError, match="t-SNE needs 3 documents at least, there are 2"):
        project(np.ones((2, 4)))


def test_sample() -> None:
    np.testing.assert_array_equal(sample_rows(7), np.arange(7))
    rows = sample_rows(5000)
    assert len(rows) == 1000
    assert (np.diff(rows) > 0).all()
    assert rows[-1] < 5000
    np.testing.assert_array_equal(rows, sample_rows(5000))
    assert (sample_rows(5000, seed=1) != rows).any()
    assert len(sample_rows(50, 10)) == 10


def test_alike_documents_stand_together() -> None:
    kinds = np.arange(8) % 2
    order = order_of(np.where(kinds[:, None] == kinds, 0.8, 0.1) + 0.2 * np.eye(8))
    assert sorted(order.tolist()) == list(range(8))
    assert len(set((order[:4] % 2).tolist())) == len(set((order[4:] % 2).tolist())) == 1


class TestPlot:
    def test_every_document_is_drawn_in_every_panel(self, tmp_path: Path) -> None:
        draw = np.random.default_rng(0)
        labels = ["b", "a", "$c", "a", "b"]
        panels = {name: draw.normal(size=(5, 2)) for name in ("first", "second", "third")}
        figure = plot_projection(panels, labels, tmp_path / "plot.png")
        for axes, (name, points) in zip(figure.axes, panels.items(), strict=False):
            assert axes.get_title(loc="left") == name
            drawn = {group.get_label(): np.asarray(group.get_offsets()) for group in axes.collections}
            assert list(drawn) == [r"\$c", "a", "b"]
            np.testing.assert_allclose(drawn["a"], points[[1, 3]])
            np.testing.assert_allclose(drawn["b"], points[[0, 4]])
        assert not figure.axes[3].axison
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [r"\$c", "a", "b"]
        assert min(imread(tmp_path / "plot.png").shape[:2]) > 500
