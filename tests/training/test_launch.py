from __future__ import annotations

import pytest
import torch

from graphdoc.errors import SettingsError
from graphdoc.settings.training import TrainingSettings
from graphdoc.training.launch import join_run


@pytest.mark.parametrize(
    ("key", "value", "precision", "fix"),
    [
        ("ACCELERATE_MIXED_PRECISION", "bf16", "float32", "training.precision=bfloat16"),
        ("ACCELERATE_MIXED_PRECISION", "fp16", "float32", "mixed_precision to no"),
        ("ACCELERATE_MIXED_PRECISION", "fp8", "bfloat16", "mixed_precision to no"),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", "float32", "training.batch_size"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR", "float32", "model.compile=true"),
        ("ACCELERATE_USE_DEEPSPEED", "true", "float32", "distributed_type"),
        ("ACCELERATE_USE_FSDP", "true", "float32", "distributed_type"),
        ("ACCELERATE_USE_MEGATRON_LM", "true", "float32", "distributed_type"),
        ("ACCELERATE_USE_PARALLELISM_CONFIG", "true", "float32", "distributed_type"),
    ],
)
def test_what_accelerate_is_set_up_for_and_a_run_would_not_do_is_refused(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str, precision: str, fix: str
) -> None:
    monkeypatch.setenv(key, value)
    with pytest.raises(SettingsError) as error:
        join_run(TrainingSettings(precision=precision), "cpu")  # type: ignore[arg-type]
    for part in (key, value, fix):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "precision"),
    [
        ("ACCELERATE_MIXED_PRECISION", "no", "bfloat16"),
        ("ACCELERATE_MIXED_PRECISION", "bf16", "bfloat16"),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1", "float32"),
        ("ACCELERATE_DYNAMO_BACKEND", "NO", "float32"),
        ("ACCELERATE_USE_DEEPSPEED", "false", "float32"),
    ],
)
def test_what_accelerate_launch_sets_by_itself_is_fine(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str, precision: str
) -> None:
    monkeypatch.setenv(key, value)
    with join_run(TrainingSettings(precision=precision, seed=7), "cpu") as processes:  # type: ignore[arg-type]
        assert (processes.rank, processes.count, processes.device) == (0, 1, torch.device("cpu"))
    assert torch.initial_seed() == 7


def test_one_gpu_is_not_for_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(SettingsError) as error:
        join_run(TrainingSettings(), "cuda:3")
    assert "device=cuda:3" in str(error.value)
