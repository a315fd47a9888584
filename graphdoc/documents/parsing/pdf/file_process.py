"""PDF files read by PDFium in a process of its own, page by page.

A file that brings the library down, or keeps it busy without end, costs one page and not the run; what of it cannot
be read is said.
"""

from __future__ import annotations

import json
import select
import time
from typing import IO, Any

from ....errors import DocumentError
from ..child_process import ChildProcess
from . import pdfium_program
from .damage import with_new_end

# A page that takes longer is left out. Ordinary ones take hundredths of a second.
_SECONDS_A_PAGE = 60.0
_MOST_ENDS = 20
_END = 2048
_REASONS = {
    "password": "it is protected by a password; save it without one, for example with: "
    "qpdf --decrypt --password=... locked.pdf open.pdf",
    "security": "it is encrypted in a way that is not known; save it without encryption",
    "format": "it is damaged, or no PDF at all; fetch it again, or mend it, for example with: qpdf old.pdf new.pdf",
}


class _EndedError(Exception):
    """The process ended, or was ended, before it answered."""


class _Process(ChildProcess):
    """The process that reads PDF."""

    def ask(self, request: dict[str, Any], content: bytes = b"", seconds: float = _SECONDS_A_PAGE) -> dict[str, Any]:
        """Ask and wait for the answer; the lock has to be held.

        Raises:
            _EndedError: the process ended.
        """
        try:
            process = self.started()
            assert process.stdin is not None
            assert process.stdout is not None
            pdfium_program.write_block(process.stdin, json.dumps(request).encode("ascii"))
            if request["ask"] == "open":
                pdfium_program.write_block(process.stdin, content)
            answer: dict[str, Any] = json.loads(
                pdfium_program.read_block(_Impatient(process.stdout, time.monotonic() + seconds))
            )
        except TimeoutError:
            self.ended()
            raise _EndedError(f"it took more than {seconds:.0f} seconds") from None
        except (EOFError, BrokenPipeError):
            raise _EndedError(f"the process that reads it ended ({self.ended()})") from None
        except OSError as error:
            raise _EndedError(f"the process that reads it cannot be started ({error.strerror or error})") from None
        except BaseException:
            # An answer that nobody waits for would be taken for that to the next question.
            self.ended()
            raise
        return answer


class _Impatient:
    """A pipe that gives up waiting at a point in time."""

    def __init__(self, stream: IO[bytes], until: float) -> None:
        self._stream, self._until = stream, until

    def read(self, size: int) -> bytes:
        """Read at most as many bytes.

        Raises:
            TimeoutError: nothing came until then.
        """
        ready, _, _ = select.select([self._stream], [], [], max(self._until - time.monotonic(), 0.0))
        if not ready:
            raise TimeoutError
        return self._stream.read(size)


_process = _Process(pdfium_program)


def read_pages(content: bytes) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]], list[str]]:
    """Read the pages of a PDF file.

    Args:
        content: its bytes.

    Returns:
        What :meth:`~.pdfium.PdfFile.describe` gives; numbers, from 0, and contents of the pages that could be read, as
        :meth:`~.pdfium.PdfFile.page` gives them; and warnings about the others.

    Raises:
        DocumentError: the file cannot be opened, or no page of it can be read.
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
    if answer.get("error") == "format" and (mended := with_new_end(content)) and b"%%EOF" not in content[-_END:]:
        return _opened(mended)
    if "error" in answer:
        raise DocumentError(_REASONS.get(answer["error"], f"{answer['error']}; is it damaged?"))
    return answer, content


def named_pages(numbers: list[int]) -> str:
    """Numbers of pages in a line: ``1, 4-7``."""
    parts: list[str] = []
    start = last = -1
    for number in [*numbers, -1]:
        if start >= 0 and number == last + 1:
            last = number
            continue
        if start >= 0:
            parts.append(str(start) if start == last else f"{start}-{last}")
        start = last = number
    return ", ".join(parts)
