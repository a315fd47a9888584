"""Memory that is free goes back to the system."""

from __future__ import annotations

import os
import threading

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pytest

from graphdoc.retrieval.lance_memory import free_memory_returned, limit_reading_ahead

SYSTEM = pa.system_memory_pool().backend_name


def pool() -> str:
    return str(pa.default_memory_pool().backend_name)


def test_arrow_takes_memory_from_the_system_while_work_is_done_also_when_it_fails() -> None:
    before = pool()
    with free_memory_returned():
        assert pool() == SYSTEM
        with free_memory_returned():
            assert pool() == SYSTEM
        assert pool() == SYSTEM
    assert pool() == before
    with pytest.raises(KeyError), free_memory_returned():
        raise KeyError("x")
    assert pool() == before


def test_the_last_of_several_threads_puts_back_what_was_there() -> None:
    before, first_is_in, second_is_in = pool(), threading.Event(), threading.Event()
    seen: list[str] = []

    def first() -> None:
        with free_memory_returned():
            first_is_in.set()
            second_is_in.wait()

    def second() -> None:
        first_is_in.wait()
        with free_memory_returned():
            second_is_in.set()
            threads[0].join()
            seen.append(pool())

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [SYSTEM]
    assert pool() == before


def test_large_tables_that_are_freed_leave_nothing_behind() -> None:
    with free_memory_returned():
        tables = [pa.array(bytes(10_000 + number) for number in range(1_000)) for _ in range(3)]
        assert pa.default_memory_pool().bytes_allocated() > 30_000_000
        del tables
        assert pa.default_memory_pool().bytes_allocated() < 1_000_000


def test_reading_ahead_is_bounded_unless_the_user_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "LANCE_DEFAULT_IO_BUFFER_SIZE"
    monkeypatch.delenv(name, raising=False)
    limit_reading_ahead()
    assert 1 << 20 <= int(os.environ[name]) <= 64 << 20
    monkeypatch.setenv(name, "123")
    limit_reading_ahead()
    assert os.environ[name] == "123"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_forgets_the_threads_that_were_within() -> None:
    before = pool()
    # Arrow's threads are not asked for in the child, which only looks and ends.
    with free_memory_returned():
        child = os.fork()
        if child == 0:
            found = pool()
            with free_memory_returned():
                inner = pool()
            os._exit(0 if (found, inner, pool()) == (before, SYSTEM, before) else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert pool() == before
