from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from corpus_examples import rows_of, write_rows
from safetensors.torch import load_file

from graphdoc.recipes.trainer import train
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import PretrainingSettings
from graphdoc.training import step as cached_step


@pytest.fixture
def settings(backbone_folder: Callable[[str], Path], tmp_path: Path) -> PretrainingSettings:
    """A run that streams some 30 documents, several times over."""
    return load_settings(
        PretrainingSettings,
        None,
        [
            f"corpus.source={write_rows(tmp_path / 'corpus.jsonl', rows_of(30))}",
            "corpus.streaming=true",
            "corpus.preparing_processes=1",
            f"model.start={backbone_folder('roberta')}",
            "model.settings={pooling: mean, projection_size: 16, passage_words: 20}",
            "loss={similarity: cosine, temperature: 0.2}",
            "training={batch_size: 4, max_steps: 17, learning_rate: 1e-3, log_steps: 1, save_steps: 3}",
            f"output={tmp_path / 'run'}",
        ],
    )


def losses(folder: Path) -> dict[int, tuple[float, float]]:
    """Loss and place in the run at every step."""
    lines = (json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return {entry["step"]: (entry["loss"], entry["epoch"]) for entry in lines if "loss" in entry}


def test_a_stream_is_trained_on_over_several_epochs_and_goes_on_where_it_was(
    settings: PretrainingSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(settings, device="cpu")
    assert sorted(losses(tmp_path / "run")) == list(range(1, 18))
    assert losses(tmp_path / "run")[17][1] == 1
    interrupted = settings.replace(output=str(tmp_path / "other"))
    original, calls = cached_step.CachedStep.__call__, 0

    def failing(self: Any, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 12:
            raise KeyboardInterrupt
        return original(self, batch)

    monkeypatch.setattr(cached_step.CachedStep, "__call__", failing)
    with pytest.raises(KeyboardInterrupt):
        train(interrupted, device="cpu")
    monkeypatch.undo()

    place = json.loads((tmp_path / "other" / "checkpoint-9" / "training" / "data.json").read_text())
    assert place["epoch"] == 1, "the interruption is to fall into another epoch than the first"
    train(interrupted, resume=True, device="cpu")

    assert losses(tmp_path / "other") == losses(tmp_path / "run")
    first, second = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("run", "other"))
    assert all(torch.equal(first[name], second[name]) for name in first)
