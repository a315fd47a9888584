"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

from ..errors import OutputError
from .arguments import require_path

# A full disk, a used up quota, a file larger than allowed.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let a function write a temporary file beside the target, then rename it into place.

    Args:
        path: the target; missing folders are made.
        write: is given the temporary path and writes it; its suffix is that of the target.

    Returns:
        The target.

    Raises:
        OutputError: the target cannot be written; no partial file stays behind.
        SettingsError: it is no name of a file.
    """
    if not isinstance(path, str):
        require_path("path", path)
    target = Path(path)
    if "\0" in str(target):
        raise OutputError(f"{str(path)!r} cannot be written: the name has a NUL character; choose another one")
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A link stays a link, and a device such as /dev/null stays a device.
        place = Path(os.path.realpath(target))
        if place.exists() and not place.is_file() and not place.is_dir():
            write(place)
            return target
        temporary = place.with_name(f".partial-{os.getpid()}-{place.name}")
        write(temporary)
        temporary.replace(place)
    except OSError as error:
        raise writing_error(target, error) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    return target


def writing_error(path: str | Path, error: OSError) -> OutputError:
    """What to say of a file that cannot be written; space is asked for only where there is none."""
    fix = "free some space, or choose another place" if error.errno in _NO_SPACE else "choose another place"
    return OutputError(f"{path} cannot be written: {error.strerror or error}; {fix}")


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file atomically as UTF-8 (see :func:`write_atomically`); halves of surrogate pairs become "?"."""
    content = text.encode("utf-8", "replace")
    return write_atomically(path, lambda temporary: temporary.write_bytes(content))
