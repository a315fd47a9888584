"""Percentile rank, hit rate and the measures as SDR's published code counts them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.evaluation.measures import Candidates
from graphdoc.evaluation.ranking import RankingTable, score_run
from graphdoc.evaluation.resampling import resampled

pytest.importorskip("ir_measures")

MEASURES = ("MPR", "HR@2", "recall@2", "MPR-published", "MRR-published", "HR-published@2")
# Of five candidates "b" and "d" are relevant to the first, "a" to the second.
RUN = {"q1": {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}, "q2": {"c": 9.0, "a": 8.0, "b": 7.0}}
QRELS = {"q1": {"b": 1, "d": 2, "e": 0}, "q2": {"a": 1}}


def test_by_hand() -> None:
    found = score_run(RUN, QRELS, MEASURES, candidates=Candidates(5, {"q1": 2}))
    mpr = [np.mean([1 - 2 / 5, 1 - 4 / 5]), 1 - 2 / 5]
    published = [np.mean([1 - 1 / 5, 1 - 3 / 5]), 1 - 1 / 5]
    # Rank 2 is rank 1 counted from 0, and counts as the first.
    expected = np.array([mpr, [0.5, 1.0], [0.5, 1.0], published, [1.0, 1.0], [1 / 4, 1.0]]).T
    np.testing.assert_allclose(found.values, expected)
    # Three pairs of a document and a relevant one, not two documents.
    assert found.means["MPR"] == pytest.approx((0.6 + 0.2 + 0.6) / 3)
    assert found.means["MPR-published"] == pytest.approx((0.8 + 0.4 + 0.8) / 3)
    assert found.means["HR@2"] == found.means["recall@2"] == pytest.approx(0.75)


def test_what_was_not_found_stands_last() -> None:
    found = score_run({"q1": {"a": 1.0}}, QRELS, MEASURES, candidates=Candidates(5))
    # The search for the best rank begins at the number of queries.
    assert found.values[0].tolist() == [0, 0, 0, 0, 0.5, 0]
    assert found.values[1].tolist() == [0, 0, 0, 0, 0.5, 0]


@given(st.permutations(list("abcdefgh")), st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_percentile_rank_against_a_loop(order: list[str], relevant: set[str]) -> None:
    run = {"q": {id: float(-rank) for rank, id in enumerate(order)}}
    found = score_run(run, {"q": dict.fromkeys(relevant, 1)}, ["mpr", "mrr-published"], candidates=Candidates(8))
    ranks = [rank for rank, id in enumerate(order, start=1) if id in relevant]
    assert found.means["MPR"] == pytest.approx(np.mean([1 - rank / 8 for rank in ranks]))
    assert found.means["MRR-published"] == pytest.approx(1 / max(1, min(1, ranks[0] - 1)))


def test_intervals_by_the_bootstrap() -> None:
    draw = np.random.default_rng(3)
    qrels = {f"q{number}": {"a": 1, **({"b": 1} if number % 3 else {})} for number in range(30)}
    runs = {
        name: {query: dict(zip("abcdef", draw.random(6).tolist(), strict=True)) for query in qrels}
        for name in ("one", "two")
    }
    table = RankingTable.of(runs, qrels, ["mpr", "mrr"], against="one", candidates=Candidates(6), seed=4)
    # As 1,000 draws of pairs, query by query, find it.
    pairs = {name: [] for name in runs}
    counts = np.array([len(grades) for grades in qrels.values()])
    values = {name: scores.of("mpr") for name, scores in table.scores.items()}
    for weights in resampled(len(qrels), 1000, 4):
        for name, own in values.items():
            pairs[name].append((weights * counts * own).sum() / (weights * counts).sum())
    low, high = np.quantile(np.array(pairs["two"]) - np.array(pairs["one"]), [0.025, 0.975])
    found = table.difference("two", "MPR")
    assert found is not None and found.interval == pytest.approx((low, high)) and low < found.value < high
    assert found.value == pytest.approx(table.scores["two"].means["MPR"] - table.scores["one"].means["MPR"])
    assert table.estimate("one", "MRR").interval is not None
    content = table.to_dict()["systems"]
    assert content["one"]["differences"] is None
    assert content["two"]["differences"]["MPR"]["interval"] == pytest.approx([low, high])
