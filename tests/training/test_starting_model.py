"""The processes that a run joins, and the model that it starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import rows_of, write_rows
from safetensors.torch import load_file
from torch.optim import SGD
from training_runs import write_config
from typed import Backbones, Documents, Encoders, Output, Patch

from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError, SettingsError
from graphdoc.evaluation.baselines import untrained_mean
from graphdoc.inference.precision import training_precision
from graphdoc.modeling.heads import NewHead
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SubDocumentSettings
from graphdoc.settings.run import ModelSettings, TrainingSettings
from graphdoc.trainer import train
from graphdoc.training.checkpoint import PARTS_FILE, TRAINED_FILE, TRAINING_FOLDER, RunCheckpoints, TrainState
from graphdoc.training.optimizer import make_optimizer, make_schedule, prepare_tuning, trained_weights
from graphdoc.training.run import join_run, load_start

CPU = torch.device("cpu")


def test_layers_can_begin_at_the_mean(backbone_folder: Backbones, structured: Documents) -> None:
    settings = {
        "pooling": "mean", "projection_size": None, "normalize_passages": True, "graph_layers": 0,
        "readout": "sections", "passage_words": 20,
        "readout_settings": {"section_aggregation": "mean", "section_projection_size": None},
    }  # fmt: skip
    start = str(backbone_folder("bert"))
    encoder = load_start(ModelSettings(start=start, settings=settings, init="mean"), CPU)
    means = untrained_mean(encoder, start, device=CPU).encode(structured, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode(structured), means, atol=1e-5)
    random = load_start(ModelSettings(start=start, settings=settings), CPU)
    assert np.abs(random.encode(structured) - means).max() > 1e-3


def test_a_launcher_that_starts_one_process_of_several_says_so(monkeypatch: Patch, capsys: Output) -> None:
    # As accelerate launch --cpu --num_processes 2 does without MPI.
    monkeypatch.setenv("MASTER_PORT", "29500")
    with join_run(TrainingSettings(seed=7), "cpu") as processes:
        assert (processes.rank, processes.count, processes.device) == (0, 1, torch.device("cpu"))
    assert torch.initial_seed() == 7 and "one process" in capsys.readouterr().err.splitlines()[0]


def test_one_gpu_is_not_for_several_processes(monkeypatch: Patch) -> None:
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
        ("cpu", True, "fp16", None),
    ],
)
def test_precision_follows_the_device_and_what_accelerate_is_told(
    monkeypatch: Patch, device: str, has_bfloat16: bool, asked: str, precision: str | None
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_bfloat16)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", asked)
    assert training_precision(torch.device(device)) == precision
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp4")
    with pytest.raises(SettingsError, match="fp4"):
        training_precision(torch.device(device))


def rates(steps: int, **settings: Any) -> list[float]:
    """The learning rate of every step of a run, where the setting is 1."""
    given = TrainingSettings(batch_size=2, learning_rate=1.0, **settings)
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=given.learning_rate)
    schedule = make_schedule(optimizer, given, steps)
    course = []
    for _ in range(steps):
        course.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return course


@pytest.mark.parametrize(
    ("steps", "warmup", "expected"),
    [
        (4, 0.0, [1, 0.75, 0.5, 0.25]),
        (5, 0.4, [0, 0.5, 1, 2 / 3, 1 / 3]),
        # A share of the steps is rounded up, and leaves one at least: a run of one step would learn nothing.
        (5, 0.1, [0, 1, 0.75, 0.5, 0.25]),
        (1, 0.1, [1]),
        # A number of steps is as it is.
        (5, 2, [0, 0.5, 1, 2 / 3, 1 / 3]),
        (2, 4, [0, 0.25]),
    ],
)
def test_the_learning_rate_rises_over_warm_up_and_comes_down(steps: int, warmup: float, expected: list[float]) -> None:
    assert rates(steps, lr_scheduler_type="linear", warmup_steps=warmup) == pytest.approx(expected)


KEY = "training_parts.language_model.dense.weight"


@pytest.mark.parametrize("tune", ["full", "lora", "lora updates"])
def test_they_are_in_checkpoints_and_not_in_the_model(
    tiny_encoder: Encoders, backbone_folder: Backbones, tmp_path: Path, monkeypatch: Patch, tune: str
) -> None:
    if "lora" in tune:
        pytest.importorskip("peft")

    def start() -> tuple[DocumentEncoder, RunCheckpoints]:
        encoder = tiny_encoder(projection_size=None, graph_layers=0, readout="mean")
        model = encoder.model
        model.training_parts["language_model"] = NewHead(model.passage_encoder.transformer)
        prepare_tuning(model, tune.partition(" ")[0])  # type: ignore[arg-type]
        return encoder, RunCheckpoints(
            tmp_path, model, encoder.tokenizer, name="tiny", only_updates=tune == "lora updates"
        )

    encoder, checkpoints = start()
    settings = TrainingSettings(batch_size=2)
    optimizer = make_optimizer(encoder.model, settings)
    schedule = make_schedule(optimizer, settings, 10)
    for weight in trained_weights(encoder.model).values():
        weight.grad = torch.randn_like(weight)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    checkpoints.save(TrainState(global_step=1), optimizer, schedule, torch.amp.GradScaler("cpu", enabled=False))
    folder = checkpoints.at_step(1)

    (parts,) = (load_file(path) for path in folder.rglob(PARTS_FILE))
    assert KEY in parts and all(name.startswith("training_parts.") for name in parts)
    # A table of embeddings that both share is stored once, and a model that is trained whole is, too.
    assert "training_parts.language_model.decoder.weight" not in parts
    assert (folder / TRAINING_FOLDER / TRAINED_FILE).exists() == (tune != "full")
    (model_file,) = folder.glob("*.safetensors")
    assert not any("training_parts" in name for name in load_file(model_file))
    monkeypatch.chdir(backbone_folder("roberta").parent)
    found: Any = DocumentEncoder.from_pretrained(folder, device="cpu").model
    assert len(found.training_parts) == 0

    other, reader = start()
    expected = trained_weights(encoder.model)
    assert not torch.equal(trained_weights(other.model)[KEY], expected[KEY])
    reader.load_weights(folder)
    for name, weight in trained_weights(other.model).items():
        assert torch.equal(weight, expected[name]), name

    (folder / TRAINING_FOLDER / PARTS_FILE).unlink()
    with pytest.raises(ModelError, match=PARTS_FILE):
        reader.load_weights(folder)


@pytest.fixture
def settings(backbone_folder: Backbones, tmp_path: Path) -> SubDocumentSettings:
    """Three steps on 36 documents without dropout."""
    config = write_config(
        tmp_path, write_rows(tmp_path / "corpus.jsonl", rows_of(40)), backbone_folder("roberta"),
        {"projection_size": 16, "passage_words": 20}, loss={"similarity": "cosine", "temperature": 0.2},
        training={"max_steps": 3, "learning_rate": 1e-4, "save_steps": 2, "warmup_steps": 0},
    )  # fmt: skip
    return load_settings(SubDocumentSettings, config)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    # A shift of all keys changes no attention, and Adam makes steps of rounding errors.
    return {n: weight for n, weight in load_file(folder / "model.safetensors").items() if "key.bias" not in n}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.accelerator.is_available(), reason="needs an accelerator")
def test_an_accelerator_trains_the_model_that_a_processor_does(
    settings: SubDocumentSettings, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    expected = weights(train(settings, device="cpu"))
    found = weights(train(settings.replace(output=str(tmp_path / "accelerator"))))
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.multi_gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_run_stays_on_the_gpu_that_is_named(settings: SubDocumentSettings) -> None:
    """Several GPUs are there, and no launcher: none of the others is touched."""
    last = torch.cuda.device_count() - 1
    for device in range(last + 1):
        torch.cuda.reset_peak_memory_stats(device)
    before = [torch.cuda.max_memory_allocated(device) for device in range(last)]
    train(settings, device=f"cuda:{last}")
    assert torch.cuda.max_memory_allocated(last) > 0
    assert [torch.cuda.max_memory_allocated(device) for device in range(last)] == before
