from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.readers.pair_files import LabelledPair, Pairs, read_link_file, read_pair_file
from graphdoc.errors import DocumentError
from graphdoc.sampling import GroupLabels, groups_of_labels, groups_of_pairs

IDS = [f"d{number}" for number in range(12)]
EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=14)


def pairs_of(edges: list[tuple[int, int]], label: int = 1) -> list[LabelledPair]:
    return [LabelledPair(IDS[a], IDS[b], label) for a, b in edges]


def reachable(start: int, edges: list[tuple[int, int]]) -> set[int]:
    """All that a chain of edges leads to, found by walking."""
    found, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        for a, b in edges:
            for one, other in ((a, b), (b, a)):
                if one == here and other not in found:
                    found.add(other)
                    waiting.append(other)
    return found


def joins_something_but_not_all(edges: list[tuple[int, int]]) -> bool:
    return any(a != b for a, b in edges) and len(reachable(0, edges)) < len(IDS)


@given(EDGES.filter(joins_something_but_not_all))
def test_components_are_what_chains_of_pairs_reach(edges: list[tuple[int, int]]) -> None:
    made = groups_of_pairs(IDS, pairs_of(edges))
    for a, b in combinations(range(len(IDS)), 2):
        assert (made.labels[a] == made.labels[b]) == (b in reachable(a, edges))
    record, sizes = made.record(), Counter(made.labels.tolist())
    # Groups are numbered as they appear.
    assert list(dict.fromkeys(made.labels.tolist())) == list(range(record["groups"]))
    assert record["largest"] == max(sizes.values())
    assert record["alone"] == list(sizes.values()).count(1)
    assert record["median"] == np.median(list(sizes.values()))
    different = len({frozenset(edge) for edge in edges if edge[0] != edge[1]})
    assert made.pairs["used"] == made.pairs["within"] == different
    assert made.pairs["with_themselves"] == sum(a == b for a, b in edges)
    assert made.pairs["repeated"] == len(edges) - len({frozenset(edge) for edge in edges})


@given(edges=EDGES.filter(joins_something_but_not_all), most=st.sampled_from([None, 2, 3]))
def test_stars_are_of_documents_paired_with_one_of_them(edges: list[tuple[int, int]], most: int | None) -> None:
    made = groups_of_pairs(IDS, pairs_of(edges), joining="stars", most=most)
    linked = {frozenset(edge) for edge in edges}
    for group in range(len(made.sizes)):
        members = np.flatnonzero(made.labels == group).tolist()
        assert len(members) <= (most or len(IDS))
        assert any(all(frozenset((one, other)) in linked for other in members if other != one) for one in members)
    # Two documents that are both alone are no partners, or they would have made a star.
    alone = [row for row in range(len(IDS)) if (made.labels == made.labels[row]).sum() == 1]
    assert not any(frozenset(two) in linked for two in combinations(alone, 2))
    within = [edge for edge in linked if len(edge) == 2 and len({made.labels[row] for row in edge}) == 1]
    assert made.pairs["within"] == len(within)


def test_the_largest_star_comes_first_and_takes_those_that_have_no_one_else() -> None:
    edges = [(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (6, 7)]
    assert groups_of_pairs(IDS, pairs_of(edges), joining="stars").labels.tolist()[:8] == [0, 0, 0, 0, 1, 1, 2, 2]
    few = groups_of_pairs(IDS, pairs_of(edges), joining="stars", most=3)
    # Document 3 has another partner, 1 and 2 have none.
    assert few.labels.tolist()[:8] == [0, 0, 0, 1, 1, 1, 2, 2]


def test_a_record_counts_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\t1\nb\ta\t1\nb\tc\t1\na\tc\t0\na\td\t0\nd\td\t1\nx\ta\t1\ne\ty\t0\n")
    made = groups_of_pairs(list("abcdefghijklm"), read_pair_file(path), unknown="leave_out")
    assert made.labels.tolist() == [0, 0, 0, *range(1, 11)]
    counts = {"documents": 13, "groups": 11, "without_group": 0, "alone": 10, "largest": 3, "median": 1.0}
    pairs = {"used": 2, "unknown": 2, "repeated": 1, "with_themselves": 1, "within": 2, "within_largest": 2}
    dissimilar = {"dissimilar": 2, "dissimilar_within": 1}
    assert made.record() == {
        "source": str(path), **counts, "largest_share": 3 / 13, "pairs": {**pairs, **dissimilar},
    }  # fmt: skip
    links = tmp_path / "links.tsv"
    links.write_text("citing_id\tcited_id\na\tb\nc\t<i>\n")
    made = groups_of_pairs(list("abcd"), read_link_file(links), unknown="leave_out")
    assert (made.labels.tolist(), made.pairs["unknown"]) == ([0, 0, 1, 2], 1)
    assert groups_of_labels(["sea", None, "rice", "sea", "", 0, "[b]sea"]).labels.tolist() == [0, -1, 1, 0, -1, 2, 3]


def test_huge_groups_are_warned_of() -> None:
    chain = [(row, row + 1) for row in range(7)]
    pairs = [*pairs_of(chain), *pairs_of([(0, 7), (0, 9)], label=0)]

    def warned(made: GroupLabels) -> list[str]:
        return made.warnings()

    large, dissimilar = warned(groups_of_pairs(IDS, pairs))
    assert "8 documents" in large and "1 of 2" in dissimilar
    # Where every pair of a large group is given, nothing was joined that has nothing in common.
    whole = groups_of_pairs(IDS, pairs_of([(a, b) for a in range(5) for b in range(a)]))
    assert whole.pairs["within_largest"] == 10
    # A class may well hold most documents.
    for made in (whole, groups_of_pairs(IDS, pairs, joining="stars"), groups_of_labels(["a"] * 9 + ["b"])):
        assert warned(made) == []


@pytest.mark.parametrize(
    ("make", "named"),
    [
        ([("a", "b", 1), ("b", "c", 1)], "the pairs"),
        ([("a", "a", 1)], "the pairs"),
        ([("a", "b", 0)], "the pairs"),
        ([("a", "b", 1), ("b", "a", 0)], "pair 2"),
        ([("a", "b", 1), ("a", "x", 1)], "'x'"),
        (["x", None, "x"], "topic"),
        ([None, ""], "topic"),
    ],
)
def test_what_makes_no_groups_is_refused(make: list[Any], named: str) -> None:
    with pytest.raises(DocumentError, match=named):
        if named == "topic":
            groups_of_labels(make, "topic")
        else:
            groups_of_pairs(list("abc"), Pairs.of([LabelledPair(*pair) for pair in make]))
