"""LaTeX read by xberg (extra ``ingest``) in a process of its own.

xberg's threads may still touch Python after they have handed over a result; an interpreter that ends at that moment is
aborted (exit status 134 or 135, one run in twenty). The process that reads ends without shutting Python down, and a
file that crashes it, or takes all memory, costs one document and not the run.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

from ...errors import DocumentError, MissingExtraError
from ...runtime.plain_text import one_line
from . import xberg_program
from .child_process import ChildProcess

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


class _Process(ChildProcess):
    """The process that reads LaTeX."""

    def ask(self, content: bytes, mime_type: str, name: str) -> dict[str, Any]:
        with self.lock:
            try:
                process = self.started()
                assert process.stdin is not None
                assert process.stdout is not None
                xberg_program.write_block(process.stdin, json.dumps([mime_type, name]).encode("ascii"))
                xberg_program.write_block(process.stdin, content)
                answer: dict[str, Any] = json.loads(xberg_program.read_block(process.stdout))
            except (EOFError, BrokenPipeError):
                return {"error": f"the process that reads it ended ({self.ended()}), perhaps for want of memory"}
            except OSError as error:
                return {"error": f"the process that reads it cannot be started ({error.strerror or error})"}
            except BaseException:
                # An answer that nobody waits for would be taken for that to the next question.
                self.ended()
                raise
            return answer


_process = _Process(xberg_program)
