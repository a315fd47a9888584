from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranking_by_hand import by_hand, order

from graphdoc.errors import EvaluationError, SettingsError
from graphdoc.evaluation.ranking import DEFAULT_MEASURES, Measure, RankingScores, score_run
from graphdoc.evaluation.trec import own_documents

pytest.importorskip("ir_measures")

MEASURES = (
    "nDCG@1", "nDCG@3", "nDCG@10", "nDCG", "P@1", "P@5", "P@20", "MRR", "MRR@2", "MRR@10", "MAP", "MAP@3",
    "recall@1", "recall@3", "recall@100", "success@1", "success@5",
)  # fmt: skip
DOCUMENTS = "abcdefghijkl"
# Few different scores, so that there are ties.
RANKING = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-3, 3).map(float), max_size=12)
GRADES = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 4), max_size=8)
RUNS = st.dictionaries(st.sampled_from(["q1", "q2", "q3", "q4"]), RANKING, max_size=4)
QRELS = st.dictionaries(st.sampled_from(["q1", "q2", "q3", "q5"]), GRADES, max_size=4).map(
    lambda qrels: {**qrels, "q1": {**qrels.get("q1", {}), "c": 2}}
)


def shuffled(values: dict[str, Any], draw: np.random.Generator) -> dict[str, Any]:
    keys = draw.permutation(list(values)).tolist() if values else []
    return {key: shuffled(values[key], draw) if isinstance(values[key], dict) else values[key] for key in keys}


def by_query(scores: RankingScores) -> dict[str, dict[str, float]]:
    return {query: dict(zip(scores.measures, row, strict=True))
            for query, row in zip(scores.queries, scores.values.tolist(), strict=True)}  # fmt: skip


@given(RUNS, QRELS)
def test_measures_as_they_are_defined(run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> None:
    found = score_run(run, qrels, MEASURES)
    positive = [query for query, grades in qrels.items() if max(grades.values(), default=0) > 0]
    assert found.queries == tuple(positive)
    assert set(found.without_positive) == qrels.keys() - set(positive)
    assert found.missing == tuple(query for query in positive if not run.get(query))
    expected = [[by_hand(name, run.get(query, {}), qrels[query]) for name in MEASURES] for query in positive]
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    assert list(found.means.values()) == pytest.approx(np.mean(expected, axis=0).tolist())


def test_equal_scores_go_by_id() -> None:
    qrels = {"q1": {"b": 1}}
    assert score_run({"q1": {"b": 1.0, "a": 1.0}}, qrels, ["mrr"]).means == {"MRR": 0.5}
    assert score_run({"q1": {"b": 1.0, "c": 1.0}}, qrels, ["mrr"]).means == {"MRR": 1.0}
    # The libraries beneath would take these for equal, or go by another order of ids.
    assert score_run({"q1": {"c": 1.0, "b": 1.0 + 1e-15}}, qrels, ["map", "p@1"]).means == {"MAP": 1.0, "P@1": 1.0}
    assert order({"b": 1.0, "a": 1.0, "c": 2.0}) == ["c", "a", "b"]


def test_own_documents_are_dropped_on_both_sides() -> None:
    run = {"q:a": {"a": 3.0, "b": 2.0, "c": 1.0}, "q:d": {"d": 1.0}, "q:e": {"e": 2.0, "b": 1.0}}
    qrels = {"q:a": {"a": 2, "c": 1}, "q:d": {"d": 2}, "q:e": {"e": 2, "b": 1}}
    plain = score_run(run, qrels, ["mrr@10", "recall@5"])
    assert plain.means == {"MRR@10": 1.0, "recall@5": 1.0}
    found = score_run(run, qrels, ["mrr@10", "recall@5"], own=own_documents(qrels, grade=2))
    assert by_query(found) == {"q:a": {"MRR@10": 0.5, "recall@5": 1.0}, "q:e": {"MRR@10": 1.0, "recall@5": 1.0}}
    assert found.without_positive == ("q:d",)
    alone = score_run({"a": {"a": 2.0, "b": 1.0}}, {"a": {"b": 1}}, ["p@1"], own=own_documents({"a": {"b": 1}}))
    assert alone.means == {"P@1": 1.0}


def test_measures_as_users_write_them() -> None:
    for text, name in (
        ("ndcg@10", "nDCG@10"),
        (" nDCG@5 ", "nDCG@5"),
        ("map", "MAP"),
        ("AP@100", "MAP@100"),
        ("p@5", "P@5"),
        ("Precision@5", "P@5"),
        ("mrr@10", "MRR@10"),
        ("RR", "MRR"),
        ("R@100", "recall@100"),
        ("recall@100", "recall@100"),
        ("success@1", "success@1"),
    ):
        assert str(Measure.parse(text)) == name
        assert Measure.parse(name) == Measure.parse(text)
    assert all(str(Measure.parse(name)) == name for name in (*MEASURES, *DEFAULT_MEASURES))
    wrong: Any
    for wrong in ("ndcg@0", "ndcg@-1", "ndcg@1.5", "ndcg@", "f1", "", "ndcg 10", "recall", "p", "success", 10, None):
        with pytest.raises(SettingsError) as raised:
            Measure.parse(wrong)
        assert str(wrong) in str(raised.value)
    for measures, value in (([], "measures"), (["mpr"], "candidates"), (["mpr@10"], "mpr"), (["hr"], "hr")):
        with pytest.raises(SettingsError, match=value):
            score_run({}, {"q1": {"a": 1}}, measures)
    assert score_run({}, {"q1": {"a": 1}}, ["map", "ap", "MAP"]).measures == ("MAP",)


def test_what_cannot_be_measured() -> None:
    for qrels in ({}, {"q1": {}}, {"q1": {"a": 0, "b": -1}}):
        with pytest.raises(EvaluationError, match=f"0 of {len(qrels)} "):
            score_run({"q1": {"a": 1.0}}, qrels)
    for score in (np.nan, np.inf):
        with pytest.raises(EvaluationError, match=f"'q1'.*'b'.*{score}"):
            score_run({"q1": {"a": 1.0, "b": score}}, {"q1": {"a": 1}})
