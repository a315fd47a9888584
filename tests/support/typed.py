"""Short names of types that many fixtures have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.modeling import DocumentModel

Encoders = Callable[..., DocumentEncoder]
Models = Callable[..., DocumentModel]
Documents = list[Document]
Backbones = Callable[[str], Path]
Command = Callable[..., Any]
Folders = pytest.TempPathFactory
Log = pytest.LogCaptureFixture
Output = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
