"""Short names of types that many fixtures have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.encoder import DocumentEncoder

Encoders = Callable[..., DocumentEncoder]
Backbones = Callable[[str], Path]
Command = Callable[..., Any]
Folders = pytest.TempPathFactory
Log = pytest.LogCaptureFixture
Patch = pytest.MonkeyPatch
