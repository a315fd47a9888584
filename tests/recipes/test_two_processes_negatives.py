"""Lists of negatives in two processes: those of one, the same for both, and read again by a resumed run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from retrieval_examples import write_beir
from safetensors.torch import load_file
from two_processes import run_commands

from graphdoc.cli import main
from graphdoc.retrieval.mining import NegativeLists

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
pytestmark = pytest.mark.distributed


@pytest.fixture
def config(backbone_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A configuration on 30 documents of six topics, 14 steps, with a refresh after 7."""
    folder = write_beir(tmp_path / "beir")
    values = {
        "corpus": {"source": str(folder / "corpus.jsonl"), "preparing_processes": 1, "cache": str(tmp_path / "cache")},
        "model": {
            "start": str(backbone_folder("roberta")), "tune": "frozen",
            "settings": {"pooling": "mean", "projection_size": 16, "graph_layers": 1, "passage_words": 10},
        },
        "queries": {"source": str(folder), "split": "train"},
        "validation": {"share": 0},
        "negatives": {"per_query": 2, "kind": "vectors", "depth": 5, "margin": 0.0, "refresh": 0.5},
        "loss": {"similarity": "cosine", "temperature": 0.1},
        "training": {"batch_size": 8, "epochs": 2, "learning_rate": 1e-3, "loading_processes": 0, "log_steps": 1,
                     "save_steps": 4, "keep_checkpoints": 9},
    }  # fmt: skip
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.mark.slow
def test_lists_of_two_processes(config: Path, tmp_path: Path) -> None:
    def command(name: str, *options: str) -> list[str]:
        output = f"output={tmp_path / name}"
        return ["finetune", "retrieve", "--config", str(config), "--device", "cpu", output, *options]

    both = ("negatives.kind=both", "negatives.refresh=null", "training.epochs=1")
    runs = {"vectors": command("vectors-two"), "both": command("both-two", *both)}
    first, second = (dict(zip(runs, seen, strict=True)) for seen in run_commands(list(runs.values()), tmp_path))
    for name, options in (("vectors", ()), ("both", both)):
        assert (first[name]["status"], second[name]["status"]) == (0, 0), first[name]["err"] + second[name]["err"]
        assert second[name]["out"] == ""
        assert main(command(f"{name}-one", *options)) == 0
        one, two = (NegativeLists.read(tmp_path / f"{name}-{count}/negatives/start.jsonl") for count in ("one", "two"))
        assert one == two
    # A run that was cut off after the refresh and before the next checkpoint reads what was mined.
    whole, cut = tmp_path / "vectors-two", tmp_path / "cut"
    shutil.copytree(whole, cut, symlinks=True)
    shutil.rmtree(cut / "model")
    for checkpoint in cut.glob("checkpoint-*"):
        if int(checkpoint.name.rpartition("-")[2]) > 4:
            shutil.rmtree(checkpoint)
    kept = (cut / "negatives" / "step-7.jsonl").read_bytes()
    for seen in run_commands([command("cut", "--resume")], tmp_path):
        assert seen[0]["status"] == 0, seen[0]["err"]
    assert (cut / "negatives" / "step-7.jsonl").read_bytes() == kept
    expected, found = (load_file(folder / "model" / "model.safetensors") for folder in (whole, cut))
    assert all(torch.equal(value, found[name]) for name, value in expected.items())
