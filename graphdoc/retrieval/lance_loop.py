"""Calls of LanceDB from plain code: its asynchronous interface, which asks for less than the plain one.

The plain interface asks for the schema of a table several times in a search, which takes as long as the search of
words itself.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine
from functools import cache
from typing import Any, TypeVar

Found = TypeVar("Found")


def wait_for(work: Coroutine[Any, Any, Found]) -> Found:
    """What asynchronous work gives.

    It runs in a loop of its own, so that code that is itself called from a loop (a notebook, a server) can wait here.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def next_of(items: AsyncIterator[Found]) -> Found | None:
    """The next item, None where there is no more."""
    return await anext(items, None)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="graphdoc-lance", daemon=True).start()
    return loop


# The thread of the loop is not there in a process that was forked, which not every system can do.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_loop.cache_clear)
