from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from losses_job import CASES, Loss, measured, rows_of

JOB = Path(__file__).parents[1] / "support" / "losses_job.py"
PATIENCE = 120

pytestmark = pytest.mark.distributed


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes measured."""
    output = tmp_path_factory.mktemp("losses") / "seen"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run = subprocess.run(
        [sys.executable, *launcher, str(JOB), str(output)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(Path(f"{output}-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]


@pytest.mark.parametrize(("name", "loss", "shares"), CASES, ids=[name for name, _, _ in CASES])
def test_two_processes_are_one_on_the_union_of_their_rows(
    seen: list[dict[str, Any]], name: str, loss: Loss, shares: tuple[list[int], list[int]]
) -> None:
    rows = rows_of(sum(map(len, shares)))
    whole: dict[str, Any] = measured(loss, rows, [*shares[0], *shares[1]])
    first, second = (found[name] for found in seen)

    assert (first["loss"] + second["loss"]) / 2 == pytest.approx(whole["loss"], abs=1e-6)
    for metric, value in whole["metrics"].items():
        assert (first["metrics"][metric] + second["metrics"][metric]) / 2 == pytest.approx(value, abs=1e-6)
    # Data-parallel training takes the mean of gradients over processes; a row's own gradient is their sum.
    gradient = np.array(first["gradient"] + second["gradient"]) / 2
    np.testing.assert_allclose(gradient, whole["gradient"], atol=1e-6)
    if "no positives" in name:
        assert whole["loss"] == 0 and not gradient.any()
    else:
        assert whole["loss"] > 0.01 and np.abs(gradient).max() > 1e-3


@pytest.mark.parametrize(("name", "loss", "shares"), CASES, ids=[name for name, _, _ in CASES])
def test_a_process_can_measure_alone(
    seen: list[dict[str, Any]], name: str, loss: Loss, shares: tuple[list[int], list[int]]
) -> None:
    rows = rows_of(sum(map(len, shares)))
    for rank, part in enumerate((rows[: len(shares[0])], rows[len(shares[0]) :])):
        own: dict[str, Any] = measured(loss, part, shares[rank])
        assert seen[rank][f"{name}, alone"]["loss"] == pytest.approx(own["loss"], abs=1e-6)
