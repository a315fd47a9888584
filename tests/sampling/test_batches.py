"""Which documents make up which batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graphdoc.documents.readers.pair_files import LabelledPair, Pairs, read_link_file, read_pair_file
from graphdoc.errors import DocumentError
from graphdoc.sampling.batches import BalancedPairBatches, ClassBalancedBatches, DocumentBatches, EpochBatches
from graphdoc.sampling.groups import groups_of_labels, groups_of_pairs
from graphdoc.sampling.negatives import NegativeSampler, RowLists


def labels_of(sizes: list[int], seed: int = 0) -> np.ndarray:
    """Labels of documents in no particular order, by the size of their groups."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * 7, sizes))


def grouped(labels: np.ndarray, batch_size: int = 12, seed: int = 0, **options: int) -> ClassBalancedBatches:
    return ClassBalancedBatches(np.full(len(labels), 3), batch_size, seed, labels=labels, **options)


def rows_of(batches: DocumentBatches, epoch: int = 0) -> list[list[int]]:
    found = list(batches.of_epoch(epoch))
    assert len(found) == len(batches)
    assert {own for batch in found for own, _ in batch} == {epoch}
    return [[row for _, row in batch] for batch in found]


# Makes the batches of 72 documents, from their lengths, a batch size, a seed, a rank and a number of processes.
KINDS: dict[str, Callable[..., DocumentBatches]] = {
    "epochs": EpochBatches,
    "some": lambda *shares: EpochBatches(*shares, rows=np.arange(3, 60), per_epoch=40),
    "groups": lambda *shares: ClassBalancedBatches(*shares, labels=labels_of([30, 20, 10, 5, 4, 3])),
    "pairs": lambda *shares: BalancedPairBatches(*shares, labels=(np.arange(72) % 5 == 0).astype(np.int64)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_depend_on_seed_and_epoch_alone_and_are_shared_evenly(kind: str) -> None:
    counts = np.random.default_rng(0).integers(2, 51, size=72)
    batches = KINDS[kind](counts, 16, 3)
    first, later = rows_of(batches, 0), rows_of(batches, 1)
    assert rows_of(KINDS[kind](counts, 16, 3), 0) == rows_of(batches, 0) == first
    assert later != first != rows_of(KINDS[kind](counts, 16, 4), 0)
    for processes in (2, 3):
        shares = [rows_of(KINDS[kind](counts, 16, 3, rank, processes)) for rank in range(processes)]
        for number, batch in enumerate(first):
            dealt = [row for share in shares for row in share[number]]
            assert sorted(dealt) == sorted(batch)
            passages = [sum(counts[row] for row in share[number]) for share in shares]
            assert max(passages) - min(passages) <= counts.max()


def test_an_epoch_passes_once_over_all_documents_or_a_part_of_them() -> None:
    counts = np.arange(2, 35)
    batches = rows_of(EpochBatches(counts, 8, seed=1))
    assert [len(batch) for batch in batches] == [8] * 4
    assert len({row for batch in batches for row in batch}) == 32
    rows = np.arange(5, 21)
    assert sorted(row for batch in rows_of(EpochBatches(counts, 4, 0, rows=rows)) for row in batch) == rows.tolist()
    assert (
        rows_of(EpochBatches(counts, 4, 0, rows=rows, per_epoch=11))
        == rows_of(EpochBatches(counts, 4, 0, rows=rows))[:2]
    )
    # Fewer documents than a batch make one.
    assert [len(batch) for batch in rows_of(EpochBatches(counts, 4, 0, per_epoch=3))] == [3]
    assert [len(batch) for batch in rows_of(EpochBatches(np.full(5, 3), 8, seed=0))] == [5]


LABELS = st.lists(st.integers(0, 1), min_size=2, max_size=40).filter(lambda labels: len(set(labels)) == 2)


@given(LABELS, st.integers(1, 8), st.integers(0, 100), st.integers(0, 3))
@hypothesis_settings(deadline=None, max_examples=100)
def test_every_batch_has_as_many_pairs_of_both_labels(labels: list[int], half: int, seed: int, epoch: int) -> None:
    known = np.array(labels)
    batches = BalancedPairBatches(np.ones(len(labels), np.int64), 2 * half, seed, labels=known)
    found = rows_of(batches, epoch)
    assert len(found) >= 1
    assert all(known[batch].sum() * 2 == len(batch) == batches.batch_size for batch in found)
    more = int(known.sum() * 2 >= len(known))
    everything = [number for batch in found for number in batch]
    counts = {label: Counter(number for number in everything if known[number] == label) for label in (0, 1)}
    # Pairs of the larger label come once at most; of the smaller, none comes again before all have come.
    assert max(counts[more].values()) == 1
    smaller = [counts[1 - more][number] for number in np.flatnonzero(known == 1 - more)]
    assert max(smaller) - min(smaller) <= 1


@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=12),
    batch_size=st.integers(4, 40),
    smallest=st.integers(1, 2),
    seed=st.integers(0, 100),
)
def test_every_document_of_a_batch_has_another_of_its_group(
    sizes: list[int], batch_size: int, smallest: int, seed: int
) -> None:
    labels = labels_of([*sizes, 4, 5], seed)
    size_of = Counter(labels.tolist())
    batches = grouped(labels, batch_size, seed, smallest=smallest)
    found = rows_of(batches)
    for rows in found:
        assert len(set(rows)) == len(rows) <= batches.batch_size <= batch_size
        assert len(found) == 1 or 2 * len(rows) >= batches.batch_size
        groups = Counter(labels[rows].tolist())
        assert len(groups) >= 2
        assert all(count >= 2 or size_of[group] == 1 for group, count in groups.items())
        assert all(size_of[group] >= smallest for group in groups)
        assert max(groups.values()) <= max(min(4, batch_size // 2), batches.batch_size / 2)


@given(sizes=st.lists(st.integers(2, 30), min_size=4, max_size=20), seed=st.integers(0, 100))
def test_an_epoch_visits_nearly_every_document_once(sizes: list[int], seed: int) -> None:
    # No group has more than half of the documents.
    sizes = [min(size, sum(sizes) // 3) for size in sizes]
    assume(min(sizes) >= 2 and 2 * max(sizes) <= sum(sizes))
    labels = labels_of(sizes, seed)
    batches = grouped(labels, 8, seed)
    visits = Counter(row for rows in rows_of(batches) for row in rows)
    assert len(visits) >= len(labels) - 8 - 2 * len(batches)
    assert visits.total() - len(visits) <= 2 * len(batches)


def test_groups_give_chunks_of_about_four_and_a_large_one_no_more_than_half() -> None:
    labels = labels_of([40] * 20)
    counts = [Counter(labels[rows].tolist()) for rows in rows_of(grouped(labels, 16))]
    assert len(counts) == 50
    # Two chunks of one group meet only where the last ones are dealt.
    sizes = Counter(count for groups in counts for count in groups.values())
    assert set(sizes) <= {4, 8} and sizes[4] > 0.95 * sizes.total()
    labels = labels_of([600, 60, 60, 60])
    shares = [np.mean(labels[rows] == 0) for rows in rows_of(grouped(labels, 24))]
    # One chunk more or less, which is a sixth of a batch.
    assert max(shares) <= 0.5 + 1 / 6 and np.mean(shares) == pytest.approx(0.5, abs=0.05)


def test_documents_without_a_group_or_alone_in_theirs_are_left_out() -> None:
    labels = np.array([0, 0, 1, 1, 1, -1, -1, 2, -5])
    batches = grouped(labels, 4)
    assert {row for epoch in range(9) for rows in rows_of(batches, epoch) for row in rows} == {0, 1, 2, 3, 4}
    assert sorted(rows_of(grouped(labels, 6, smallest=1))[0]) == [0, 1, 2, 3, 4, 7]
    # Documents of a large group that are left to other epochs have their turn.
    labels = labels_of([50, 3, 3, 2, 2, 2, 2])
    epochs = [{row for rows in rows_of(grouped(labels), epoch) for row in rows} for epoch in range(30)]
    assert max(map(len, epochs)) < len(labels) - 8 and set.union(*epochs) == set(range(len(labels)))
    few = grouped(np.array([0, 1, 0, 1, 1, 2, 2]), 64)
    assert (few.batch_size, sorted(rows_of(few)[0])) == (7, list(range(7)))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: EpochBatches(np.full(5, 3), 8, 0, 0, 6), "6 processes"),
        (lambda: BalancedPairBatches(np.ones(2), 2, 0, labels=np.array([1, 1])), "2 pairs"),
        (lambda: BalancedPairBatches(np.ones(2), 3, 0, labels=np.array([1, 0])), "3 pairs"),
        (lambda: BalancedPairBatches(np.ones(2), 8, 0, 0, 3, labels=np.array([1, 0])), "3 processes"),
        (lambda: grouped(np.array([0, 0, 1])), "1 groups"),
        (lambda: grouped(np.empty(0, np.int64)), "0 groups"),
        (lambda: grouped(np.array([-1, -1]), smallest=1), "0 groups"),
        (lambda: grouped(np.array([0, 0, 1, 1]), 3), "batches of 3"),
        (lambda: grouped(np.array([0, 0, 1, 1]), processes=3), "3 processes"),
    ],
)
def test_what_makes_no_batches_is_refused(make: Callable[[], DocumentBatches], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()


def lists(*values: list[int]) -> RowLists:
    return RowLists.from_lists(np.array(one, np.int64) for one in values)


def test_a_draw_depends_on_seed_epoch_and_pair_alone() -> None:
    groups = np.arange(1000)
    one, other = (NegativeSampler(5, 0, groups, lists([1], [2])) for _ in range(2))
    places = [(epoch, pair, pair % 2) for epoch in range(3) for pair in range(4)]
    first = {place: one.sample(*place).tolist() for place in places}
    again = {place: other.sample(*place).tolist() for place in reversed(places)}
    assert first == again
    assert len({tuple(rows) for rows in first.values()}) == len(places)
    assert NegativeSampler(5, 1, groups, lists([1], [2])).sample(0, 0, 0).tolist() != first[0, 0, 0]
    assert NegativeSampler(0, 0, groups, lists([1])).sample(0, 0, 0).tolist() == []


def test_answers_and_their_copies_are_never_drawn() -> None:
    # Documents 0 and 4 are copies; so are 1 and 5.
    groups = np.array([0, 1, 2, 3, 0, 1, 4, 5])
    for pools in (None, lists([4, 5, 6, 2, 0])):
        draws = NegativeSampler(2, 0, groups, lists([0, 1]), pools)
        seen = {int(row) for pair in range(200) for row in draws.sample(0, pair, 0)}
        assert seen == ({2, 3, 6, 7} if pools is None else {2, 6})
    large = NegativeSampler(3, 0, np.arange(10_000) % 7, lists([0, 3]))
    assert set((np.concatenate([large.sample(0, pair, 0) for pair in range(300)]) % 7).tolist()) == {1, 2, 4, 5, 6}


def test_as_many_are_drawn_as_there_are_each_once_and_evenly() -> None:
    for others in (0, 2):
        draws = NegativeSampler(3, 0, np.array([0] * 60 + list(range(1, others + 1))), lists([0]))
        assert sorted(draws.sample(0, 0, 0).tolist()) == list(range(60, 60 + others))
    draws = NegativeSampler(4, 0, np.arange(50), lists([9], [8]), lists([9, 5, 6], [0, 1, 2, 3, 4, 5, 6, 7]))
    assert draws.pool_sizes is not None and draws.pool_sizes.tolist() == [2, 8]
    assert sorted(draws.sample(0, 0, 0).tolist()) == [5, 6]
    rows = [draws.sample(0, pair, 1).tolist() for pair in range(2000)]
    assert all(len(set(one)) == 4 for one in rows)
    assert np.abs(np.bincount(np.concatenate(rows), minlength=8) / 1000 - 1).max() < 0.15
    draws.use(lists([1], []))
    assert [draws.sample(0, 0, row).tolist() for row in (0, 1)] == [[1], []]


IDS = [f"d{number}" for number in range(12)]
EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=14)


def pairs_of(edges: list[tuple[int, int]], label: int = 1) -> list[LabelledPair]:
    return [LabelledPair(IDS[a], IDS[b], label) for a, b in edges]


def reachable(start: int, edges: list[tuple[int, int]]) -> set[int]:
    """All that a chain of edges leads to, found by walking."""
    found, both = {start}, [*edges, *((b, a) for a, b in edges)]
    while more := {b for a, b in both if a in found} - found:
        found |= more
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
    assert made.pairs["used"] == made.pairs["within"] == len({frozenset(edge) for edge in edges if edge[0] != edge[1]})
    assert made.pairs["with_themselves"] == sum(a == b for a, b in edges)
    assert made.pairs["repeated"] == len(edges) - len({frozenset(edge) for edge in edges})


@given(edges=EDGES.filter(joins_something_but_not_all), most=st.sampled_from([None, 2, 3]))
def test_stars_are_of_documents_paired_with_one_of_them(edges: list[tuple[int, int]], most: int | None) -> None:
    made = groups_of_pairs(IDS, pairs_of(edges), joining="stars", star_size=most)
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
    few = groups_of_pairs(IDS, pairs_of(edges), joining="stars", star_size=3)
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
    pairs = [*pairs_of([(row, row + 1) for row in range(7)]), *pairs_of([(0, 7), (0, 9)], label=0)]
    # Where every pair of a large group is given, nothing was joined that has nothing in common.
    whole = groups_of_pairs(IDS, pairs_of([(a, b) for a in range(5) for b in range(a)]))
    made = (groups_of_pairs(IDS, pairs), whole, groups_of_pairs(IDS, pairs, joining="stars"))
    # A class may well hold most documents.
    (large, dissimilar), *others = (one.warnings() for one in (*made, groups_of_labels(["a"] * 9 + ["b"])))
    assert "8 documents" in large and "1 of 2" in dissimilar and others == [[], [], []]


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
            groups_of_pairs(list("abc"), Pairs.from_sequence([LabelledPair(*pair) for pair in make]))
