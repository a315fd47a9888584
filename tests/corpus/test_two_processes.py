from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_examples import rows_of, write_rows
from two_processes import launch

JOB = Path(__file__).parents[1] / "support" / "corpus_job.py"


# Runs of two processes prepare corpora too (tests/recipes/test_two_processes_pretraining.py).
@pytest.mark.slow
@pytest.mark.distributed
def test_two_processes_share_the_work(backbone_folder: Callable[[str], Path], tmp_path: Path) -> None:
    source = write_rows(tmp_path / "corpus.jsonl", rows_of(40))
    launch(JOB, backbone_folder("roberta"), source, tmp_path / "cache", tmp_path / "seen")
    first, second = (json.loads((tmp_path / f"seen-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1))
    assert (first["prepared_here"], second["prepared_here"]) == (1, 0)
    assert first["documents"] == second["documents"] == 36
    assert first["parts_here"] + second["parts_here"] == first["parts"] == second["parts"]
    assert abs(first["parts_here"] - second["parts_here"]) <= 1
    assert first["sum"] == second["sum"] > 0
    # Sixteen documents in batches of two, and twenty in batches of three.
    assert first["batches"] == second["batches"] == 6
    assert (len(first["ids"]), len(second["ids"])) == (12, 18)
    assert set(first["ids"]) & set(second["ids"]) == set()
