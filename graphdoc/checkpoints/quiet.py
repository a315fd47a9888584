"""What libraries say while they load: kept off the screen, and quoted in one line where it matters."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.utils import logging as hub_logging
from transformers.utils import logging as transformers_logging


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Keep the hub client's lines about every new attempt off the screen."""
    verbosity = hub_logging.get_verbosity()
    hub_logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        hub_logging.set_verbosity(verbosity)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep loading reports and bars of transformers off the screen, and what the hub client says meanwhile."""
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with quiet_hub():
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def first_line(error: Exception) -> str:
    """The first line of a library's message; some go on for pages."""
    return shortened(next((line for line in str(error).splitlines() if line.strip()), type(error).__name__))


def shortened(text: str) -> str:
    """The beginning of a text, without a full stop at its end."""
    return textwrap.shorten(text, 240, placeholder=" ...").rstrip(".")
