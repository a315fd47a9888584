"""Training on views of pairs in two processes: the same as in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpus_examples import write_rows
from two_processes import run_commands
from view_examples import CONFIG, documents

from graphdoc import DocumentEncoder
from graphdoc.cli import main

pytestmark = pytest.mark.distributed


def numbers(folder: Path) -> np.ndarray:
    """Loss and length of the gradient of every step, ``(steps, 2)``."""
    lines = map(json.loads, (folder / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return np.array([[line["loss"], line["grad_norm"]] for line in lines if "loss" in line])


@pytest.mark.slow
def test_runs_of_two_processes(tiny_encoder: Callable[..., DocumentEncoder], tmp_path: Path) -> None:
    # With a head of its own, whose dropout would draw otherwise in every process.
    encoder = tiny_encoder("bert", projection_size=None, graph_layers=0, readout="mean", passage_tokens=40)
    encoder.model.add_head(["different", "similar"], dropout=0.0)
    start = encoder.save_pretrained(tmp_path / "start")
    pairs = tmp_path / "pairs.tsv"
    lines = [f"d{a}\td{b}\t{int((a - b) % 2 == 0)}\n" for a in range(8) for b in range(a + 1, 8)]
    pairs.write_text("".join(lines), encoding="utf-8")
    source = write_rows(tmp_path / "corpus.jsonl", documents())

    def command(name: str, cache: str, *options: str) -> list[str]:
        return [
            "finetune", "views", "--config", str(CONFIG), "--device", "cpu", f"corpus.source={source}",
            f"corpus.cache={tmp_path / cache}", "corpus.preparing_processes=1", f"pairs.file={pairs}",
            f"model.start={start}", "model.settings.pooling=mean", "views.view_tokens=24", "views.receptive_field=12",
            "views.cluster_size=4", "training.batch_size=7", "training.max_steps=3", "training.learning_rate=1.0e-4",
            "training.loading_processes=0", "training.log_steps=1", "training.warmup=0",
            f"output={tmp_path / name}", *options,
        ]  # fmt: skip

    variants = {
        "cross": (f"validation.pairs={pairs}",),
        "contrast": ("views.encoder=dual", "loss.kind=contrast", "loss.negatives=2", "loss.temperature=0.3"),
    }
    runs = {name: command(f"{name}-two", "two", *options) for name, options in variants.items()}
    first, second = (dict(zip(runs, seen, strict=True)) for seen in run_commands(list(runs.values()), tmp_path))
    for name, options in variants.items():
        assert (first[name]["status"], second[name]["status"]) == (0, 0), first[name]["err"] + second[name]["err"]
        assert main(command(f"{name}-one", "one", *options)) == 0
        # Of gradients that are rounding errors Adam makes whole steps; their length shows whether they are the same.
        one, two = (numbers(tmp_path / f"{name}-{count}") for count in ("one", "two"))
        assert len(one) == 3
        assert two == pytest.approx(one, rel=1e-4)
    results = [json.loads((tmp_path / f"cross-{count}" / "results.json").read_text()) for count in ("one", "two")]
    assert results[1]["after"] == pytest.approx(results[0]["after"], rel=1e-4)
    pools = [sorted(path.read_bytes() for path in (tmp_path / count).rglob("part-*.npy")) for count in ("one", "two")]
    assert pools[0] == pools[1]
    assert pools[0]
