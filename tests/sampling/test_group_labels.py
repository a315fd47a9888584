from __future__ import annotations

import logging
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.readers.pair_files import LabelledPair, Pairs, read_link_file, read_pair_file
from graphdoc.errors import DocumentError, SettingsError
from graphdoc.sampling import ClassBalancedBatches, groups_of_labels, groups_of_pairs

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
    made = groups_of_pairs(IDS, pairs_of(edges), warn=False)
    for a, b in combinations(range(len(IDS)), 2):
        assert (made.labels[a] == made.labels[b]) == (b in reachable(a, edges))
    # Groups are numbered as they appear.
    assert list(dict.fromkeys(made.labels.tolist())) == list(range(made.report.groups))
    sizes = Counter(made.labels.tolist())
    assert made.report.largest == max(sizes.values())
    assert made.report.alone == list(sizes.values()).count(1)
    assert made.report.median == np.median(list(sizes.values()))
    assert (
        made.report.pairs["used"] == made.report.pairs["within"] == len({frozenset(e) for e in edges if e[0] != e[1]})
    )
    assert made.report.pairs["with_themselves"] == sum(a == b for a, b in edges)
    assert made.report.pairs["repeated"] == len(edges) - len({frozenset(edge) for edge in edges})


@given(edges=EDGES.filter(joins_something_but_not_all), most=st.sampled_from([None, 2, 3]))
def test_stars_are_of_documents_paired_with_one_of_them(edges: list[tuple[int, int]], most: int | None) -> None:
    made = groups_of_pairs(IDS, pairs_of(edges), joining="stars", most=most, warn=False)
    linked = {frozenset(edge) for edge in edges}
    for group in range(made.report.groups):
        members = np.flatnonzero(made.labels == group).tolist()
        assert len(members) <= (most or len(IDS))
        assert any(all(frozenset((one, other)) in linked for other in members if other != one) for one in members)
    # Two documents that are both alone are no partners, or they would have made a star.
    alone = [row for row in range(len(IDS)) if (made.labels == made.labels[row]).sum() == 1]
    assert not any(frozenset(two) in linked for two in combinations(alone, 2))
    within = [edge for edge in linked if len(edge) == 2 and len({made.labels[row] for row in edge}) == 1]
    assert made.report.pairs["within"] == len(within)


def test_the_largest_star_comes_first_and_takes_those_that_have_no_one_else() -> None:
    edges = [(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (6, 7)]
    assert groups_of_pairs(IDS, pairs_of(edges), joining="stars").labels.tolist()[:8] == [0, 0, 0, 0, 1, 1, 2, 2]
    few = groups_of_pairs(IDS, pairs_of(edges), joining="stars", most=3)
    # Document 3 has another partner, 1 and 2 have none.
    assert few.labels.tolist()[:8] == [0, 0, 0, 1, 1, 1, 2, 2]


def test_a_report_counts_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\t1\nb\ta\t1\nb\tc\t1\na\tc\t0\na\td\t0\nd\td\t1\nx\ta\t1\ne\ty\t0\n")
    made = groups_of_pairs(list("abcdefghijklm"), read_pair_file(path), unknown="leave_out")
    assert made.labels.tolist() == [0, 0, 0, *range(1, 11)]
    assert made.report.to_dict() == {
        "source": str(path),
        "documents": 13,
        "groups": 11,
        "without_group": 0,
        "alone": 10,
        "largest": 3,
        "median": 1.0,
        "largest_share": 3 / 13,
        "pairs": {
            "used": 2,
            "unknown": 2,
            "repeated": 1,
            "with_themselves": 1,
            "within": 2,
            "within_largest": 2,
            "dissimilar": 2,
            "dissimilar_within": 1,
        },
    }
    assert made.report.summary() == (
        f"13 documents in 11 groups by {path}; the largest has 3 (23%), the median 1; 10 alone\n"
        "2 similar pairs, 2 of them within a group; 2 dissimilar pairs, 1 within a group; left out: 2 of unknown "
        "documents, 1 repeated, 1 with themselves"
    )


def test_pairs_of_unknown_documents_stop_and_links_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "links.tsv"
    path.write_text("citing_id\tcited_id\na\tb\nc\t<i>\n")
    links = read_link_file(path)
    with pytest.raises(DocumentError, match=r"links.tsv:3: there is no document '<i>' among those read"):
        groups_of_pairs(list("abcd"), links)
    with pytest.raises(DocumentError, match=r"links.tsv:3: there is no document '<i>' among those read"):
        groups_of_pairs(list("abcd"), links)
    made = groups_of_pairs(list("abcd"), links, unknown="leave_out", warn=False)
    assert made.labels.tolist() == [0, 0, 1, 2]
    assert made.report.pairs["unknown"] == 1
    with pytest.raises(
        DocumentError, match=r"no pair of .*links.tsv is of documents that are there; read the collection"
    ):
        groups_of_pairs(list("xyz"), links, unknown="leave_out")


def test_huge_groups_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    chain = [(row, row + 1) for row in range(7)]
    pairs = [*pairs_of(chain), *pairs_of([(0, 7), (0, 9)], label=0)]
    with caplog.at_level(logging.WARNING, "graphdoc"):
        made = groups_of_pairs(IDS, pairs)
    assert caplog.messages == made.report.warnings()
    assert caplog.messages == [
        "by the pairs, 8 of 12 documents are of one group, most of which no pair names together; join them by "
        '"stars" of few documents ("most"), take a label, or train on the pairs themselves',
        "by the pairs, 1 of 2 dissimilar pairs are within a group and would be drawn together",
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "graphdoc"):
        groups_of_pairs(IDS, pairs, warn=False)
        stars = groups_of_pairs(IDS, pairs, joining="stars")
        labels = groups_of_labels(["a"] * 9 + ["b"])
        # Where every pair of a large group is given, nothing was joined that has nothing in common.
        whole = groups_of_pairs(IDS, pairs_of([(a, b) for a in range(5) for b in range(a)]))
    assert whole.report.largest_share > 0.4 and whole.report.pairs["within_largest"] == 10
    assert stars.report.largest_share == 0.25
    assert labels.report.largest_share == 0.9
    # A class may well hold most documents.
    assert caplog.messages == []


def test_labels() -> None:
    made = groups_of_labels(["sea", None, "rice", "sea", "", 0, "[b]sea"])
    assert made.labels.tolist() == [0, -1, 1, 0, -1, 2, 3]
    assert made.report.summary() == (
        "7 documents in 4 groups by label; the largest has 2 (29%), the median 1; 3 alone, 2 without one label"
    )


def test_groups_are_what_batches_take() -> None:
    made = groups_of_pairs(IDS, pairs_of([(0, 1), (2, 3), (3, 4)]), warn=False)
    batches = ClassBalancedBatches(np.ones(12, np.int64), 4, 0, labels=made.labels, per_class=2)
    assert batches.left_out == {"alone in their group": 7}
    assert {row for epoch in range(5) for batch in batches.of_epoch(epoch) for _, row in batch} <= set(range(5))


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        (
            [("a", "b", 1), ("b", "c", 1)],
            {},
            "all 3 documents are of one group by the pairs, .*joining=stars",
        ),
        ([("a", "a", 1)], {}, "no pair of the pairs that counts as similar joins two different documents; give some"),
        ([("a", "b", 0)], {}, "no pair of the pairs has label 1; give pairs of similar documents too"),
        ([("a", "b", 1), ("b", "a", 0)], {}, "pair 2: 'b' and 'a' have the label 0, but 1 in pair 1"),
        ([("a", "b", 1), ("a", "x", 1)], {}, "pair 2: there is no document 'x' among those read"),
    ],
)
def test_pairs_that_make_no_groups_are_refused(pairs: list[tuple[str, str, int]], options: dict, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        groups_of_pairs(list("abc"), Pairs.of([LabelledPair(*pair) for pair in pairs]), **options)


def test_labels_that_make_no_groups_are_refused() -> None:
    with pytest.raises(DocumentError, match=r"all 2 documents are of one group by topic, so .*; name another label"):
        groups_of_labels(["x", None, "x"], "topic")
    with pytest.raises(DocumentError, match="no document has a topic; name what says"):
        groups_of_labels([None, ""], "topic")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"joining": "cliques"}, "joining='cliques' is unknown; use components or stars"),
        ({"most": 4}, "most=4 is for stars, and 2 or more"),
        ({"joining": "stars", "most": 1}, "most=1 is for stars, and 2 or more"),
    ],
)
def test_unknown_choices_are_refused(options: dict, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        groups_of_pairs(IDS, pairs_of([(0, 1)]), **options)
