"""The kinds of nodes and edges, named without importing torch."""

from __future__ import annotations

from enum import IntEnum


class NodeKind(IntEnum):
    """What a node of a document graph stands for."""

    DOCUMENT = 0
    PASSAGE = 1
    SECTION = 2
    QUERY = 3


class EdgeKind(IntEnum):
    """What an edge of a document graph connects; every edge has exactly one kind."""

    SELF_LOOP = 0
    DOCUMENT_PASSAGE = 1
    WITHIN_SECTION = 2
    ACROSS_SECTIONS = 3
    SECTION_PASSAGE = 4
    DOCUMENT_SECTION = 5
    READOUT = 6
    CHUNKWISE = 7

    @property
    def label(self) -> str:
        """The name as tables and plots show it."""
        return self.name.lower().replace("_", " ")
