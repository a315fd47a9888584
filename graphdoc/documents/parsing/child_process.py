"""A process of its own for a library that may crash, or never end, on a file that it reads."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType


class ChildProcess:
    """A process that answers questions, started when it is first asked and again whenever it has ended.

    It ends with this one; a fork of this one starts its own.

    Args:
        program: the module of its program, which is run as a file and talks in blocks (``write_block``).
    """

    def __init__(self, program: ModuleType) -> None:
        self._program = program
        self.lock = threading.Lock()
        self.running: subprocess.Popen[bytes] | None = None
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def started(self) -> subprocess.Popen[bytes]:
        """The process, started if it is not running; the lock has to be held.

        Raises:
            OSError: it cannot be started.
        """
        if self.running is None:
            file = str(self._program.__file__)
            self.running = subprocess.Popen(
                # -I: no folder of the caller's covers a module of the standard library.
                [sys.executable, "-I", str(Path(file))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
            assert self.running.stdin is not None
            path = json.dumps([folder for folder in sys.path if folder])
            self._program.write_block(self.running.stdin, path.encode("ascii"))
        return self.running

    def end(self) -> None:
        """End the process, if it is running."""
        with self.lock:
            self.ended()

    def ended(self) -> str:
        """End the process, and say how it ended; the lock has to be held."""
        process, self.running = self.running, None
        if process is None:
            return "it was not there"
        with process:
            # One that has ended by itself keeps its own status.
            process.kill()
            status = process.wait()
        return signal.Signals(-status).name if status < 0 else f"status {status}"

    def _forget(self) -> None:
        """Leave the process to the parent: this one is its fork."""
        self.lock = threading.Lock()
        if self.running is not None:
            for stream in (self.running.stdin, self.running.stdout):
                assert stream is not None
                stream.close()
            self.running.returncode = 0
            self.running = None
