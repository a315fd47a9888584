"""Loading checkpoints in tests, and what is said where that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError


def load(name: str | Path, **settings: Any) -> DocumentEncoder:
    return DocumentEncoder.from_pretrained(name, device="cpu", **settings)


def refusal(name: Any, **settings: Any) -> str:
    """The message with which loading is refused."""
    with pytest.raises(ModelError) as caught:
        load(name, **settings)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 800
    return message
