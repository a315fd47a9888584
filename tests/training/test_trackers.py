"""Trackers start by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerate import PartialState

from graphdoc.training.run_folder import start_tracker


@pytest.mark.parametrize("name", ["mlflow", "tensorboard", "wandb"])
def test_a_tracker_starts_as_the_only_one_of_a_process(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    # As in a new process: whatever ran before has told Accelerate where it is.
    monkeypatch.setattr(PartialState, "_shared_state", type(PartialState._shared_state)())
    tracker = start_tracker(name, tmp_path, {"training.seed": "3"})
    tracker.log({"loss": 1.0}, step=1)
    tracker.end_training()
    assert any(path.is_file() for path in tmp_path.rglob("*"))
