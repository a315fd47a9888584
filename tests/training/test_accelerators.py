"""Runs on accelerators; on machines without them these are skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from corpus_examples import rows_of, write_rows
from safetensors.torch import load_file

from graphdoc.recipes.trainer import train
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import PretrainingSettings

needs_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.fixture
def settings(backbone_folder: Callable[[str], Path], tmp_path: Path) -> PretrainingSettings:
    """Three steps on 36 documents without dropout."""
    return load_settings(
        PretrainingSettings,
        None,
        [
            f"corpus.source={write_rows(tmp_path / 'corpus.jsonl', rows_of(40))}",
            f"corpus.cache={tmp_path / 'cache'}",
            "corpus.preparing_processes=1",
            f"model.start={backbone_folder('roberta')}",
            "model.settings={pooling: mean, projection_size: 16, passage_words: 20}",
            "loss={similarity: cosine, temperature: 0.2}",
            "training={batch_size: 8, max_steps: 3, learning_rate: 1e-4, log_steps: 1, save_steps: 2, warmup: 0}",
            f"output={tmp_path / 'cpu'}",
        ],
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    # A shift of all keys changes no attention, and Adam makes steps of rounding errors.
    found = load_file(folder / "model.safetensors")
    return {name: weight for name, weight in found.items() if "key.bias" not in name}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.accelerator.is_available(), reason="needs an accelerator")
def test_an_accelerator_trains_the_model_that_a_processor_does(
    settings: PretrainingSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    expected = weights(train(settings, device="cpu"))
    other = settings.replace(output=str(tmp_path / "accelerator"))
    found = weights(train(other))
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.multi_gpu
@needs_gpus
def test_a_run_stays_on_the_gpu_that_is_named(settings: PretrainingSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several GPUs are there, and no launcher: none of the others is touched, and nothing is replicated."""

    def refuse(*arguments: object) -> None:
        pytest.fail("DataParallel was started")

    monkeypatch.setattr(torch.nn.DataParallel, "__init__", refuse)
    last = torch.cuda.device_count() - 1
    for device in range(last + 1):
        torch.cuda.reset_peak_memory_stats(device)
    before = [torch.cuda.max_memory_allocated(device) for device in range(last)]
    train(settings, device=f"cuda:{last}")
    assert torch.cuda.max_memory_allocated(last) > 0
    assert [torch.cuda.max_memory_allocated(device) for device in range(last)] == before
    # And on from its checkpoint.
    (settings.folder / "checkpoint-3").rename(settings.folder / "undisturbed")
    train(settings, resume=True, device=f"cuda:{last}")
    assert (settings.folder / "checkpoint-3").is_dir()
