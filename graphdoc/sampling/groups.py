"""Which documents belong to one group: by a label, by pairs that are similar, or by links such as citations."""

from __future__ import annotations

import heapq
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..documents.readers.pair_files import LabelledPair, Pairs, Unknown
from ..errors import DocumentError, SettingsError
from ..runtime.text import counted
from ..settings.finetuning import Joining
from .batches import Rows

WITHOUT_GROUP = -1
# A group of more documents than this share says little: most that are in it have nothing to do with each other.
LARGE_SHARE = 0.25

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What groups look like.

    Args:
        source: what they are made of.
        documents: number of documents.
        groups: number of groups.
        without_group: documents that have no label, or several.
        alone: documents that are alone in their group.
        largest: documents of the largest group.
        median: median of the groups' sizes.
        pairs: what became of the pairs, where there are any: ``used`` (similar, each once), ``unknown`` (with a
            document that is not there), ``repeated``, ``with_themselves``; how many similar pairs lie ``within`` a
            group, of them ``within_largest``; how many ``dissimilar`` pairs there are, of them ``dissimilar_within``.
    """

    source: str
    documents: int
    groups: int
    without_group: int
    alone: int
    largest: int
    median: float
    pairs: Mapping[str, int] = field(default_factory=dict)

    @property
    def largest_share(self) -> float:
        """Share of the documents that the largest group has."""
        return self.largest / self.documents

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {**asdict(self), "pairs": dict(self.pairs), "largest_share": self.largest_share}

    def summary(self) -> str:
        """The groups in a line, and the pairs in a second one if there are any."""
        line = (
            f"{counted(self.documents, 'document')} in {counted(self.groups, 'group')} by {self.source}; the largest "
            f"has {self.largest:,} ({self.largest_share:.0%}), the median {self.median:g}; {self.alone:,} alone"
        )
        if self.without_group:
            line += f", {self.without_group:,} without one label"
        if not self.pairs:
            return line
        left_out = {"unknown": "of unknown documents", "repeated": "repeated", "with_themselves": "with themselves"}
        second = f"{counted(self.pairs['used'], 'similar pair')}, {self.pairs['within']:,} of them within a group"
        if self.pairs["dissimilar"]:
            inside = self.pairs["dissimilar_within"]
            second += f"; {counted(self.pairs['dissimilar'], 'dissimilar pair')}, {inside:,} within a group"
        rest = [f"{self.pairs[reason]:,} {words}" for reason, words in left_out.items() if self.pairs[reason]]
        return f"{line}\n{second}" + (f"; left out: {', '.join(rest)}" if rest else "")

    def warnings(self) -> list[str]:
        """What makes groups of little use, one line each."""
        lines = []
        possible = self.largest * (self.largest - 1) // 2
        if self.pairs and self.largest_share > LARGE_SHARE and 2 * self.pairs["within_largest"] < possible:
            lines.append(
                f"by {self.source}, {self.largest:,} of {self.documents:,} documents are of one group, most of which "
                'no pair names together; join them by "stars" of few documents ("most"), take a label, or train on '
                "the pairs themselves"
            )
        if self.pairs and (inside := self.pairs["dissimilar_within"]) > LARGE_SHARE * self.pairs["dissimilar"]:
            lines.append(
                f"by {self.source}, {inside:,} of {self.pairs['dissimilar']:,} dissimilar pairs are within a group "
                "and would be drawn together"
            )
        return lines


@dataclass(frozen=True, slots=True)
class GroupLabels:
    """A group for every document.

    Args:
        labels: ``(documents,)``, the number of the group, counted in the order of the documents; -1 for none.
        report: what the groups look like.
    """

    labels: Rows
    report: GroupReport


def groups_of_labels(labels: Sequence[str | int | None], source: str = "label") -> GroupLabels:
    """Groups of documents that have the same label.

    Args:
        labels: the label of every document; None, or an empty string, for documents without one (or with several),
            which belong to no group.
        source: what the labels are called in reports.

    Raises:
        DocumentError: all documents have one label, or none has any.

    >>> report = groups_of_labels(["sea", "land", "sea", None]).report
    >>> report.groups, report.largest, report.without_group
    (2, 2, 1)
    """
    numbers: dict[str | int, int] = {}
    found = [WITHOUT_GROUP if label in (None, "") else numbers.setdefault(label, len(numbers)) for label in labels]
    return _made(np.array(found, np.int64), source)


def groups_of_pairs(
    ids: Sequence[str],
    pairs: Pairs | Sequence[LabelledPair],
    *,
    unknown: Unknown = "stop",
    joining: Joining = "components",
    most: int | None = None,
    warn: bool = True,
) -> GroupLabels:
    """Groups of documents that pairs with label 1 join.

    By ``components``, documents are of one group if a chain of pairs leads from one to the other. Long chains join
    what has nothing in common; where that gives a huge group, a warning says so. By ``stars``, a group is one document
    and such as it is paired with itself: again and again, the document with most partners that have no group yet makes
    one with them. (So CoLDE makes its sets: a paper and those that it cites, section 4.1.) Documents without a pair
    are groups of their own. A pair that occurs twice, in either order, counts once; pairs of a document with itself
    do not count.

    Args:
        ids: the ids of the documents, each once.
        pairs: the pairs; those with label 0 are only counted.
        unknown: ``stop`` at a pair whose documents are not all there, or ``leave_out`` such pairs and count them.
        joining: ``components`` or ``stars``.
        most: documents that a star has at most; of more partners it takes those that have fewest partners themselves.
        warn: log what makes the groups of little use.

    Raises:
        DocumentError: a document is not there, pairs contradict each other, no pair joins any documents, or all
            documents are joined.
        SettingsError: a choice is unknown or out of range.

    >>> from graphdoc.documents.readers.pair_files import LabelledPair
    >>> groups_of_pairs(["a", "b", "c"], [LabelledPair("a", "b", 1), LabelledPair("a", "c", 0)]).labels
    array([0, 0, 1])
    """
    if joining not in get_args(Joining):
        raise SettingsError(f"joining={joining!r} is unknown; use components or stars")
    if most is not None and (joining != "stars" or most < 2):
        raise SettingsError(f"most={most} is for stars, and 2 or more; leave it out or change it")
    given = Pairs.of(pairs)
    row_of = {id: row for row, id in enumerate(ids)}
    known = given.among(row_of, unknown)
    known.require_agreement()
    by_label: dict[int, dict[tuple[str, str], tuple[int, int]]] = {0: {}, 1: {}}
    for pair in known:
        if pair.a != pair.b:
            by_label[pair.label][pair.documents] = (row_of[pair.a], row_of[pair.b])
    similar, dissimilar = (np.array([*by_label[label].values()], np.int64).reshape(-1, 2) for label in (1, 0))
    if not len(similar):
        raise DocumentError(f"no pair of {given.name} {_why_none_joins(known)}")
    found = _stars(similar, len(ids), most) if joining == "stars" else _components(similar, len(ids))
    # Numbered in the order of the documents, however they were found.
    _, first, inverse = np.unique(found, return_index=True, return_inverse=True)
    labels = np.argsort(np.argsort(first))[inverse].astype(np.int64)

    def within(rows: Rows) -> int:
        return int((labels[rows[:, 0]] == labels[rows[:, 1]]).sum())

    counts = {
        "used": len(similar),
        "unknown": len(given) - len(known),
        "repeated": known.repeated,
        "with_themselves": known.with_themselves,
        "within": within(similar),
        "within_largest": int((labels[similar] == np.bincount(labels).argmax()).all(axis=1).sum()),
        "dissimilar": len(dissimilar),
        "dissimilar_within": within(dissimilar),
    }
    made = _made(labels, given.name, counts)
    if warn:
        for line in made.report.warnings():
            logger.warning(line)
    return made


def _why_none_joins(known: Pairs) -> str:
    """What is wrong with pairs none of which is similar, and what to do."""
    if not len(known):
        return "is of documents that are there; read the collection that they are from"
    if not any(pair.label for pair in known):
        return "has label 1; give pairs of similar documents too"
    return "that counts as similar joins two different documents; give some that do"


def _components(edges: Rows, documents: int) -> Rows:
    """The connected component of every document."""
    ones = np.ones(len(edges), np.int8)
    graph = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(documents, documents))
    found: Rows = connected_components(graph.tocsr(), directed=False)[1].astype(np.int64)
    return found


def _stars(edges: Rows, documents: int, most: int | None) -> Rows:
    """The star of every document, by the row in its middle."""
    partners: dict[int, set[int]] = defaultdict(set)
    for a, b in edges.tolist():
        partners[a].add(b)
        partners[b].add(a)
    star = np.arange(documents, dtype=np.int64)
    # Those in no star yet; a document's number of free partners only falls, so an entry that is too high is put back.
    waiting = [(-len(own), row) for row, own in partners.items()]
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
        members = [row, *sorted(free, key=lambda other: (len(partners[other]), other))[: most and most - 1]]
        star[members] = row
        for member in members:
            for other in partners.pop(member):
                if other in partners:
                    partners[other].discard(member)
    return star


def _made(labels: Rows, source: str, pairs: Mapping[str, int] | None = None) -> GroupLabels:
    """The groups with their report.

    Raises:
        DocumentError: all documents are of one group, or none has any.
    """
    sizes = np.bincount(labels[labels >= 0])
    if not len(sizes):
        raise DocumentError(f"no document has a {source}; name what says which documents belong together")
    if len(sizes) == 1:
        raise DocumentError(
            f"all {counted(int(sizes[0]), 'document')} are of one group by {source}, so that there is nothing to "
            f"separate; {'use joining=stars with most=3' if pairs else 'name another label'}, or give documents of "
            "other groups"
        )
    report = GroupReport(
        source=source,
        documents=len(labels),
        groups=len(sizes),
        without_group=int((labels < 0).sum()),
        alone=int((sizes == 1).sum()),
        largest=int(sizes.max()),
        median=float(np.median(sizes)),
        pairs=pairs or {},
    )
    return GroupLabels(labels, report)
