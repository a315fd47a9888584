"""Training to compare documents in two processes: the same as in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from corpus_examples import write_rows
from safetensors.torch import load_file
from test_two_processes_pretraining import assert_close, losses
from two_processes import run_commands

from graphdoc.cli import main

pytestmark = pytest.mark.distributed


@pytest.fixture
def config(backbone_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A configuration on 24 documents of one to five passages in four groups, trained without dropout."""
    draw = np.random.default_rng(0)
    words = [
        ["rice", "mould", "steam"],
        ["tide", "marsh", "flood"],
        ["clock", "log", "order"],
        ["code", "page", "byte"],
    ]
    rows = []
    for number in range(24):
        text = " ".join(f"{' '.join(draw.choice(words[number % 4], 10))}." for _ in range(int(draw.integers(1, 6))))
        rows.append({"id": f"d{number}", "text": text, "label": number % 4})
    pairs = [f"d{a}\td{(a + step) % 24}\t{int(step == 4)}\n" for a in range(24) for step in (4, 5)]
    (tmp_path / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    settings = {"pooling": "mean", "projection_size": None, "graph_layers": 1, "passage_words": 10,
                "structural_embeddings": True, "readout": "sections", "chunk_attention_heads": 2,
                "section_lstm_size": 12, "section_projection_size": 8}  # fmt: skip
    values = {
        "corpus": {
            "source": str(write_rows(tmp_path / "corpus.jsonl", rows)), "cache": str(tmp_path / "cache"),
            "preparing_processes": 1,
        },
        "model": {"start": str(backbone_folder("roberta")), "settings": settings},
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
    pairs = tmp_path / "pairs.tsv"

    def command(name: str, *options: str) -> list[str]:
        output = f"output={tmp_path / name}"
        return ["finetune", "compare", "--config", str(config), "--device", "cpu", output, *options]

    by_pairs = ("groups.by=pairs", f"groups.file={pairs}")
    variants = {
        "groups": (f"validation.pairs={pairs}",),
        "cosine": ("loss.kind=cosine", *by_pairs),
    }
    runs = {name: command(f"{name}-two", *options) for name, options in variants.items()}
    runs["unknown"] = command("x", f"validation.pairs={tmp_path / 'nowhere.tsv'}")
    first, second = (dict(zip(runs, seen, strict=True)) for seen in run_commands(list(runs.values()), tmp_path))
    for name, options in variants.items():
        assert (first[name]["status"], second[name]["status"]) == (0, 0), first[name]["err"] + second[name]["err"]
        assert "2 processes" in first[name]["out"]
        assert second[name]["out"] == ""
        assert main(command(f"{name}-one", *options)) == 0
        one, two = (
            load_file(tmp_path / f"{name}-{count}" / "model" / "model.safetensors") for count in ("one", "two")
        )
        assert_close(one, two)
        found = losses(tmp_path / f"{name}-two")
        assert len(found) == 3
        assert found == pytest.approx(losses(tmp_path / f"{name}-one"), rel=1e-5)
    results = [json.loads((tmp_path / f"groups-{count}" / "results.json").read_text()) for count in ("one", "two")]
    assert results[1]["after"] == pytest.approx(results[0]["after"], rel=1e-4)
    assert "pair_auc" in results[0]["after"]
    for seen in (first, second):
        assert seen["unknown"]["status"] == 2
        assert "nowhere.tsv" in seen["unknown"]["err"]
        assert "Traceback" not in seen["unknown"]["err"]
    assert not (tmp_path / "x").exists()
