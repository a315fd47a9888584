"""Graph kinds: which nodes of a document are connected, and what nodes and edges stand for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import SettingsError
from ..registry import GRAPH_KINDS, load


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


Integers = npt.NDArray[np.int64]

# Nodes up to which their pairs are kept from one document to the next: 6 MB for all counts together.
MOST_KEPT = 128


class GraphKind(ABC):
    """Which nodes of a document are connected.

    Node 0 is the document node, nodes 1 to n are the passages in reading order, and extra nodes for sections follow
    where a kind has them. Self-loops and the other direction of every edge are added to all kinds alike.

    A kind is a frozen dataclass and a line in :mod:`graphdoc.registry`. Its fields are its own settings, which checks
    them when it is made; a model has them under ``graph_settings``.
    """

    description: ClassVar[str]

    @abstractmethod
    def pairs(self, section_of: Integers) -> Integers:
        """The connected pairs of nodes, each once.

        Args:
            section_of: ``(passages,)``, section number of every passage in reading order.

        Returns:
            ``(2, pairs)``.
        """

    @abstractmethod
    def count(self, section_of: Integers) -> int:
        """The number of pairs, found before any is made, so that no graph fills the memory.

        Args:
            section_of: ``(passages,)``, section number of every passage in reading order.
        """

    def section_nodes(self, section_of: Integers) -> Integers:
        """Section number of every extra node, ``(section nodes,)``; none unless a kind says otherwise.

        Args:
            section_of: ``(passages,)``, section number of every passage in reading order.
        """
        return np.empty(0, np.int64)


def graph_kind(name: str, **settings: Any) -> GraphKind:
    """A graph kind by its name.

    Args:
        name: a key of :data:`graphdoc.registry.GRAPH_KINDS`.
        **settings: settings of a document model, of which the kind takes those that it reads.

    Raises:
        SettingsError: there is no such kind, or a setting is out of range.

    >>> graph_kind("window", window=3, graph_layers=2)
    WindowGraph(window=3)
    """
    if name not in GRAPH_KINDS:
        raise SettingsError(f"graph kind {name!r} is unknown; use one of {', '.join(GRAPH_KINDS)}")
    kind = load(GRAPH_KINDS[name])
    made: GraphKind = kind(**{field.name: settings[field.name] for field in fields(kind) if field.name in settings})
    return made


def section_starts(section_of: Integers) -> Integers:
    """Positions of the first passage of every section, in reading order."""
    _, first = np.unique(section_of, return_index=True)
    return np.sort(first).astype(np.int64)


def all_pairs(nodes: Integers) -> Integers:
    """Every pair of the given nodes once, ``(2, pairs)``."""
    count = len(nodes)
    return nodes[_places(count) if count <= MOST_KEPT else _places.__wrapped__(count)]


@cache
def _places(count: int) -> Integers:
    """Places of the ends of every pair among some nodes, ``(2, pairs)``."""
    return np.stack(np.triu_indices(count, k=1))


def star(center: int, leaves: Integers) -> Integers:
    """A node with each of some others, ``(2, pairs)``."""
    return np.stack([np.full(len(leaves), center, np.int64), leaves])


def pairs_within_sections(section_of: Integers) -> Integers:
    """Every pair of passages of one section, ``(2, pairs)``."""
    _, sizes = np.unique(section_of, return_counts=True)
    members = np.split(np.argsort(section_of, kind="stable") + 1, np.cumsum(sizes)[:-1])
    parts = [all_pairs(nodes) for nodes in members if len(nodes) > 1]
    return np.concatenate([np.empty((2, 0), np.int64), *parts], axis=1)


def count_within_sections(section_of: Integers) -> int:
    """The number of :func:`pairs_within_sections`."""
    _, sizes = np.unique(section_of, return_counts=True)
    return int((sizes * (sizes - 1)).sum()) // 2


@dataclass(frozen=True)
class FullGraph(GraphKind):
    """Every pair of nodes is connected, the document node included (Graph-RoBERTa, section 3.1)."""

    description: ClassVar[str] = "every pair of nodes"

    def pairs(self, section_of: Integers) -> Integers:
        """All pairs of nodes."""
        return all_pairs(np.arange(len(section_of) + 1, dtype=np.int64))

    def count(self, section_of: Integers) -> int:
        """Pairs of n + 1 nodes."""
        return len(section_of) * (len(section_of) + 1) // 2


@dataclass(frozen=True)
class SectionGraph(GraphKind):
    """Passages of a section with each other; the document node and the first passages of all sections with each other.

    Source: Graph-RoBERTa, section 3.3.
    """

    description: ClassVar[str] = (
        "passages of a section with each other, first passages with each other and with the document node"
    )

    def pairs(self, section_of: Integers) -> Integers:
        """Pairs within sections, and pairs of the document node and the first passages."""
        hubs = np.concatenate([np.zeros(1, np.int64), section_starts(section_of) + 1])
        return np.concatenate([pairs_within_sections(section_of), all_pairs(hubs)], axis=1)

    def count(self, section_of: Integers) -> int:
        """Both kinds of pairs; a pair of first passages is in two sections, so that none is counted twice."""
        sections = len(section_starts(section_of))
        return count_within_sections(section_of) + sections * (sections + 1) // 2


@dataclass(frozen=True)
class WindowGraph(GraphKind):
    """Passages that are near each other in reading order, and the document node with every passage.

    Args:
        window: how far apart passages may be.

    Raises:
        SettingsError: the window is not positive.
    """

    description: ClassVar[str] = "neighbours in reading order, and the document node with every passage"

    window: int = 2

    def __post_init__(self) -> None:
        if self.window < 1:
            raise SettingsError(f"window={self.window} must be at least 1")

    def pairs(self, section_of: Integers) -> Integers:
        """A star around the document node, and passages at every distance up to the window."""
        count = len(section_of)
        parts = [star(0, np.arange(1, count + 1, dtype=np.int64))]
        for distance in range(1, min(self.window, count - 1) + 1):
            left = np.arange(1, count + 1 - distance, dtype=np.int64)
            parts.append(np.stack([left, left + distance]))
        return np.concatenate(parts, axis=1)

    def count(self, section_of: Integers) -> int:
        """The star has n pairs, and distance d has n - d."""
        count = len(section_of)
        reach = min(self.window, max(count - 1, 0))
        return count + reach * count - reach * (reach + 1) // 2


@dataclass(frozen=True)
class HierarchicalGraph(GraphKind):
    """Passages of a section with each other and with their section's node; section nodes with the document node."""

    description: ClassVar[str] = "section nodes between the document node and the passages of a section, all connected"

    def pairs(self, section_of: Integers) -> Integers:
        """Pairs within sections, passages with their section's node, and section nodes with the document node."""
        count, starts = len(section_of), section_starts(section_of)
        nodes = np.arange(len(starts), dtype=np.int64) + count + 1
        by_number = np.argsort(section_of[starts])
        rank = by_number[np.searchsorted(section_of[starts], section_of, sorter=by_number)]
        membership = np.stack([nodes[rank], np.arange(1, count + 1, dtype=np.int64)])
        return np.concatenate([pairs_within_sections(section_of), membership, star(0, nodes)], axis=1)

    def count(self, section_of: Integers) -> int:
        """Pairs within sections, one for each passage and one for each section."""
        return count_within_sections(section_of) + len(section_of) + len(section_starts(section_of))

    def section_nodes(self, section_of: Integers) -> Integers:
        """One node for every section that has passages, in reading order."""
        return section_of[section_starts(section_of)]
