"""Which documents belong to one group: by a label, by pairs that are similar, or by links such as citations."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..documents.readers.pair_files import Pairs, Unknown
from ..errors import DocumentError
from ..runtime.arrays import Rows
from ..settings.finetuning import Joining

# A group of more documents than this share says little: most that are in it have nothing to do with each other.
LARGE_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class GroupLabels:
    """A group for every document.

    Args:
        labels: ``(documents,)``, the number of the group, counted in the order of the documents; -1 for none.
        source: what the groups are made of.
        pairs: what became of the pairs, where there are any: ``used`` (similar, each once), ``unknown`` (with a
            document that is not there), ``repeated``, ``with_themselves``; how many similar pairs lie ``within`` a
            group, of them ``within_largest``; how many ``dissimilar`` pairs there are, of them ``dissimilar_within``.
    """

    labels: Rows
    source: str
    pairs: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (number := len(self.sizes)) < 2:
            what = "are of one group by" if number else "have no"
            advice = ", or join pairs by stars (groups.joining=stars, groups.star_size=3)" if self.pairs else ""
            raise DocumentError(
                f"all {len(self.labels):,} documents {what} {self.source}: nothing to separate; give others{advice}"
            )

    @property
    def sizes(self) -> Rows:
        """Documents of every group, ``(groups,)``."""
        return np.bincount(self.labels[self.labels >= 0])

    def record(self) -> dict[str, Any]:
        """Everything but the labels as plain values for JSON."""
        sizes = self.sizes
        return {
            "source": self.source,
            "documents": len(self.labels),
            "groups": len(sizes),
            "without_group": int((self.labels < 0).sum()),
            "alone": int((sizes == 1).sum()),
            "largest": int(sizes.max()),
            "median": float(np.median(sizes)),
            "pairs": dict(self.pairs),
            "largest_share": int(sizes.max()) / len(self.labels),
        }

    def warnings(self) -> list[str]:
        """Warnings about groups of little use, one line each."""
        counts, pairs, lines = self.record(), self.pairs, list[str]()
        if not pairs:
            return lines
        inside, dissimilar, largest = pairs["dissimilar_within"], pairs["dissimilar"], counts["largest"]
        is_large = counts["largest_share"] > LARGE_SHARE
        if is_large and 2 * pairs["within_largest"] < largest * (largest - 1) // 2:
            lines.append(
                f"most of the {largest:,} documents of the largest group are named together by no pair; join "
                "them by stars of few documents (groups.joining, groups.star_size), or train on the pairs themselves"
            )
        if inside > LARGE_SHARE * dissimilar:
            lines.append(f"{inside:,} of {dissimilar:,} dissimilar pairs would be drawn together")
        return lines


def groups_of_labels(labels: Sequence[str | int | None], source: str = "label") -> GroupLabels:
    """Groups of documents that have the same label; those with None or an empty string belong to none.

    Raises:
        DocumentError: all documents have one label, or none has any.

    >>> groups_of_labels(["sea", "land", "sea", None]).labels
    array([ 0,  1,  0, -1])
    """
    numbers: dict[str | int, int] = {}
    found = [-1 if label in (None, "") else numbers.setdefault(label, len(numbers)) for label in labels]
    return GroupLabels(np.array(found, np.int64), source)


def groups_of_pairs(
    ids: Sequence[str],
    pairs: Pairs | Sequence[tuple[str, str, int]],
    *,
    unknown: Unknown = "stop",
    joining: Joining = "components",
    star_size: int | None = None,
) -> GroupLabels:
    """Groups of documents that pairs with label 1 join.

    By ``components``, documents are in one group if a chain of pairs leads from one to the other. By ``stars``, a
    group is one document and its partners: repeatedly, the document with the most partners that have no group yet
    forms one with them. (This is how CoLDE makes its sets: a paper and those that it cites, section 4.1.)
    A document without a pair is a group by itself. A pair that occurs twice, in either order, counts once; pairs of
    a document with itself do not count.

    Args:
        ids: the ids of the documents, each once.
        pairs: the pairs; those with label 0 are only counted.
        unknown: ``stop`` at a pair whose documents are not all there, or ``leave_out`` such pairs and count them.
        joining: ``components`` or ``stars``.
        star_size: documents of a star, at most; of more partners it takes those that have fewest partners themselves.

    Raises:
        DocumentError: a document is not there, pairs contradict each other, no pair joins any, or all are joined.

    >>> groups_of_pairs(["a", "b", "c"], [("a", "b", 1), ("a", "c", 0)]).labels
    array([0, 0, 1])
    """
    listed = Pairs.from_sequence(pairs)
    row_of = {id: row for row, id in enumerate(ids)}
    known = listed.among(row_of, unknown)
    known.require_agreement()
    by_label: dict[int, dict[tuple[str, str], tuple[int, int]]] = {0: {}, 1: {}}
    for pair in known:
        if pair.a != pair.b:
            by_label[pair.label][pair.documents] = (row_of[pair.a], row_of[pair.b])
    similar, dissimilar = (np.array([*by_label[label].values()], np.int64).reshape(-1, 2) for label in (1, 0))
    if not len(similar):
        raise DocumentError(f"{listed.name}: no pair with label 1 joins two documents that are there")
    found = _stars(similar, len(ids), star_size) if joining == "stars" else _components(similar, len(ids))
    # Numbered in the order of the documents, however they were found.
    _, first, inverse = np.unique(found, return_index=True, return_inverse=True)
    labels = np.argsort(np.argsort(first))[inverse].astype(np.int64)
    counts = {
        "used": len(similar),
        "unknown": len(listed) - len(known),
        "repeated": known.repeated,
        "with_themselves": known.with_themselves,
        "within": int((labels[similar[:, 0]] == labels[similar[:, 1]]).sum()),
        "within_largest": int((labels[similar] == np.bincount(labels).argmax()).all(axis=1).sum()),
        "dissimilar": len(dissimilar),
        "dissimilar_within": int((labels[dissimilar[:, 0]] == labels[dissimilar[:, 1]]).sum()),
    }
    return GroupLabels(labels, listed.name, counts)


def _components(edges: Rows, documents: int) -> Rows:
    graph = coo_array((np.ones(len(edges), np.int8), (edges[:, 0], edges[:, 1])), shape=(documents, documents))
    found: Rows = connected_components(graph.tocsr(), directed=False)[1].astype(np.int64)
    return found


def _stars(edges: Rows, documents: int, star_size: int | None) -> Rows:
    partners: dict[int, set[int]] = defaultdict(set)
    for a, b in edges.tolist():
        partners[a].add(b)
        partners[b].add(a)
    star = np.arange(documents, dtype=np.int64)
    # Those in no star yet; a document's number of free partners only falls, so an entry that is too high is put back.
    waiting = [(-len(free), row) for row, free in partners.items()]
    heapq.heapify(waiting)
    while waiting:
        count, row = heapq.heappop(waiting)
        if row not in partners:
            continue
        free = partners[row]
        if len(free) < -count:
            if free:
                heapq.heappush(waiting, (-len(free), row))
            continue
        members = [row, *sorted(free, key=lambda other: (len(partners[other]), other))[: star_size and star_size - 1]]
        star[members] = row
        for member in members:
            for other in partners.pop(member):
                if other in partners:
                    partners[other].discard(member)
    return star
