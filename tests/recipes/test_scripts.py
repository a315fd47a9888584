"""The scripts that show a recipe do what its command does."""

from __future__ import annotations

import json
import runpy
import subprocess
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

PATIENCE = 600
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


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


@pytest.mark.parametrize(
    ("script", "command", "options"),
    [
        ("pretrain/sub_documents.py", ["pretrain"], ["evaluation.held_out=0.2"]),
        (
            "pretrain/sentence_pairs.py",
            ["pretrain"],
            [
                "recipe=sentence_pairs",
                "model.settings.graph_layers=0",
                "model.settings.readout=mean",
                "loss.mlm_weight=0",
                "loss.contrast_on=clean",
            ],
        ),
        ("pretrain/distillation.py", ["pretrain"], ["recipe=distillation", "teacher={teacher}"]),
        ("finetune/classify.py", ["finetune", "classify"], []),
        ("finetune/compare.py", ["finetune", "compare"], ["sections.number=1", "groups.per_batch=2"]),
        (
            "finetune/retrieve.py",
            ["finetune", "retrieve"],
            ["queries.made_from=[first_sentences]", "negatives.per_query=1"],
        ),
        (
            "finetune/subtopics.py",
            ["finetune", "subtopics"],
            ["pairs.file={pairs}", "model.settings.readout=initial_mean"],
        ),
    ],
)
def test_a_script_trains_the_model_of_its_command(
    config: Path, tmp_path: Path, script: str, command: list[str], options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pairs.tsv").write_text("d0\td2\t1\nd0\td1\t0\nd3\td5\t1\nd3\td8\t0\n", encoding="utf-8")
    options = [option.replace("{pairs}", str(tmp_path / "pairs.tsv")) for option in options]
    if "recipe=distillation" in options:
        encode = ["encode", str(tmp_path / "corpus.jsonl"), "--level", "document", "--device", "cpu"]
        assert main([*encode, "--output", str(tmp_path / "teacher")]) == 0
        options = [option.replace("{teacher}", str(tmp_path / "teacher")) for option in options]
    common = ["--config", str(config), "--device", "cpu", *options]
    assert main([*command, *common, f"output={tmp_path / 'command'}"]) == 0
    monkeypatch.setattr(sys, "argv", [script, *common, f"output={tmp_path / 'script'}"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert ended.value.code == 0
    by_command, by_script = weights(tmp_path / "command"), weights(tmp_path / "script")
    assert by_command.keys() == by_script.keys()
    assert all(torch.equal(weight, by_script[name]) for name, weight in by_command.items())


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize(
    "launcher",
    [["torch.distributed.run", "--standalone", "--nproc-per-node", "2"], ["accelerate.commands.launch", "--cpu"]],
    ids=["torchrun", "accelerate"],
)
def test_a_script_runs_under_a_launcher(config: Path, tmp_path: Path, launcher: list[str]) -> None:
    # Without dropout, whose draws differ from process to process.
    common = ["--config", str(config), "--device", "cpu", "model.tune=frozen", "labels.dropout=0"]
    assert main(["finetune", "classify", *common, f"output={tmp_path / 'command'}"]) == 0
    run = [str(ROOT / "finetune" / "classify.py"), *common, f"output={tmp_path / 'script'}"]
    subprocess.run([sys.executable, "-m", *launcher, *run], check=True, timeout=PATIENCE)
    by_command, by_script = weights(tmp_path / "command"), weights(tmp_path / "script")
    assert by_command.keys() == by_script.keys()
    assert max(float((weight - by_script[name]).abs().max()) for name, weight in by_command.items()) < 1e-4
    processes = json.loads((tmp_path / "script" / "record.json").read_text(encoding="utf-8"))["processes"]
    assert processes == (2 if "--nproc-per-node" in launcher else 1)


def test_a_mistake_is_one_line(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["sub_documents.py", "--config", str(config), "training.epoch=3"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "pretrain/sub_documents.py"), run_name="__main__")
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "training.epoch" in line
