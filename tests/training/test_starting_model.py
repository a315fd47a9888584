"""The model that a run starts from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.evaluation.baselines import untrained_mean
from graphdoc.settings.run import ModelSettings
from graphdoc.training.run import load_start

CPU = torch.device("cpu")


def test_layers_can_begin_at_the_mean(backbone_folder: Callable[[str], Path], structured: list[Document]) -> None:
    settings = {
        "pooling": "mean", "projection_size": None, "normalize_passages": True, "graph_layers": 0,
        "readout": "sections", "section_aggregation": "mean", "section_projection_size": None, "passage_words": 20,
    }  # fmt: skip
    start = str(backbone_folder("bert"))
    encoder = load_start(ModelSettings(start=start, settings=settings, begin="mean"), CPU, "cosine")
    means = untrained_mean(encoder, start, device=CPU).encode(structured, normalize=True)
    np.testing.assert_allclose(encoder.encode(structured), means, atol=1e-5)
    random = load_start(ModelSettings(start=start, settings=settings), CPU, "cosine")
    assert np.abs(random.encode(structured) - means).max() > 1e-3


def test_trained_layers_begin_where_they_are(tiny_encoder: Callable[..., DocumentEncoder], tmp_path: Path) -> None:
    folder = tiny_encoder().save_pretrained(tmp_path / "model")
    with pytest.raises(SettingsError, match=r"model.begin=mean is for layers that start untrained, and .*/model has"):
        load_start(ModelSettings(start=str(folder), begin="mean"), CPU, "cosine")
