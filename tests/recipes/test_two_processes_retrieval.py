"""Training for retrieval in two processes: the same as in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from retrieval_examples import write_beir
from safetensors.torch import load_file
from test_two_processes_pretraining import assert_close, losses
from two_processes import run_commands

from graphdoc.cli import main

pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")
pytestmark = pytest.mark.distributed


@pytest.fixture
def config(backbone_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A configuration on 30 documents of six topics, trained without dropout."""
    folder = write_beir(tmp_path / "beir")
    values = {
        "corpus": {
            "source": str(folder / "corpus.jsonl"), "cache": str(tmp_path / "cache"), "preparing_processes": 1,
        },
        "queries": {"source": str(folder), "split": "train"},
        "validation": {"split": "dev"},
        "loss": {"similarity": "cosine", "temperature": 0.1},
        "model": {
            "start": str(backbone_folder("roberta")),
            "settings": {"pooling": "mean", "projection_size": 16, "graph_layers": 1, "passage_words": 10},
        },
        "training": {
            "batch_size": 9, "learning_rate": 1e-4, "loading_processes": 0, "log_steps": 1, "max_steps": 3,
            "warmup": 0,
        },
    }  # fmt: skip
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.mark.slow
def test_runs_of_two_processes(config: Path, tmp_path: Path) -> None:
    def command(name: str, *options: str) -> list[str]:
        return [
            "finetune",
            "retrieve",
            "--config",
            str(config),
            "--device",
            "cpu",
            f"output={tmp_path / name}",
            *options,
        ]

    variants = {
        "full": ("negatives.per_query=2",),
        "frozen": ("model.tune=frozen", "negatives.per_query=3", "negatives.kind=judged"),
        "made": ("queries.source=null", "queries.split=null", "queries.made_from=[titles,first_sentences]",
                 "validation.split=null", "folds.number=2", "folds.fold=1"),
    }  # fmt: skip
    runs = {name: command(f"{name}-two", *options) for name, options in variants.items()}
    runs["unknown"] = command("x", "queries.source=nowhere")
    first, second = (dict(zip(runs, seen, strict=True)) for seen in run_commands(list(runs.values()), tmp_path))
    for name, options in variants.items():
        assert (first[name]["status"], second[name]["status"]) == (0, 0), first[name]["err"] + second[name]["err"]
        assert second[name]["out"] == ""
        assert main(command(f"{name}-one", *options)) == 0
        one, two = (
            load_file(tmp_path / f"{name}-{count}" / "model" / "model.safetensors") for count in ("one", "two")
        )
        assert_close(one, two)
        found = losses(tmp_path / f"{name}-two")
        assert len(found) == 3
        assert found == pytest.approx(losses(tmp_path / f"{name}-one"), rel=1e-5)
        results = [json.loads((tmp_path / f"{name}-{count}" / "results.json").read_text()) for count in ("one", "two")]
        assert results[1]["after"] == pytest.approx(results[0]["after"], rel=1e-4)
    assert (tmp_path / "made-two" / "test.run").exists()
    for seen in (first, second):
        assert seen["unknown"]["status"] == 2
        assert "nowhere" in seen["unknown"]["err"]
        assert "Traceback" not in seen["unknown"]["err"]
    assert not (tmp_path / "x").exists()
