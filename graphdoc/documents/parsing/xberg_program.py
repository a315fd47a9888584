"""The program of the process that reads LaTeX with xberg; run as a file, so it imports nothing else.

It reads requests from standard input and answers on standard output until the input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
from typing import IO, Any

SIZE = struct.Struct("<Q")


def write_block(stream: IO[bytes], content: bytes) -> None:
    """Write the number of bytes and the bytes to an unbuffered stream."""
    waiting = memoryview(SIZE.pack(len(content)) + content)
    while waiting:
        waiting = waiting[stream.write(waiting) :]


def read_block(stream: IO[bytes]) -> bytes:
    """Read what :func:`write_block` wrote.

    Raises:
        EOFError: the other side is gone.
    """
    return _read(stream, int(SIZE.unpack(_read(stream, SIZE.size))[0]))


def _read(stream: IO[bytes], size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(min(size, 2**20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


async def _extract(content: bytes, mime_type: str, name: str) -> dict[str, Any]:
    import xberg

    config = xberg.ExtractionConfig(include_document_structure=True, use_cache=False, disable_ocr=True)
    source = xberg.ExtractInput(kind="bytes", bytes=content, mime_type=mime_type, filename=name or None)
    result = await xberg.extract(source, config)
    if not result.results:
        return {"error": "; ".join(map(str, result.errors)) or "nothing was found in it"}
    found = result.results[0]
    return {
        "title": str(found.metadata.title or ""),
        "warnings": [str(warning.message) for warning in found.processing_warnings or ()],
        "nodes": [
            {
                **json.loads(str(node.content)),
                "layer": str(node.content_layer),
                "style": (node.attributes or {}).get("style_name"),
            }
            for node in (found.document.nodes if found.document else ())
        ],
    }


def _answer(requests: IO[bytes], answers: IO[bytes]) -> None:
    loop = asyncio.new_event_loop()
    # After the standard library's own places, which no folder of the caller's may cover.
    sys.path.extend(json.loads(read_block(requests)))
    while True:
        mime_type, name = json.loads(read_block(requests))
        content = read_block(requests)
        try:
            answer = loop.run_until_complete(_extract(content, mime_type, name))
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
            # Threads of xberg that are still about to hand over to Python abort an interpreter that shuts down.
            os._exit(0)
