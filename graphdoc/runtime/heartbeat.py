"""Signs of life between the processes of a job, so that one that stands still is named instead of waited for."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from itertools import count
from typing import Any

logger = logging.getLogger(__name__)

# Seconds between two signs, and without any after which a process is said to stand still.
BEAT_SECONDS, SILENCE_SECONDS = 5.0, 60.0

_NUMBERS = count()


class Heartbeat:
    """Counts up a number in the store that the processes of a job share, and watches that of the next process.

    A process that was ended is noticed by whoever exchanges something with it. One that was halted, or whose machine
    is gone, would be waited for as long as the exchange lasts.

    Args:
        rank: this process.
        processes: how many there are, at least two.
    """

    def __init__(self, rank: int, processes: int) -> None:
        from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

        store: Any = _get_default_store()
        # A connection of its own, where torch gives one: the other may be busy waiting.
        store = store.clone() if hasattr(store, "clone") else store
        # All processes count alike; what one left when it stopped is not for those that work together later.
        self._store: Any = PrefixStore(f"graphdoc {next(_NUMBERS)}", store)
        self._rank, self._next, self._processes = rank, (rank + 1) % processes, processes
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give no more signs."""
        self._is_over.set()
        self._thread.join(2 * BEAT_SECONDS)

    def say_stopped(self, reason: str) -> None:
        """Leave word for the others that this process stops, and why."""
        with suppress(RuntimeError):
            self._store.set(f"stopped {self._rank}", reason)

    def stopped(self) -> str | None:
        """Which process has left word that it stops, and why, if any has."""
        with suppress(RuntimeError):
            for rank in range(self._processes):
                if rank != self._rank and self._store.check([f"stopped {rank}"]):
                    return f"process {rank} has stopped: {self._store.get(f'stopped {rank}').decode()}"
        return None

    def _beat(self) -> None:
        number, seen, seen_at, looked_at = 0, b"", time.monotonic(), time.monotonic()
        is_silent, beat = False, f"beat {self._next}"
        while not self._is_over.wait(BEAT_SECONDS):
            number += 1
            try:
                self._store.set(f"beat {self._rank}", str(number))
                latest = self._store.get(beat) if self._store.check([beat]) else b""
            except RuntimeError:
                # The store went with its process, as the next exchange will find.
                return
            now = time.monotonic()
            if latest != seen or now - looked_at > SILENCE_SECONDS:
                # It lives, or this process stood still itself.
                if is_silent:
                    logger.warning("process %d works again", self._next)
                seen, seen_at, is_silent = latest, now, False
            elif now - seen_at > SILENCE_SECONDS and not is_silent:
                is_silent = True
                logger.warning(
                    "process %d has given no sign of life for %.0f seconds; the others wait for it: look whether it "
                    "was halted (kill -CONT goes on) or its machine is gone, or end all and resume",
                    self._next,
                    now - seen_at,
                )
            looked_at = now
