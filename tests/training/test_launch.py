from __future__ import annotations

import pytest
import torch

from graphdoc.errors import SettingsError
from graphdoc.settings.run import TrainingSettings
from graphdoc.training.run import join_run


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
