"""graphdoc: vectors, comparison and explanation for long documents."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .runtime.imports import quick_imports
from .runtime.other_names import PACKAGE, no_attribute
from .version import __version__

if TYPE_CHECKING:
    from .documents.document import Document
    from .documents.readers import read_documents
    from .documents.section import Section
    from .encoder import DocumentEncoder
    from .errors import GraphdocError
    from .graphs.document_graph import build_graph
    from .retrieval.index import DocumentIndex
    from .trainer import Trainer

# Looked up on first use, so that reading documents or asking for help does not wait for torch.
_HOMES = {
    "Document": "documents.document",
    "DocumentEncoder": "encoder",
    "DocumentIndex": "retrieval.index",
    "GraphdocError": "errors",
    "Section": "documents.section",
    "Trainer": "trainer",
    "build_graph": "graphs.document_graph",
    "read_documents": "documents.readers",
}

__all__ = [
    "Document",
    "DocumentEncoder",
    "DocumentIndex",
    "GraphdocError",
    "Section",
    "Trainer",
    "__version__",
    "build_graph",
    "read_documents",
]


def __getattr__(name: str) -> Any:
    """Import a public name where it lives."""
    if name in _HOMES:
        with quick_imports():
            return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return importlib.import_module(f".{name}", __name__)
    raise no_attribute("module 'graphdoc'", name, PACKAGE)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
