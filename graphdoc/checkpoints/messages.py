"""How the messages of libraries are quoted."""

from __future__ import annotations

import textwrap
from pathlib import Path


def first_line(error: Exception) -> str:
    """The first line of a library's message; some go on for pages."""
    return shortened(next((line for line in str(error).splitlines() if line.strip()), type(error).__name__))


def shortened(text: str) -> str:
    """The beginning of a text, without a full stop at its end."""
    return textwrap.shorten(text, 240, placeholder=" ...").rstrip(".")


def model_of_run(folder: str) -> str | None:
    """What to say of the folder of a run that was given for its model; None for any other folder."""
    model = Path(folder).expanduser() / "model"
    if not (model / "config.json").is_file():
        return None
    return f"is that of a run; give its model, {model}"
