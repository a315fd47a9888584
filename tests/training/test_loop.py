from __future__ import annotations

import json
import time
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch import Tensor
from training_runs import entries_of, losses_by_step, untimed
from typed import Backbones, Encoders, Patch

from graphdoc import DocumentEncoder
from graphdoc.errors import MissingExtraError, ModelError, OutputError
from graphdoc.losses import InfoNCELoss
from graphdoc.recipes.sub_documents import sub_document_batch
from graphdoc.runtime.processes import Processes
from graphdoc.sampling.batches import EpochBatches
from graphdoc.sampling.sub_documents import SubDocumentSplit
from graphdoc.settings.run import TrainingSettings
from graphdoc.training import checkpoint as checkpointing
from graphdoc.training.checkpoint import RunCheckpoints, TrainState
from graphdoc.training.data import EpochLoader
from graphdoc.training.loop import TrainingLoop, make_accelerator
from graphdoc.training.objectives import SubDocumentObjective
from graphdoc.training.optimizer import prepare_tuning
from graphdoc.training.recipe import Recipe, RunEvaluation
from graphdoc.training.run_folder import RunLog

OFTEN: Any = {"logging_steps": 1, "save_steps": 3, "save_total_limit": 9}
SMALL: Any = {"batch_size": 8, "dataloader_num_workers": 0, "token_budget": 200, "padding": 0.5}
SETTINGS = TrainingSettings(epochs=2, learning_rate=1e-3, **OFTEN, **SMALL)


class MemoryRecipe(Recipe):
    """Batches of documents in memory, and the epochs that were begun."""

    summary = "contrast"
    objective = SubDocumentObjective(InfoNCELoss("cosine", 0.2, "both"))
    load = counts = None  # type: ignore[assignment]

    def __init__(self, examples: list[Any], settings: TrainingSettings) -> None:
        counts = np.array([len(example.sections) for example in examples])
        batches = EpochBatches(counts, settings.batch_size, settings.seed)
        self.loader = EpochLoader(examples, batches, collate, settings.dataloader_num_workers)
        self.begun: list[int] = []

    def begin_epoch(self, epoch: int) -> None:
        self.begun.append(epoch)


def collate(items: Any) -> Any:
    return sub_document_batch([item for item, _, _ in items], SubDocumentSplit(), items[0][1])


@pytest.fixture
def make_loop(tiny_encoder: Encoders, training_examples: Any) -> Callable[..., TrainingLoop]:
    """Makes a loop on 40 tiny documents, always with the same weights."""

    def make(
        folder: Path, *, tune: Any = "full", evaluation: Any = None, only_updates: bool = False, **changes: Any
    ) -> TrainingLoop:
        settings = SETTINGS.replace(**changes)
        torch.manual_seed(0)
        encoder = tiny_encoder()
        encoder.model.passage_encoder.transformer.config.hidden_dropout_prob = 0.1
        for module in encoder.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.1
        prepare_tuning(encoder.model, tune)
        folder.mkdir(exist_ok=True)
        options = {"name": "tiny", "keep": settings.save_total_limit, "only_updates": only_updates}
        checkpoints = RunCheckpoints(folder, encoder.model, encoder.tokenizer, **options)
        recipe = MemoryRecipe(training_examples(40), settings)
        recipe.evaluation = RunEvaluation(evaluation, "score", greater_is_better=True) if evaluation else None
        processes = Processes(torch.device("cpu"))
        return TrainingLoop(encoder.model, recipe, settings, checkpoints, processes, show_progress_bar=False)

    return make


def weights(loop: TrainingLoop) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in loop.model.named_parameters()}


def accelerator_that_scales(*arguments: Any) -> Accelerator:
    """Scales gradients on a processor too, where Accelerate does so on GPUs alone, and grows the scale."""
    accelerator = make_accelerator(*arguments)
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    accelerator.native_amp, accelerator.state._mixed_precision = True, "fp16"
    return accelerator


@pytest.mark.parametrize(
    ("tune", "workers", "precision"), [("full", 2, "no"), ("lora", 0, "fp16"), ("frozen", 0, "bf16")]
)
def test_a_resumed_run_is_the_undisturbed_one_bit_for_bit(
    make_loop: Any, tmp_path: Path, tune: str, workers: int, precision: str, monkeypatch: Patch
) -> None:
    if tune == "lora":
        pytest.importorskip("peft")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", precision)
    if precision == "fp16":
        monkeypatch.setattr("graphdoc.training.loop.make_accelerator", accelerator_that_scales)
    undisturbed = make_loop(tmp_path / "a", tune=tune)
    before = weights(undisturbed)
    undisturbed.run()
    others = set(active_children())
    loading: list[int] = []
    interrupted = make_loop(tmp_path / "b", tune=tune, dataloader_num_workers=workers)
    _fail(interrupted, at=8, before=lambda: loading.append(len(active_children())))
    with pytest.raises(KeyboardInterrupt):
        interrupted.run()
    assert loading == [len(others) + workers] * 8 and set(active_children()) == others

    # From the middle of the second epoch on.
    resumed = make_loop(tmp_path / "b", tune=tune, dataloader_num_workers=workers)
    assert resumed._checkpoints.last == tmp_path / "b" / "checkpoint-6"
    resumed.run(resumed._checkpoints.last)

    if precision == "fp16":
        assert undisturbed.accelerator.scaler.get_scale() == resumed.accelerator.scaler.get_scale() == 2.0**12
    assert set(active_children()) == others
    assert losses_by_step(tmp_path / "b") == losses_by_step(tmp_path / "a")
    assert sorted(losses_by_step(tmp_path / "a")) == list(range(1, 11))
    logged = {"accuracy", "positive_similarity", "negative_similarity", "embedding_norm", "spread", "learning_rate",
              "documents_per_second", "tokens_per_second", "waiting_share", "grad_norm"}  # fmt: skip
    assert logged <= entries_of(tmp_path / "a")[0].keys()
    for name, weight in weights(undisturbed).items():
        assert torch.equal(weight, weights(resumed)[name]), name
    assert not torch.equal(before["projection.weight"], weights(resumed)["projection.weight"])
    first, second = (load_file(tmp_path / run / "checkpoint-10" / "model.safetensors") for run in "ab")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def _fail(loop: TrainingLoop, at: int, before: Callable[[], None]) -> None:
    compute, earlier = loop._compute_gradient, iter(range(at - 1))

    def failing(batch: Any) -> None:
        before()
        if next(earlier, None) is None:
            raise KeyboardInterrupt
        compute(batch)

    loop._compute_gradient = failing  # type: ignore[method-assign]


@pytest.mark.parametrize(("tune", "only_updates"), [("full", False), ("lora", False), ("lora", True), ("frozen", True)])
def test_a_checkpoint_is_an_encoder(
    make_loop: Any,
    backbone_folder: Backbones,
    tmp_path: Path,
    tune: str,
    only_updates: bool,
    structured: Any,
    monkeypatch: Patch,
) -> None:
    if tune == "lora":
        pytest.importorskip("peft")
    loop = make_loop(tmp_path, tune=tune, learning_rate=1e-2, only_updates=only_updates, epochs=1)
    loop.run()
    checkpoint = tmp_path / "checkpoint-5"
    # A backbone that was a folder is remembered by its name.
    monkeypatch.chdir(backbone_folder("roberta").parent)

    encoder = DocumentEncoder.from_pretrained(checkpoint, device="cpu")

    trained = DocumentEncoder(loop.model, encoder.tokenizer, device="cpu")
    np.testing.assert_allclose(encoder.encode(structured), trained.encode(structured), atol=1e-5)
    assert not any(path.suffix in (".bin", ".pt", ".pth", ".pkl") for path in checkpoint.rglob("*"))
    assert (checkpoint / "model.safetensors").exists() != only_updates
    if only_updates:
        updates = load_file(checkpoint / "updates.safetensors")
        assert any(key.endswith(".lora_A") for key in updates) == (tune == "lora")


def no_json(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


def best_weights(loop: TrainingLoop, folder: Path, step: int) -> None:
    """The model that a run leaves is that of its best checkpoint."""
    best = load_file(folder / f"checkpoint-{step}" / "model.safetensors")
    assert all(torch.equal(weight, best[name]) for name, weight in weights(loop).items())


def test_old_checkpoints_go_and_the_best_one_stays(make_loop: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    scores = iter([1.0, 3.0, 2.0, 0.5, 0.25, 0.1])
    loop = make_loop(folder, evaluation=lambda: {"score": next(scores)}, save_steps=2, save_total_limit=1)
    loop.run()
    # The last one stays too: a run that was asked to stop goes on from there.
    assert {path.name for path in folder.glob("checkpoint-*")} == {"checkpoint-4", "checkpoint-10"}
    best_weights(loop, folder, 4)
    assert [entry["eval_score"] for entry in entries_of(folder) if "eval_score" in entry] == [1, 3, 2, 0.5, 0.25]
    # It is found where the folder was moved to.
    moved = folder.rename(tmp_path / "moved")
    resumed = make_loop(moved, evaluation=lambda: {"score": 0.0}, save_steps=2, save_total_limit=1)
    resumed.run(moved / "checkpoint-10")
    best_weights(resumed, moved, 4)


def test_of_models_that_are_as_good_one_is_chosen_and_another_if_it_is_gone(make_loop: Any, tmp_path: Path) -> None:
    # The later one, or the one of the lower loss; what is no number is never the best, also as a loss.
    nan = float("nan")
    for losses, best in (([], 8), ([0.1, 0.4, 0.3, 0.35, 0.1], 6), ([0.1, nan, 0.4, nan, 0.1], 6)):
        rest = iter([{"loss": one} for one in losses] or [{}] * 5)
        scores = iter([nan, 3.0, 3.0, 3.0, 1.0])
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        loop = make_loop(folder, evaluation=lambda: {"score": next(scores), **next(rest)}, save_steps=2)  # noqa: B023
        loop.run()
        assert (loop.state.best_global_step, loop.state.best_metric) == (best, 3.0)
        best_weights(loop, folder, best)
        json.loads((folder / "checkpoint-10" / "trainer_state.json").read_text(), parse_constant=no_json)
    for step in (6, 10):
        rmtree(folder / f"checkpoint-{step}")
    loop = make_loop(folder, evaluation=lambda: {"score": 0.5}, save_steps=2)
    loop.run(folder / "checkpoint-8")
    assert (loop.state.best_global_step, loop.state.best_metric) == (10, 0.5)
    best_weights(loop, folder, 10)


def test_numbers_that_are_none_stop_a_run_and_are_not_written(make_loop: Any, tmp_path: Path) -> None:
    loop = make_loop(tmp_path / "loss")
    with torch.no_grad():
        loop.model.projection.weight[0, 0] = float("nan")
    with pytest.raises(ModelError, match=r"step 1.*nan.*wrong-batch-1\.json"):
        loop.run()
    assert len(json.loads((tmp_path / "loss" / "wrong-batch-1.json").read_text())["documents"]) == 8
    loop = make_loop(tmp_path / "weights", save_steps=1, learning_rate=1e30, warmup_steps=0.0, max_grad_norm=0.0)
    loop.model.projection.weight.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(ModelError, match="step 1"):
        loop.run()
    assert not list(tmp_path.glob("*/checkpoint-*"))


def test_a_full_disk_leaves_the_last_checkpoint_whole_and_a_damaged_one_is_named(
    make_loop: Any, tmp_path: Path, monkeypatch: Patch
) -> None:
    whole = checkpointing.save_optimizer

    def full(folder: Path, *others: Any) -> None:
        if "checkpoint-6" in str(folder):
            raise OSError(28, "No space left on device")
        whole(folder, *others)

    monkeypatch.setattr(checkpointing, "save_optimizer", full)
    with pytest.raises(OutputError, match=r"checkpoint-6.*No space left"):
        make_loop(tmp_path).run()
    assert [path.name for path in tmp_path.iterdir() if "checkpoint" in path.name] == ["checkpoint-3"]
    DocumentEncoder.from_pretrained(tmp_path / "checkpoint-3", device="cpu")
    for name in ("model.safetensors", "training/optimizer.safetensors", "trainer_state.json"):
        file = tmp_path / "checkpoint-3" / name
        content = file.read_bytes()
        for damage in (lambda path: path.write_bytes(b"damaged"), Path.unlink):
            damage(file)
            with pytest.raises(ModelError, match=r"checkpoint-3"):
                make_loop(tmp_path).run(tmp_path / "checkpoint-3")
        file.write_bytes(content)


def test_learning_rates_of_encoder_and_head_can_differ(make_loop: Any, tmp_path: Path) -> None:
    loop = make_loop(tmp_path, encoder_learning_rate=1e-6, weight_decay=0.1)
    groups = loop._optimizer.param_groups

    assert {(group["initial_lr"], group["weight_decay"]) for group in groups} == {
        (1e-3, 0.0), (1e-3, 0.1), (1e-6, 0.0), (1e-6, 0.1)
    }  # fmt: skip
    assert sum(len(group["params"]) for group in groups) == len(list(loop.model.parameters()))


def test_the_log_of_a_resumed_run_is_that_of_an_undisturbed_one(make_loop: Any, tmp_path: Path) -> None:
    make_loop(tmp_path / "a").run()
    undisturbed, log = untimed(tmp_path / "a"), tmp_path / "a" / "log.jsonl"
    assert [entry["step"] for entry in undisturbed] == list(range(1, 11)), "a line for every step, and no other"
    # What a kill or a disk has damaged is left out.
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], b"5\n", b"\xff\xfe\n", b'{"loss": 1}\n', *lines[3:], b'{"step": 1']))
    resumed = make_loop(tmp_path / "a")
    resumed.run(tmp_path / "a" / "checkpoint-6")
    assert resumed._recipe.begun == [1]
    assert untimed(tmp_path / "a") == undisturbed
    # At its end already.
    make_loop(tmp_path / "a").run(tmp_path / "a" / "checkpoint-10")
    assert untimed(tmp_path / "a") == undisturbed


def test_the_log_is_json_whatever_the_numbers_are(tmp_path: Path) -> None:
    logs = {"loss": 0.5, "grad_norm": float("inf"), "accuracy": float("nan"), "epoch": 1, "note": "text"}
    with RunLog(tmp_path, TrainState(global_step=3, max_steps=9), show=False) as log:
        log.write(logs)
    entry = json.loads((tmp_path / "log.jsonl").read_text(), parse_constant=no_json)
    assert entry == {"step": 3, "loss": 0.5, "grad_norm": None, "accuracy": None, "epoch": 1, "note": "text"}


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", pytest.param("wandb", marks=pytest.mark.slow)])
def test_trackers_get_the_numbers_and_the_settings_without_a_network(
    name: str, make_loop: Any, tmp_path: Path, monkeypatch: Patch
) -> None:
    pytest.importorskip(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    here, run = tmp_path / "here", tmp_path / "run"
    here.mkdir()
    run.mkdir()
    monkeypatch.chdir(here)
    (run / "config.yaml").write_text("training: {seed: 3}\n")
    make_loop(run, report_to=[name], evaluation=lambda: {"score": 1.0}, epochs=1).run()
    assert not list(here.iterdir())
    if name == "tensorboard":
        accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
        (folder,) = {path.parent for path in run.rglob("events.*")}
        events = accumulator.EventAccumulator(str(folder))
        events.Reload()
        found = {event.step: event.value for event in events.Scalars("train/loss")}
        assert [event.step for event in events.Scalars("eval/score")] == [3, 5]
    elif name == "mlflow":
        (metric,) = run.glob("mlruns/*/*/metrics/train/loss")
        found = {int(line.split()[2]): float(line.split()[1]) for line in metric.read_text().splitlines()}
        (setting,) = run.glob("mlruns/*/*/params/training.seed")
        assert setting.read_text() == "3"
    else:
        (file,) = run.glob("wandb/offline-run-*/*.wandb")
        # The tracker's own process writes the file, perhaps after the run has ended.
        for _ in range(600):
            content = file.read_bytes()
            if b"eval/score" in content:
                break
            time.sleep(0.1)
        assert b"training.seed" in content and b"eval/score" in content
        found = {step: value for step, value in losses_by_step(run).items() if json.dumps(value).encode() in content}
    assert found == pytest.approx(losses_by_step(run))


def test_a_tracker_that_does_not_start_is_named(make_loop: Any, tmp_path: Path, monkeypatch: Patch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://server")
    with pytest.raises(OutputError, match=r"mlflow.*nowhere"):
        make_loop(tmp_path / "lost", report_to=["mlflow"], epochs=1).run()
    monkeypatch.setattr("graphdoc.training.run_folder.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"\[track\]"):
        make_loop(tmp_path / "none", report_to=["wandb"], epochs=1).run()
