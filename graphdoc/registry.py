"""What can be chosen by name, and where it lives: a new part is one file and one line here."""

from __future__ import annotations

import importlib
from typing import Any

# Name in settings and checkpoints -> "module:Class" inside this package. Nothing is imported before it is asked for,
# so that settings can be checked without torch.
GRAPH_KINDS: dict[str, str] = {
    "full": "graphs.kinds.full:FullGraph",
    "section": "graphs.kinds.section:SectionGraph",
    "window": "graphs.kinds.window:WindowGraph",
    "hierarchical": "graphs.kinds.hierarchical:HierarchicalGraph",
}
READOUTS: dict[str, str] = {
    "document_node": "modeling.readouts.document_node:DocumentNodeReadout",
    "mean": "modeling.readouts.mean:MeanReadout",
    "initial_mean": "modeling.readouts.initial_mean:InitialMeanReadout",
    "attention": "modeling.readouts.attention:AttentionReadout",
    "sections": "modeling.readouts.sections:SectionReadout",
}


def load(target: str) -> Any:
    """Import what a line of a registry stands for.

    Args:
        target: ``module:Class``; a module without ``graphdoc.`` in front is one of this package.

    >>> load("errors:SettingsError").__name__
    'SettingsError'
    """
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module if module.startswith("graphdoc.") else f"graphdoc.{module}"), name)
