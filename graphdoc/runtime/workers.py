"""Work that runs ahead in processes of its own, in order and in bounded memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

from ..errors import GraphdocError

Block = TypeVar("Block", bound=Sequence[Any])
Result = TypeVar("Result")

# Blocks that are under way for every process, so that none waits for the reader.
_BLOCKS_AHEAD = 3

_shared: Any = None
_work: Callable[[Any, Any], Any] | None = None


def work_ahead(
    work: Callable[[Any, Block], Result],
    shared: Any,
    blocks: Iterable[Block],
    workers: int,
    *,
    setting: str | None = "workers",
) -> Generator[Result]:
    """Do the same work on blocks, ahead of who asks for the results; these do not depend on the number of processes.

    Args:
        work: a function of a module, given ``shared`` and a block.
        shared: what all of the work needs; every process gets it once.
        blocks: lists, read as they are needed, a few ahead.
        workers: how many processes do the work, started with the first block that is not empty; 0 does it here, as
            does a process that may have no children, such as one that loads for a data loader.
        setting: what sets their number, for messages; None where nothing does.

    Yields:
        What the work gave for every block, in order; an error is raised where its block's turn is.

    Raises:
        GraphdocError: one of the processes was ended from outside.
    """
    if workers < 1 or multiprocessing.current_process().daemon:
        for block in blocks:
            yield work(shared, block)
        return
    waiting: deque[Callable[[], Result]] = deque()
    with ExitStack() as stack:
        executor: ProcessPoolExecutor | None = None
        try:
            for block in _followed_by_error(blocks, waiting):
                if executor is None and block:
                    executor = stack.enter_context(_executor(work, shared, workers))
                if executor and block:
                    waiting.append(executor.submit(_run, block).result)
                else:
                    waiting.append(partial(work, shared, block))
                if len(waiting) >= workers * _BLOCKS_AHEAD:
                    yield waiting.popleft()()
            while waiting:
                yield waiting.popleft()()
        except BrokenProcessPool as error:
            fix = "free some, and run it again" if setting is None else f"lower {setting}={workers}"
            raise GraphdocError(f"a worker was ended from outside, perhaps for want of memory; {fix}") from error


def _followed_by_error(blocks: Iterable[Block], waiting: deque[Callable[[], Any]]) -> Iterator[Block]:
    """Blocks; where they break off, the error takes its turn among the results that are waited for."""
    try:
        yield from blocks
    except Exception as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        waiting.append(failed.result)


@contextmanager
def _executor(work: Callable[[Any, Any], Any], shared: Any, workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that have what they need, started in the way that the program has set or the system prefers."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    # Threads of a tokenizer would only wait for each other, and it warns of forks unless this is set.
    os.environ[name] = "false"
    executor = ProcessPoolExecutor(workers, initializer=_begin, initargs=(work, shared))
    try:
        try:
            # The first task starts the processes.
            executor.submit(int).result()
        finally:
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before
        processes = list(executor._processes.values())
        try:
            yield executor
        except BrokenProcessPool:
            # They do not end when they are asked to.
            for process in processes:
                process.kill()
            raise
    finally:
        executor.shutdown(cancel_futures=True)


def _begin(work: Callable[[Any, Any], Any], shared: Any) -> None:
    global _work, _shared
    _work, _shared = work, shared
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    stay_with_parent()


def stay_with_parent(_: int = 0) -> None:
    """Let a worker process end with the program that started it, and not before.

    Ctrl-C reaches all processes of a terminal, and SIGTERM all of a job on a cluster: what is left of the program, up
    to its checkpoint, still needs its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _run(block: Any) -> Any:
    assert _work is not None
    return _work(_shared, block)


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
