"""What tests of training commands share: tiny settings, what a run wrote, and runs that go on."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file


def write_config(folder: Path, source: Path | str, backbone: Path, settings: Any, *, tune: str = "full", **parts: Any):
    """Write the settings of a short run of a tiny model on a corpus; its output is ``run``."""
    training = {
        "batch_size": 8, "learning_rate": 5e-3, "dataloader_num_workers": 0, "logging_steps": 1,
        **parts.pop("training"),
    }  # fmt: skip
    corpus = {"source": str(source), "preparing_processes": 1, "cache": str(folder / "cache")}
    values = {
        "corpus": {**corpus, **parts.pop("corpus", {})},
        "model": {"start": str(backbone), "tune": tune, "settings": {"pooling": "mean", **settings}},
        "training": training,
        "output": str(folder / "run"),
        **parts,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def results_of(folder: Path) -> dict[str, Any]:
    """The numbers of a run."""
    found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return found


def corpus_of(folder: Path) -> dict[str, Any]:
    """What a run wrote down about its data."""
    found: dict[str, Any] = json.loads((folder / "record.json").read_text(encoding="utf-8"))["corpus"]
    return found


def entries_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's log, up to one that is being written."""
    path, found = folder / "log.jsonl", []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def losses_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's log that tell of its steps."""
    return [entry for entry in entries_of(folder) if "loss" in entry]


def losses_by_step(folder: Path) -> dict[int, float]:
    """The loss of every step of a run."""
    return {entry["step"]: entry["loss"] for entry in losses_of(folder)}


def untimed(folder: Path) -> list[dict[str, Any]]:
    """The log of a run, but for how long things took."""
    timed = ("_per_second", "waiting_share")
    return [{name: one for name, one in entry.items() if not name.endswith(timed)} for entry in entries_of(folder)]


def told(result: Any) -> str:
    """All that a run that succeeded printed, on one line."""
    assert result.status == 0, result.err
    return " ".join((result.out + result.err).split())


def refusal(result: Any) -> str:
    """The one line of a run that was refused."""
    assert result.status == 2 and "Traceback" not in result.err, result.err
    (line,) = [line for line in result.err.splitlines() if not line.startswith("graphdoc: ")]
    return str(line)


def cut(folder: Path, target: Path, step: int) -> Path:
    """A copy of a run as it would be if it had been killed before any checkpoint after a step."""
    shutil.copytree(folder, target, symlinks=True)
    for checkpoint in target.glob("checkpoint-*"):
        if int(checkpoint.name.rpartition("-")[2]) > step:
            shutil.rmtree(checkpoint)
    shutil.rmtree(target / "model")
    return target


def same_model(one: Path, other: Path) -> bool:
    """Whether two runs ended with the same weights."""
    first, second = (load_file(folder / "model" / "model.safetensors") for folder in (one, other))
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())
