"""Learning subtopics in two processes: the same as in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpus_examples import write_rows
from safetensors.torch import load_file
from test_two_processes_pretraining import assert_close, losses
from two_processes import run_commands

from graphdoc.cli import main

pytestmark = [pytest.mark.distributed, pytest.mark.slow]
CONFIG = Path(__file__).parents[2] / "configs" / "finetune" / "subtopics.yaml"


def test_a_run_of_two_processes(backbone_folder: Callable[[str], Path], tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    words = [["rice", "mould", "steam", "koji"], ["tide", "marsh", "flood", "dike"]]
    rows = []
    for number in range(10):
        text = " ".join(f"{' '.join(draw.choice(words[number % 2], 6))}." for _ in range(int(draw.integers(1, 12))))
        rows.append({"id": f"d{number}", "text": text})
    pairs = [f"d{a}\td{b}\t{int((a - b) % 2 == 0)}\n" for a in range(10) for b in range(a)]
    (tmp_path / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")

    def command(name: str) -> list[str]:
        return [
            "finetune", "subtopics", "--config", str(CONFIG), "--device", "cpu", f"output={tmp_path / name}",
            f"corpus.source={write_rows(tmp_path / 'corpus.jsonl', rows)}", f"corpus.cache={tmp_path / 'cache'}",
            "corpus.preparing_processes=1", f"pairs.file={tmp_path / 'pairs.tsv'}",
            f"validation.pairs={tmp_path / 'pairs.tsv'}", f"model.start={backbone_folder('bert')}",
            "subtopics.cluster_size=3", "training.batch_size=10", "training.loading_processes=0",
            "training.max_steps=3", "training.log_steps=1",
        ]  # fmt: skip

    (first,), (second,) = run_commands([command("two")], tmp_path)
    assert (first["status"], second["status"]) == (0, 0), first["err"] + second["err"]
    assert "2 processes" in first["out"]
    assert second["out"] == ""
    assert main(command("one")) == 0
    one, two = (load_file(tmp_path / count / "model" / "model.safetensors") for count in ("one", "two"))
    assert_close(one, two)
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    results = [json.loads((tmp_path / count / "results.json").read_text()) for count in ("one", "two")]
    assert results[1]["after"] == pytest.approx(results[0]["after"], rel=1e-4, abs=1e-6)
