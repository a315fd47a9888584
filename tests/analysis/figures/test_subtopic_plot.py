from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from graphdoc import Document, DocumentEncoder
from graphdoc.analysis.figures.comparison import plot_adaptive_subtopics
from graphdoc.errors import DocumentError
from graphdoc.inference.learned_subtopics import AdaptiveSubtopics
from graphdoc.settings.document import ClusteringSettings

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
