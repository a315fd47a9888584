"""PDF files read by PDFium in a process of its own, page by page.

A file that brings the library down, or keeps it busy without end, costs one page and not the run, and is reported.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import threading
import zlib
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ....errors import DocumentError

_STREAM = re.compile(rb"stream\r?\n")
_CATALOGUE = re.compile(rb"(?<!\d)(\d{1,9})\s+\d+\s+obj\s*<<[^>]{0,2000}?/Type\s*/Catalog")
_LENGTH = re.compile(rb"/Length\s+(\d+)(?!\d|\s+\d+\s+R)")
_FLATE_ONLY = re.compile(rb"/Filter\s*(?:\[\s*)?/FlateDecode\s*(?:\]|/|>|\s)")
# Pictures and fonts hold no text.
_NO_TEXT = (b"/Image", b"/Length1", b"/Type1C", b"/CIDFontType0C", b"/OpenType", b"/FunctionType", b"/N 3", b"/N 4")
_LONGEST_HEAD, _END, _CHUNK = 1000, 2048, 2**20


def damage(content: bytes) -> list[str]:
    """What of a PDF file is damaged, in a line for each kind."""
    found = []
    if b"%%EOF" not in content[-_END:]:
        found.append("the end of the file is missing; pages or text may be missing")
    # What is encrypted unpacks only after it is decrypted.
    streams = iter(()) if b"/Encrypt" in content else _STREAM.finditer(content)
    damaged = sum(_is_damaged(content, at.end()) for at in streams if content[at.start() - 3 : at.start()] != b"end")
    if damaged:
        found.append(f"{damaged} compressed {'part is' if damaged == 1 else 'parts are'} damaged; text may be missing")
    return found


def _with_new_end(content: bytes) -> bytes | None:
    """A file whose end was cut off, with one by which the library finds what is left; None where that is nothing."""
    catalogues = list(_CATALOGUE.finditer(content))
    if not catalogues or b"/Encrypt" in content:
        return None
    return content + b"\ntrailer\n<< /Root " + catalogues[-1][1] + b" 0 R >>\nstartxref\n0\n%%EOF\n"


def _is_damaged(content: bytes, start: int) -> bool:
    head = content[max(start - _LONGEST_HEAD, 0) : start]
    head = head[head.rfind(b" obj") + 1 :]
    length = _LENGTH.search(head)
    if length is None or not _FLATE_ONLY.search(head) or any(name in head for name in _NO_TEXT):
        return False
    end = start + int(length[1])
    unpacked = zlib.decompressobj()
    try:
        for at in range(start, min(end, len(content)), _CHUNK):
            part: bytes = content[at : min(at + _CHUNK, end)]
            while part and not unpacked.eof:
                unpacked.decompress(part, _CHUNK)
                part = unpacked.unconsumed_tail
    except zlib.error:
        return True
    return not unpacked.eof


_PROGRAM = Path(__file__).with_name("pdfium_program.py")
# A page that takes longer is left out. Ordinary ones take hundredths of a second.
_SECONDS_A_PAGE = 60.0
_MOST_ENDS = 20
_REASONS = {
    "password": "it is protected by a password; save it without one, for example with: "
    "qpdf --decrypt --password=... locked.pdf open.pdf",
    "security": "it is encrypted in a way that is not known; save it without encryption",
    "format": "it is damaged, or no PDF at all; fetch it again, or mend it, for example with: qpdf old.pdf new.pdf",
}


class _EndedError(Exception):
    """The process ended, or was ended, before it answered."""


class _Process:
    """The process that reads PDF, started when it is first asked and again whenever it has ended.

    It ends with this one; a fork of this one starts its own. What asks or ends it has to hold the lock.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        atexit.register(self._ended)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def ask(self, request: dict[str, Any], content: bytes = b"", seconds: float = _SECONDS_A_PAGE) -> dict[str, Any]:
        """Ask and wait for the answer."""
        try:
            connection = self._connection or self._started()
        except OSError as error:
            raise _EndedError(f"the process that reads it cannot be started ({error.strerror or error})") from None
        try:
            connection.send_bytes(json.dumps(request).encode("ascii"))
            if request["ask"] == "open":
                connection.send_bytes(content)
            if not connection.poll(seconds):
                raise TimeoutError
            answer: dict[str, Any] = json.loads(connection.recv_bytes())
        except TimeoutError:
            self._ended()
            raise _EndedError(f"it took more than {seconds:.0f} seconds") from None
        except (EOFError, OSError):
            raise _EndedError(f"the process that reads it ended ({self._ended()})") from None
        except BaseException:
            # An answer that nobody waits for would be taken for that to the next question.
            self._ended()
            raise
        return answer

    def _started(self) -> Connection:
        self._connection, theirs = Pipe()
        with theirs:
            self.running = subprocess.Popen(
                # -I: no folder of the caller's covers a module of the standard library.
                [sys.executable, "-I", str(_PROGRAM), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._connection.send_bytes(json.dumps([folder for folder in sys.path if folder]).encode("ascii"))
        return self._connection

    def _ended(self) -> str:
        process, self.running, self._connection = self.running, None, None
        if process is None:
            return "it was not there"
        with process:
            # One that has ended by itself keeps its own status.
            process.kill()
            status = process.wait()
        return signal.Signals(-status).name if status < 0 else f"status {status}"

    def _forget(self) -> None:
        """Leave the process to the parent: this one is its fork."""
        self.lock, self._connection = threading.Lock(), None
        if self.running is not None:
            self.running.returncode = 0
            self.running = None


_process = _Process()


def read_pages(content: bytes) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]], list[str]]:
    """Read the pages of a PDF file.

    Gives what ``PdfFile.describe`` gives; numbers, from 0, and contents of the pages that could be read,
    as ``PdfFile.page`` gives them; and warnings about the others.
    """
    pages: list[tuple[int, dict[str, Any]]] = []
    lost: dict[int, str] = {}
    with _process.lock:
        described, content = _opened(content)
        total, number, ends = int(described["pages"]), 0, 0
        while number < total:
            try:
                answer = _process.ask({"ask": "page", "number": number})
                if "error" in answer:
                    lost[number] = str(answer["error"])
                else:
                    pages.append((number, answer))
            except _EndedError as ended:
                lost[number] = str(ended)
                ends += 1
                if ends > _MOST_ENDS:
                    lost |= dict.fromkeys(range(number + 1, total), "too many pages before it could not be read")
                    break
                _opened(content)
            number += 1
        _process.ask({"ask": "close"})
    if not pages:
        reason = f": {next(iter(lost.values()))}" if lost else ""
        raise DocumentError(f"none of its {total} pages can be read{reason}; fetch the file again")
    warnings = []
    if lost:
        reasons = ", ".join(sorted(set(lost.values())))
        warnings.append(f"pages lost: {named_pages([number + 1 for number in lost])} of {total} ({reasons})")
    return described, pages, warnings


def _opened(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Open a file; if need be with a new end, which is then given back with it."""
    try:
        answer = _process.ask({"ask": "open"}, content, _SECONDS_A_PAGE + len(content) / 1e6)
    except _EndedError as ended:
        raise DocumentError(f"{ended}, perhaps for want of memory; is it damaged?") from None
    if answer.get("error") == "format" and (mended := _with_new_end(content)) and b"%%EOF" not in content[-_END:]:
        return _opened(mended)
    if "error" in answer:
        raise DocumentError(_REASONS.get(answer["error"], f"{answer['error']}; is it damaged?"))
    return answer, content


def named_pages(numbers: list[int]) -> str:
    """Numbers of pages in a line: ``1, 4-7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
