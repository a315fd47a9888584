"""The program of the process that reads PDF with PDFium; run as a file, so it imports nothing of the package by name.

It reads requests from standard input and answers on standard output until the input ends.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import struct
import sys
from pathlib import Path
from typing import IO, Any, Protocol

SIZE = struct.Struct("<Q")


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Read at most as many bytes, none at the end."""


def write_block(stream: IO[bytes], content: bytes) -> None:
    """Write the number of bytes and the bytes to an unbuffered stream."""
    waiting = memoryview(SIZE.pack(len(content)) + content)
    while waiting:
        waiting = waiting[stream.write(waiting) :]


def read_block(stream: Readable) -> bytes:
    """Read what :func:`write_block` wrote.

    Raises:
        EOFError: the other side is gone.
    """
    return _read(stream, int(SIZE.unpack(_read(stream, SIZE.size))[0]))


def _read(stream: Readable, size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(min(size, 2**20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _library() -> Any:
    """The module beside this one, by its place: the name of the package may mean another copy of it."""
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        "_graphdoc_pdf", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    sys.modules["_graphdoc_pdf"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("_graphdoc_pdf.pdfium")


def _answer(requests: IO[bytes], answers: IO[bytes]) -> None:
    # After the standard library's own places, which no folder of the caller's may cover.
    sys.path.extend(json.loads(read_block(requests)))
    open_file = _library().PdfFile
    opened = None
    while True:
        request = json.loads(read_block(requests))
        content = read_block(requests) if request["ask"] == "open" else b""
        answer: dict[str, Any] = {}
        try:
            if opened is not None and request["ask"] != "page":
                opened.close()
                opened = None
            if request["ask"] == "open":
                opened = open_file(content)
                answer = opened.describe()
            elif request["ask"] == "page" and opened is not None:
                answer = opened.page(request["number"])
        except Exception as error:
            answer = {"error": f"{error}" or type(error).__name__}
        write_block(answers, json.dumps(answer).encode("ascii"))


if __name__ == "__main__":
    # Ctrl-C goes to all processes of a terminal; this one ends with its parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(0, "rb", buffering=0) as requests, os.fdopen(os.dup(1), "wb", buffering=0) as answers:
        # What libraries print does not belong among the answers.
        os.dup2(2, 1)
        try:
            _answer(requests, answers)
        except (EOFError, BrokenPipeError):
            pass
        finally:
            # Nothing is left to do that an interpreter does at its end.
            os._exit(0)
