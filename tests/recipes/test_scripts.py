"""The scripts that show a recipe do what its command does."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from corpus_examples import write_rows
from safetensors.torch import load_file

from graphdoc.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def config(backbone_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """Settings that all recipes share, on 24 labelled documents."""
    draw = np.random.default_rng(0)
    words = (["rice", "mould", "steam"], ["tide", "marsh", "flood"])
    rows = [
        {
            "id": f"d{number}",
            "text": " ".join(f"{' '.join(draw.choice(words[number % 2], 10))}." for _ in range(4)),
            "label": f"label {number % 2}",
        }
        for number in range(24)
    ]
    values = {
        "corpus": {
            "source": str(write_rows(tmp_path / "corpus.jsonl", rows)),
            "cache": str(tmp_path / "cache"),
            "preparing_processes": 1,
        },
        "model": {"start": str(backbone_folder("roberta")), "settings": {"projection_size": 16, "passage_words": 10}},
        "training": {"batch_size": 8, "loading_processes": 0, "max_steps": 2, "learning_rate": 1e-3},
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("script", "command", "options"),
    [
        ("pretrain/sub_documents.py", ["pretrain"], ["evaluation.held_out=0.2"]),
        ("finetune/classify.py", ["finetune", "classify"], []),
        ("finetune/compare.py", ["finetune", "compare"], ["sections.number=1", "groups.per_batch=2"]),
    ],
)
def test_a_script_trains_the_model_of_its_command(
    config: Path, tmp_path: Path, script: str, command: list[str], options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    common = ["--config", str(config), "--device", "cpu", *options]
    assert main([*command, *common, f"output={tmp_path / 'command'}"]) == 0
    monkeypatch.setattr(sys, "argv", [script, *common, f"output={tmp_path / 'script'}"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert ended.value.code == 0
    by_command, by_script = (
        load_file(tmp_path / name / "model" / "model.safetensors") for name in ("command", "script")
    )
    assert by_command.keys() == by_script.keys()
    assert all(torch.equal(weight, by_script[name]) for name, weight in by_command.items())


def test_a_mistake_is_one_line(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["sub_documents.py", "--config", str(config), "training.epoch=3"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "pretrain/sub_documents.py"), run_name="__main__")
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "training.epoch" in line
