"""Runs of recipes in two processes: the same as in one."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from corpus_examples import rows_of, write_rows
from pretraining_job import PASSAGES, all_gradients
from safetensors.torch import load_file
from training_runs import losses_of, write_config
from two_processes import COMMANDS_JOB as JOB
from two_processes import launch, run_commands
from typed import Backbones

from graphdoc.cli import main

pytestmark = pytest.mark.distributed


@pytest.fixture
def config(backbone_folder: Backbones, tmp_path: Path) -> Path:
    """A configuration on 126 documents of two to six passages, trained without dropout."""
    return write_config(
        tmp_path, write_rows(tmp_path / "corpus.jsonl", rows_of(140)), backbone_folder("roberta"),
        {"projection_size": 16, "passage_words": 20}, loss={"similarity": "cosine", "temperature": 0.2},
        training={"batch_size": 7, "learning_rate": 1e-4, "max_steps": 3, "warmup_steps": 0},
    )  # fmt: skip


def log_of(folder: Path) -> np.ndarray:
    """Loss and length of the gradient of every step, ``(steps, 2)``."""
    return np.array([[line["loss"], line["grad_norm"]] for line in losses_of(folder)])


def assert_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """Compare weights, more closely than a step of Adam where they have gradients.

    Biases of keys change no attention, and what a target adds to the scores of its neighbours (``att_dst``) changes
    none where these lie on one side of the bend of LeakyReLU: of their rounding errors Adam makes steps.
    """
    assert found.keys() == expected.keys()
    differences = {name: float((found[name] - expected[name]).abs().max()) for name in found}
    without_gradient = ("key.bias", "att_dst")
    assert {
        name: value for name, value in differences.items() if value > 1e-5 and not name.endswith(without_gradient)
    } == {}


def test_gradients_of_two_processes_are_those_of_one_on_the_union(backbone_folder: Backbones, tmp_path: Path) -> None:
    backbone = str(backbone_folder("roberta"))
    launch(JOB, "gradients", backbone, tmp_path / "seen")
    expected = all_gradients(backbone, range(len(PASSAGES)))
    for rank in (0, 1):
        seen = json.loads((tmp_path / f"seen-{rank}.json").read_text(encoding="utf-8"))
        assert seen.keys() == expected.keys()
        for name, (whole, loss) in expected.items():
            values, found = seen[name]
            assert found == pytest.approx(loss, rel=1e-10), name
            difference = torch.tensor(values, dtype=whole.dtype) - whole
            assert whole.dtype == torch.float64 and float(whole.norm()) > 1e-4, name
            assert float(difference.norm()) <= 1e-10 * float(whole.norm()), name


def test_runs_of_two_processes(config: Path, tmp_path: Path, language_model_folder: Path) -> None:
    """One start of two processes for all commands, each of which has to end in both."""
    (tmp_path / "empty.jsonl").touch()
    write_rows(tmp_path / "short.jsonl", [{"id": str(number), "text": "Too short."} for number in range(5)])
    lines = (tmp_path / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "broken.jsonl").write_text("\n".join([*lines[:9], lines[9][:30], *lines[10:]]), encoding="utf-8")

    def command(name: str, *options: str) -> list[str]:
        return ["pretrain", "--config", str(config), "--device", "cpu", f"output={tmp_path / name}", *options]

    def pairs(name: str) -> list[str]:
        """Sentence pairs with masked tokens; seven do not divide by two."""
        source = write_rows(tmp_path / "pairs.jsonl", rows_of(10))
        changes = [
            f"model.start={language_model_folder}", f"corpus.source={source}", f"corpus.cache={tmp_path / 'cache'}",
            f"output={tmp_path / name}", "training.batch_size=7", "training.max_steps=3", "training.logging_steps=1",
        ]  # fmt: skip
        return ["pretrain", "--config", "sdr_quick", "--device", "cpu", *changes]

    assert main(command("begun", "training.save_steps=1", "training.save_total_limit=9")) == 0
    for name in ("checkpoint-3", "checkpoint-2", "model"):
        (tmp_path / "begun" / name).rename(tmp_path / f"undisturbed-{name}")
    runs = {
        "two": command("two", f"corpus.cache={tmp_path / 'cache-two'}"),
        "resumed": command("begun", "training.save_steps=1", "training.save_total_limit=9", "--resume"),
        "held out": command("held-out", "validation.share=0.2", "validation.best=loss"),
        "frozen": command("frozen", "model.tune=frozen", "training.report_to=[tensorboard]"),
        "empty": command("x", f"corpus.source={tmp_path / 'empty.jsonl'}"),
        "short": command("x", f"corpus.source={tmp_path / 'short.jsonl'}"),
        "stop": command("x", f"corpus.source={tmp_path / 'broken.jsonl'}", "corpus.on_error=stop"),
        "skip": command("skip", f"corpus.source={tmp_path / 'broken.jsonl'}", "corpus.on_error=skip"),
        "no such number": command("wrong", "validation.share=0.2", "validation.best=beauty"),
        "taken": command("two"),
        "pairs": pairs("pairs"),
        "no numbers": command("nan", "training.learning_rate=1e30", "training.max_grad_norm=0", "training.max_steps=9"),
        "not writable": command("config.yaml/run"),
    }
    first, second = (dict(zip(runs, seen, strict=True)) for seen in run_commands(list(runs.values()), tmp_path))
    expected = {
        "empty": "empty.jsonl", "short": "2 passages", "stop": "broken.jsonl",
        "no such number": "validation.best='beauty'", "taken": "two", "no numbers": "wrong-batch-",
        "not writable": "Not a directory",
    }  # fmt: skip
    for name in runs:
        for seen in (first[name], second[name]):
            assert seen["status"] == (2 if name in expected else 0), (name, seen["err"])
            assert expected.get(name, "") in seen["err"], name
            assert "Traceback" not in seen["err"]
    # One process speaks.
    assert "3 steps of 7 documents" in first["two"]["out"]
    assert "2 processes" in first["two"]["out"]
    assert second["two"]["out"] == ""

    # What two processes have cut is what one has.
    (cut,) = (tmp_path / "cache-two" / "corpora").iterdir()
    for path in (cut / "documents.arrow", cut / "manifest.json"):
        assert path.read_bytes() == (tmp_path / "cache" / "corpora" / cut.name / path.name).read_bytes()

    # Three steps of two processes are those of one; what they reduce per step is one gradient, and a few numbers.
    assert main(command("one")) == 0
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two"))
    assert_close(one, two)
    start = load_file(tmp_path / "undisturbed-checkpoint-2" / "model.safetensors")
    assert not torch.allclose(start["projection.weight"], one["projection.weight"], rtol=1e-5, atol=1e-5)
    assert log_of(tmp_path / "two") == pytest.approx(log_of(tmp_path / "one"), rel=1e-5)
    record = json.loads((tmp_path / "two" / "record.json").read_text(encoding="utf-8"))
    assert record["processes"] == 2
    for seen in (first, second):
        assert [size for size in seen["two"]["reduced"] if size >= 1000] == [record["trained_weights"]] * 3

    assert main(pairs("pairs-of-one")) == 0
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("pairs-of-one", "pairs"))
    assert_close(one, two)
    assert log_of(tmp_path / "pairs") == pytest.approx(log_of(tmp_path / "pairs-of-one"), rel=1e-5)

    # A run of one process goes on in two.
    assert "resume" not in first["resumed"]["err"]
    resumed = load_file(tmp_path / "begun" / "model" / "model.safetensors")
    assert_close(resumed, load_file(tmp_path / "undisturbed-model" / "model.safetensors"))
    results = json.loads((tmp_path / "held-out" / "results.json").read_text(encoding="utf-8"))
    assert {"loss", "accuracy"} <= results["after"].keys() == results["before"].keys()
    # Documents that one process measures are measured as by one process.
    assert main(command("alone", "validation.share=0.2", "validation.best=loss")) == 0
    alone = json.loads((tmp_path / "alone" / "results.json").read_text(encoding="utf-8"))
    assert results["after"] == pytest.approx(alone["after"], rel=1e-4)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", [pytest.param("failing", marks=pytest.mark.slow), "killed"])
def test_a_process_that_fails_does_not_leave_the_other_waiting(config: Path, kind: str) -> None:
    first, second = launch(JOB, "fail_midway", config, kind, check=False)
    assert first.returncode == 2, first.stderr
    assert second.returncode == (-9 if kind == "killed" else 1), second.stderr
    if kind == "failing":
        assert "a process fails" in second.stderr


def test_a_process_that_stands_still_is_named(tmp_path: Path) -> None:
    launch(JOB, "partners", tmp_path / "said")
    first, second = (json.loads((tmp_path / f"said-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1))
    assert "process 1 " in first[0] and second


def test_processes_stop_as_one_where_only_one_is_asked(config: Path, tmp_path: Path) -> None:
    launch(JOB, "asked_to_stop", config, tmp_path / "seen")
    (first, told), (second, silence) = (
        json.loads((tmp_path / f"seen-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)
    )
    assert (first, second) == (128 + signal.SIGTERM, 128 + signal.SIGTERM)
    assert (tmp_path / "run" / "checkpoint-2").is_dir()
    assert "asked to stop after step 2; go on with --resume" in told
    assert silence == ""
    assert main(["pretrain", "--config", str(config), "--device", "cpu", "--resume"]) == 0
    assert len(log_of(tmp_path / "run")) == 3
