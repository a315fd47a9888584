"""The processes that a run joins, and the model that it starts from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.errors import SettingsError
from graphdoc.evaluation.baselines import untrained_mean
from graphdoc.inference.precision import training_precision
from graphdoc.settings.run import ModelSettings, TrainingSettings
from graphdoc.training.run import join_run, load_start

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


def test_a_run_is_seeded_and_joins_alone() -> None:
    with join_run(TrainingSettings(seed=7), "cpu") as processes:
        assert (processes.rank, processes.count, processes.device) == (0, 1, torch.device("cpu"))
    assert torch.initial_seed() == 7


def test_a_launcher_that_starts_one_process_of_several_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As accelerate launch --cpu --num_processes 2 does without MPI.
    monkeypatch.setenv("MASTER_PORT", "29500")
    with join_run(TrainingSettings(), "cpu"):
        pass
    assert "one process" in capsys.readouterr().err.splitlines()[0]


def test_one_gpu_is_not_for_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(SettingsError) as error:
        join_run(TrainingSettings(), "cuda:3")
    assert "device=cuda:3" in str(error.value)


@pytest.mark.parametrize(
    ("device", "has_bfloat16", "asked", "precision"),
    [
        ("cpu", True, "", None),
        ("cpu", True, "bf16", "bfloat16"),
        ("cuda", True, "", "bfloat16"),
        ("cuda", False, "", "float16"),
        ("cuda", True, "no", None),
        ("cuda", True, "fp16", "float16"),
    ],
)
def test_precision_follows_the_device_and_what_accelerate_is_told(
    monkeypatch: pytest.MonkeyPatch, device: str, has_bfloat16: bool, asked: str, precision: str | None
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_bfloat16)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", asked)
    assert training_precision(torch.device(device)) == precision
