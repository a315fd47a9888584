"""Where a run writes."""

from __future__ import annotations

from pathlib import Path


def output_folder(output: str) -> Path:
    """The folder that a setting names, with the home folder for ``~``; ``~name`` of nobody is a name like others."""
    try:
        return Path(output).expanduser()
    except RuntimeError:
        return Path(output)
