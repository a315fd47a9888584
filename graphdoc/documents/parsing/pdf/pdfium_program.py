"""The program of the process that reads PDF with PDFium; run as a file, so it imports nothing of the package by name.

It answers requests on the connection whose number it is given until the other side is gone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def _library() -> Any:
    """The module beside this one, by its place: the name of the package may mean another copy of it."""
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        "_graphdoc_pdf", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    sys.modules["_graphdoc_pdf"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("_graphdoc_pdf.pdfium")


def _answer(connection: Connection) -> None:
    # After the standard library's own places, which no folder of the caller's may cover.
    sys.path.extend(json.loads(connection.recv_bytes()))
    open_file = _library().PdfFile
    opened = None
    while True:
        request = json.loads(connection.recv_bytes())
        content = connection.recv_bytes() if request["ask"] == "open" else b""
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
        connection.send_bytes(json.dumps(answer).encode("ascii"))


if __name__ == "__main__":
    # Ctrl-C goes to all processes of a terminal; this one ends with its parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        _answer(Connection(int(sys.argv[1])))
    # Nothing is left to do that an interpreter does at its end.
    os._exit(0)
