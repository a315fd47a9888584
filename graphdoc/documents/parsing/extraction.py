"""LaTeX read by xberg (extra ``ingest``) in a process of its own.

xberg's threads may still touch Python after they have handed over a result; an interpreter that ends at that moment is
aborted (exit status 134 or 135, one run in twenty). The process that reads ends without shutting Python down, and a
file that crashes it, or takes all memory, costs one document and not the run.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from ...errors import DocumentError, MissingExtraError
from ...runtime.plain_text import one_line
from . import xberg_program

_LONGEST_REASON = 300


def extract(content: bytes, mime_type: str, name: str) -> dict[str, Any]:
    """Let xberg read a file.

    Args:
        content: its bytes.
        mime_type: what kind of file it is.
        name: its name, by which xberg distinguishes variants.

    Returns:
        The ``title`` it gives, ``warnings``, and its parts as ``nodes`` with ``node_type``, ``layer`` and ``style``.

    Raises:
        MissingExtraError: xberg is not installed.
        DocumentError: the file cannot be read.
    """
    if sys.modules.get("xberg", ...) is None or importlib.util.find_spec("xberg") is None:
        raise MissingExtraError("xberg", "ingest", f"read {name or 'LaTeX'}")
    answer = _process.ask(content, mime_type, name)
    if "error" in answer:
        raise DocumentError(f"{one_line(answer['error'], _LONGEST_REASON)}; is it damaged?")
    return answer


class _Process:
    """The process, started when it is first asked and again whenever it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None

    def ask(self, content: bytes, mime_type: str, name: str) -> dict[str, Any]:
        with self._lock:
            try:
                process = self._running = self._running or _start()
                assert process.stdin is not None
                assert process.stdout is not None
                xberg_program.write_block(process.stdin, json.dumps([mime_type, name]).encode("ascii"))
                xberg_program.write_block(process.stdin, content)
                answer: dict[str, Any] = json.loads(xberg_program.read_block(process.stdout))
            except (EOFError, BrokenPipeError):
                return {"error": f"the process that reads it ended ({self._end()}), perhaps for want of memory"}
            except OSError as error:
                return {"error": f"the process that reads it cannot be started ({error.strerror or error})"}
            except BaseException:
                # An answer that nobody waits for would be taken for that to the next question.
                self._end()
                raise
            return answer

    def end(self) -> None:
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Leave the process to the parent: this one is its fork."""
        self._lock = threading.Lock()
        if self._running is not None:
            for stream in (self._running.stdin, self._running.stdout):
                assert stream is not None
                stream.close()
            self._running.returncode = 0
            self._running = None

    def _end(self) -> str:
        """End the process, and say how it ended."""
        process, self._running = self._running, None
        if process is None:
            return "it was not there"
        with process:
            # One that has ended by itself keeps its own status.
            process.kill()
            status = process.wait()
        return signal.Signals(-status).name if status < 0 else f"status {status}"


def _start() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        # -I: no folder of the caller's covers a module of the standard library.
        [sys.executable, "-I", str(Path(xberg_program.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )
    assert process.stdin is not None
    xberg_program.write_block(process.stdin, json.dumps([path for path in sys.path if path]).encode("ascii"))
    return process


_process = _Process()
atexit.register(_process.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forget)
