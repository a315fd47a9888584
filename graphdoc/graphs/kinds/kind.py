"""What a graph kind has to say, and what kinds are made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...errors import SettingsError
from ...registry import GRAPH_KINDS, load

Integers = npt.NDArray[np.int64]

# Nodes up to which their pairs are kept from one document to the next: 6 MB for all counts together.
MOST_KEPT = 128


class GraphKind(ABC):
    """Which nodes of a document are connected.

    Node 0 is the document node, nodes 1 to n are the passages in reading order, and extra nodes for sections follow
    where a kind has them. Self-loops and the other direction of every edge are added to all kinds alike.

    A kind is a frozen dataclass in a file of this folder and a line in :mod:`graphdoc.registry`. Its fields are the
    settings that it reads, by their names in :class:`~graphdoc.settings.document.DocumentFields`. A setting that is
    new goes there first, with its bounds, its default and a line of the docstring; a model gives all settings to its
    kind, so that the default there is the one that counts, and the one here has to be the same.
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
