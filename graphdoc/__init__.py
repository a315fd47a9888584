"""graphdoc: vectors, comparison and explanation for long documents."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .documents import Document, Section
    from .encoder import DocumentEncoder
    from .errors import GraphdocError
    from .graphs import build_graph
    from .readers import read_documents

# Looked up on first use, so that reading documents or asking for help does not wait for torch.
_HOMES = {
    "Document": "documents",
    "DocumentEncoder": "encoder",
    "GraphdocError": "errors",
    "Section": "documents",
    "build_graph": "graphs",
    "read_documents": "readers",
}

__all__ = [
    "Document",
    "DocumentEncoder",
    "GraphdocError",
    "Section",
    "__version__",
    "build_graph",
    "read_documents",
]


def __getattr__(name: str) -> Any:
    """Import a public name where it lives."""
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module 'graphdoc' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
