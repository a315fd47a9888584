"""Waiting for asynchronous work from plain code."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from graphdoc.retrieval.connection import next_of, wait_for


async def doubled(value: int) -> int:
    await asyncio.sleep(0)
    if value < 0:
        raise ValueError(f"{value} is below 0")
    return 2 * value


async def counted(most: int) -> AsyncIterator[int]:
    for value in range(most):
        yield value


def test_plain_code_waits_for_what_work_gives_or_raises() -> None:
    assert wait_for(doubled(4)) == 8
    with pytest.raises(ValueError, match="-1"):
        wait_for(doubled(-1))


def test_code_that_a_loop_calls_can_wait_too() -> None:
    async def caller() -> int:
        return wait_for(doubled(3))

    assert asyncio.run(caller()) == 6


def test_items_are_read_one_at_a_time() -> None:
    items = counted(2)
    assert [wait_for(next_of(items)) for _ in range(3)] == [0, 1, None]


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    assert wait_for(doubled(1)) == 2
    worker = os.fork()
    if not worker:
        status = 1
        # A loop whose thread is gone never answers.
        signal.alarm(120)
        try:
            status = 0 if wait_for(doubled(2)) == 4 else 2
        finally:
            os._exit(status)
    assert os.waitpid(worker, 0)[1] == 0
