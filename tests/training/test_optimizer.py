"""The course of the learning rate."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import SGD

from graphdoc.settings.run import TrainingSettings
from graphdoc.training.optimizer import make_schedule


def rates(steps: int, **settings: Any) -> list[float]:
    """The learning rate of every step of a run, where the setting is 1."""
    given = TrainingSettings(batch_size=2, learning_rate=1.0, **settings)
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=given.learning_rate)
    schedule = make_schedule(optimizer, given, steps)
    course = []
    for _ in range(steps):
        course.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return course


@pytest.mark.parametrize(
    ("steps", "warmup", "expected"),
    [
        (4, 0.0, [1, 0.75, 0.5, 0.25]),
        (5, 0.4, [0, 0.5, 1, 2 / 3, 1 / 3]),
        (5, 2, [0, 0.5, 1, 2 / 3, 1 / 3]),
        # A share of the steps is rounded up, and leaves one at least: a run of one step would learn nothing.
        (5, 0.1, [0, 1, 0.75, 0.5, 0.25]),
        (1, 0.1, [1]),
        (3, 0.9, [0, 0.5, 1]),
        # A number of steps is as it is.
        (2, 4, [0, 0.25]),
    ],
)
def test_the_learning_rate_rises_over_the_warm_up_and_comes_down(
    steps: int, warmup: float, expected: list[float]
) -> None:
    assert rates(steps, schedule="linear", warmup=warmup) == pytest.approx(expected)
