from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from corpus_examples import rows_of, write_rows
from forked import Forked
from training_runs import losses_by_step, results_of, same_model, untimed, write_config
from two_processes import COMMANDS_JOB, LAUNCHERS, launched
from typed import Backbones, Folders

from graphdoc.cli import main

STEPS_OF_EPOCH, EPOCHS = 12, 4
STEPS = STEPS_OF_EPOCH * EPOCHS
# Far more than a run takes.
PATIENCE = 900


class Undisturbed(NamedTuple):
    config: Path
    folder: Path


@pytest.fixture(scope="module")
def undisturbed(backbone_folder: Backbones, tmp_path_factory: Folders) -> Undisturbed:
    """A run on some 60 documents that trains everything, with dropout everywhere."""
    tmp_path = tmp_path_factory.mktemp("undisturbed")
    backbone = tmp_path / "backbone"
    shutil.copytree(backbone_folder("roberta"), backbone)
    values = json.loads((backbone / "config.json").read_text(encoding="utf-8"))
    values.update(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2)
    (backbone / "config.json").write_text(json.dumps(values), encoding="utf-8")
    settings = {"projection_size": 16, "passage_words": 20, "graph_kind": "section"}
    path = write_config(
        tmp_path, write_rows(tmp_path / "corpus.jsonl", rows_of(66)), backbone, settings,
        loss={"similarity": "cosine", "temperature": 0.2}, validation={"share": 0.15, "best": "accuracy"},
        training={"batch_size": 4, "epochs": EPOCHS, "learning_rate": 1e-3, "save_steps": 5},
    )  # fmt: skip
    assert main(["pretrain", "--config", str(path), "--device", "cpu"]) == 0
    assert max(losses_by_step(tmp_path / "run")) == STEPS
    return Undisturbed(path, tmp_path / "run")


def start(config: Path, output: Path, *options: str) -> Forked:
    """Starts the command, in a group of processes of its own, as a cluster gives to a job."""
    return Forked("-m", "graphdoc", "pretrain", "--config", config, "--device", "cpu", *options, f"output={output}")


def interrupt(
    run: Forked, folder: Path, after: int, number: int, pause: float = 0.0, group: bool = False
) -> tuple[str, str]:
    """Sends a signal once a step has been logged, and waits for the end."""
    wait_for(run, folder, after)
    time.sleep(pause)
    (os.killpg if group else os.kill)(run.pid, number)
    return run.communicate(timeout=PATIENCE)


def resume(undisturbed: Undisturbed, folder: Path) -> None:
    """Goes on to the end, which is that of the undisturbed run."""
    arguments = ["--config", str(undisturbed.config), "--device", "cpu", f"output={folder}"]
    assert main(["pretrain", *arguments, "--resume"]) == 0
    assert_same(folder, undisturbed.folder)


def wait_for(run: Forked, folder: Path, step: int) -> None:
    begin = time.monotonic()
    while max(losses_by_step(folder), default=0) < step and run.poll() is None:
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.005)


def assert_same(folder: Path, undisturbed: Path) -> None:
    """The models that are left, the losses and what was measured, all bit for bit."""
    assert untimed(folder) == untimed(undisturbed)
    assert same_model(folder, undisturbed) and results_of(folder) == results_of(undisturbed)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_a_run_that_was_killed_and_resumed_is_the_undisturbed_one(
    undisturbed: Undisturbed, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    run = start(undisturbed.config, tmp_path / "run")
    # In mid-epoch, and at any moment of a step or of writing a checkpoint.
    after = draw.choice([step for step in range(2, STEPS - 8) if step % STEPS_OF_EPOCH not in (0, STEPS_OF_EPOCH - 1)])
    interrupt(run, tmp_path / "run", after, signal.SIGKILL, draw.uniform(0, 0.1))
    assert run.returncode == -signal.SIGKILL
    assert after <= max(losses_by_step(tmp_path / "run")) < STEPS
    assert not (tmp_path / "run" / "model").exists()

    resume(undisturbed, tmp_path / "run")


def test_a_run_that_is_asked_to_stop_writes_a_checkpoint_and_goes_on(undisturbed: Undisturbed, tmp_path: Path) -> None:
    run = start(undisturbed.config, tmp_path / "run")
    out, err = interrupt(run, tmp_path / "run", 7, signal.SIGTERM)
    assert run.returncode == 128 + signal.SIGTERM, err
    last = max(losses_by_step(tmp_path / "run"))
    assert 7 <= last < STEPS
    assert f"the run was asked to stop after step {last}; go on with --resume" in err
    assert (tmp_path / "run" / f"checkpoint-{last}").is_dir()
    assert f"checkpoint-{last}" in "".join(out.split())
    assert "try it" not in out
    assert not (tmp_path / "run" / "model").exists()

    resume(undisturbed, tmp_path / "run")


def test_a_signal_to_all_processes_of_a_job_writes_a_checkpoint_too(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """Processes that load get it as well, also those of an epoch that was resumed, and the steps to come need them."""
    folder = tmp_path / "run"
    last = 0
    for options in ((), ("--resume",)):
        run = start(undisturbed.config, folder, "training.dataloader_num_workers=2", *options)
        _, err = interrupt(run, folder, last + 3, signal.SIGTERM, group=True)
        assert run.returncode == 128 + signal.SIGTERM, err
        before, last = last, max(losses_by_step(folder))
        assert before < last < STEPS
        assert (folder / f"checkpoint-{last}").is_dir()
        assert "Traceback" not in err

    resume(undisturbed, folder)


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_one_process_of_two_is_killed_the_other_ends_and_the_run_goes_on(
    undisturbed: Undisturbed, tmp_path: Path, launcher: str
) -> None:
    def status(kind: str, folder: str, *options: str) -> int:
        changes = [f"output={tmp_path / folder}", "training.max_steps=5", "training.save_steps=1", *options]
        return launched(launcher, COMMANDS_JOB, "fail_midway", undisturbed.config, kind, *changes).returncode

    assert status("whole", "undisturbed") == 0
    assert status("killed", "run") != 0 and max(losses_by_step(tmp_path / "run")) == 1
    assert status("whole", "run", "--resume") == 0
    assert_same(tmp_path / "run", tmp_path / "undisturbed")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are found in /proc")
def test_a_process_that_loads_and_is_killed_is_reported_in_one_line(undisturbed: Undisturbed, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = start(undisturbed.config, folder, "training.dataloader_num_workers=2")
    wait_for(run, folder, 3)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text(encoding="ascii").split()
    names = {child: Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8") for child in children}
    workers = [int(child) for child, name in names.items() if "resource_tracker" not in name]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 2, err
    assert "Traceback" not in err
    assert "a process that loads documents was ended from outside, perhaps for want of memory; lower" in err
    assert "training.dataloader_num_workers=2 and resume" in err
