"""Text files of one entry per line, read line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import DocumentError
from ..parsing.formats import lines_of, open_bytes


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Read the lines of a UTF-8 file that are not blank, one at a time.

    Args:
        path: the file; a name that ends in ``.gz`` is uncompressed.

    Yields:
        Number of the line, from 1, and the line without its end.

    Raises:
        DocumentError: the file cannot be read, or a line is no UTF-8.
    """
    try:
        with open_bytes(Path(path)) as stream:
            for number, line in enumerate(lines_of(stream), start=1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise DocumentError(f"line {number} is no utf-8 text; save it as UTF-8") from error
                if text.strip():
                    yield number, text.removesuffix("\n").removesuffix("\r")
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from error.__cause__
