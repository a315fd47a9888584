from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from losses_job import CASES, measured
from torch import Tensor
from two_processes import launch

from graphdoc import losses
from graphdoc.losses import ONE_PROCESS

JOB = Path(__file__).parents[1] / "support" / "losses_job.py"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes measured."""
    output = tmp_path_factory.mktemp("losses") / "seen"
    launch(JOB, output)
    return [json.loads(Path(f"{output}-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]


@pytest.mark.distributed
@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one_on_the_union_of_their_rows(seen: list[dict[str, Any]], name: str) -> None:
    case = CASES[name]
    whole = measured(case.loss, case.union, ONE_PROCESS)
    first, second = (found[name][0] for found in seen)

    assert (first["loss"] + second["loss"]) / 2 == pytest.approx(whole["loss"], abs=1e-6)
    for metric, value in whole["metrics"].items():
        assert (first["metrics"][metric] + second["metrics"][metric]) / 2 == pytest.approx(value, abs=1e-6)
    largest = 0.0
    for one, other, expected in zip(first["gradients"], second["gradients"], whole["gradients"], strict=True):
        # Data-parallel training takes the mean of gradients over processes; a row's own gradient is their sum.
        gradient = np.array(one + other) / 2
        np.testing.assert_allclose(gradient, expected, atol=1e-6)
        largest = max(largest, float(np.abs(gradient).max()))
    if case.has_loss:
        assert whole["loss"] > 0.01 and largest > 1e-3
    else:
        assert whole["loss"] == largest == 0
    # A process can measure alone.
    for found, tensors in zip(seen, case.shares, strict=True):
        for alone in found[name][1:]:
            assert alone["loss"] == pytest.approx(measured(case.loss, tensors, ONE_PROCESS)["loss"], abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_half_precision_is_compared_in_fp32_under_autocast(name: str) -> None:
    halves = [
        50 * one.bfloat16() if isinstance(one, Tensor) and one.is_floating_point() else one
        for one in CASES[name].union
    ]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = CASES[name].loss(*halves)
    exact = [one.float() if isinstance(one, Tensor) and one.is_floating_point() else one for one in halves]
    assert output.loss.dtype == torch.float32
    torch.testing.assert_close(output.loss, CASES[name].loss(*exact).loss)


@pytest.mark.parametrize("name", [name for name in CASES if "subtopics" not in name])
def test_without_rows_there_is_no_loss(name: str) -> None:
    vectors, *others = (one[:0] for one in CASES[name].union if isinstance(one, Tensor))
    if name.startswith("contrast"):
        others[-1] = others[-1][:, :0]
    rows = vectors.clone().requires_grad_()
    output = CASES[name].loss(rows, *others)
    output.loss.backward()
    assert output.loss.item() == 0 and rows.grad is not None
    assert not any(value.requires_grad for value in output.metrics.values())


def test_no_loss_is_left_out() -> None:
    public = [getattr(losses, name) for name in losses.__all__]
    takes_gather = {
        one for one in public if isinstance(one, type) and "gather" in inspect.signature(one.__call__).parameters
    }
    assert takes_gather == {type(case.loss) for case in CASES.values()}
